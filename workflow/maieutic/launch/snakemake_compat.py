"""Undocumented attributes of Snakemake that this package reads, all in one place (Snakemake 9).

`tests/unit/test_snakemake_compat.py` checks each of them on the pinned version.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Workflow = Any  # snakemake.workflow.Workflow
Job = Any  # snakemake.jobs.Job


def uses_containers(workflow: Workflow) -> bool:
    """Return True if a run uses container images (--sdm apptainer)."""
    return any(method.name == "APPTAINER" for method in workflow.deployment_settings.deployment_method)


def run_files(workflow: Workflow) -> list[Path]:
    """Return the files that the command line named with --configfile."""
    return [Path(str(file)) for file in workflow.overwrite_configfiles]


def read_config_files(workflow: Workflow) -> list[Path]:
    """Return all configuration files that Snakemake has read before the rules."""
    return [Path(str(file)) for file in workflow.config_settings.configfiles or ()]


def default_resource(workflow: Workflow, name: str) -> str | None:
    """Return the profile's default of a resource as text, or None."""
    defaults = workflow.resource_settings.default_resources or {}
    return str(defaults[name].raw).strip("'\"") if name in defaults else None


def resource_total(workflow: Workflow, name: str) -> int | None:
    """Return how much of a resource all jobs together may use, or None if the profile sets no limit."""
    totals = workflow.global_resources
    return totals[name].value if name in totals else None


def planned_jobs(workflow: Workflow) -> list[Job]:
    """Return the jobs of a run that are not finished."""
    return list(workflow.dag.needrun_jobs())


def planned_jobs_of_dry_run(workflow: Workflow) -> list[Job] | None:
    """Return the jobs that a dry run planned; None for another run, or if its jobs were never computed."""
    dag = getattr(workflow, "_dag", None)
    return None if dag is None or not workflow.dryrun else list(dag.needrun_jobs(exclude_finished=False))


def failed_jobs(workflow: Workflow) -> list[Job]:
    """Return the failed jobs of a run by rule and wildcards; empty for a run that never started."""
    return sorted(getattr(workflow.scheduler, "failed", ()), key=lambda job: (job.rule.name, str(job.wildcards)))


def slurm_status_command(workflow: Workflow) -> str | None:
    """Return the command by which the SLURM executor polls its jobs; None for another executor."""
    return workflow.executor_settings.status_command if workflow.executor_plugin.name == "slurm" else None


def image_of_job(job: Job) -> tuple[str, str] | None:
    """Return the address and the file of the image that a job runs in, or None."""
    return (job.container_img_url, job.container_img_path) if job.container_img else None


def progress_bars(workflow: Workflow) -> list[Any]:
    """Return the progress displays of the terminal's log handlers (`rich.progress.Progress`)."""
    return [handler.progress for handler in workflow.logger_manager.get_log_handlers() if hasattr(handler, "progress")]


def shows_failed_logs(workflow: Workflow) -> bool:
    """Return True if the command line asks for the logs of failed jobs (--show-failed-logs)."""
    return bool(workflow.output_settings.show_failed_logs)


def filter_records(workflow: Workflow, keep: Callable[[dict[int, dict[str, Any]], Any], bool]) -> None:
    """Filter the records of the terminal's log handlers.

    keep: takes the handler's data on jobs, by number of the job, and a log record; returns False to leave it out.
    """

    def filter_of(jobs: dict[int, dict[str, Any]]) -> Callable[[Any], bool]:
        return lambda record: keep(jobs, record)

    for handler in workflow.logger_manager.get_log_handlers():
        if hasattr(handler, "event_handler"):
            handler.addFilter(filter_of(handler.event_handler.jobs_info))
