"""What a run asks of the machine that it starts on: interpreters, images, GPUs, SLURM, all before the first job."""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import IO, Any

from maieutic.config.models import HostedModel, JudgeModel
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.ledger import now
from maieutic.core.progress import clock
from maieutic.core.run_files import VARIABLE as run_files_of_jobs
from maieutic.plan import cluster, images, preflight, telling
from maieutic.plan.jobs import save_config as saved
from maieutic.plan.rules import RulePlan, Wildcards
from maieutic.plan.saving import save_config
from maieutic.serving.budget import VARIABLE, Allowance
from maieutic.serving.handover import RUN, Run

log = logging.getLogger(__name__)
HELD: list[IO[str]] = []  # what this process holds until it ends
BEGAN, BEGAN_SECONDS = now(), time.time()
Job = Any  # of Snakemake
Workflow = Any


def in_containers(workflow: Workflow) -> bool:
    """Whether a run uses images (--sdm apptainer)."""
    return any(method.name == "APPTAINER" for method in workflow.deployment_settings.deployment_method)


def interpreter(plan: RulePlan, workflow: Workflow, stack: str) -> str:
    """The Python of an environment; inside a container it is the image's own."""
    if in_containers(workflow):
        return "python3"
    return getattr(plan.config.interpreters, stack) or sys.executable


def shared_servers(plan: RulePlan, workflow: Workflow) -> dict[str, str]:
    """The variable by which jobs share their servers; empty in images, whose processes end with their job."""
    value = "" if in_containers(workflow) else Run.here(plan.config.servers.linger).variable()
    return {RUN: value}


def budget(plan: RulePlan) -> dict[str, str]:
    """The variable by which jobs keep to the run's budget; empty where it has none."""
    if not plan.run.budget.limits():
        return {VARIABLE: ""}
    models = {name: plan.answering(name) for name, entry in plan.models.items() if isinstance(entry, JudgeModel)}
    prices = {
        name: entry.price for name, entry in plan.models.items() if isinstance(entry, HostedModel) and entry.price
    }
    allowance = Allowance(budget=plan.run.budget, purse=Path(paths.PURSE), models=models, prices=prices)
    return {VARIABLE: allowance.to_json()}


def run_files(workflow: Workflow) -> dict[str, str]:
    """Return the variable by which jobs name this run's files in commands that they print."""
    here = Path.cwd()
    files = [Path(file) for file in workflow.overwrite_configfiles]
    return {
        run_files_of_jobs: shlex.join(
            str(file.relative_to(here) if file.is_relative_to(here) else file) for file in files
        )
    }


def gpu_gres(workflow: Workflow) -> str | None:
    """How a cluster's jobs ask for GPUs as a generic resource (`gpu_gres` of the profile); None: as `gpu`."""
    defaults = workflow.resource_settings.default_resources or {}
    return str(defaults["gpu_gres"].raw).strip("'\"") if "gpu_gres" in defaults else None


def model_resources(plan: RulePlan, workflow: Workflow) -> dict[str, Any]:
    """What a job of one model asks of a machine: a further attempt gets more time and memory.

    `server_gpus` is what a profile limits, however GPUs are asked for. Every rule that asks a model has it.
    """
    gres = gpu_gres(workflow)

    def gres_of(wildcards: Wildcards) -> str:
        gpus = plan.needs(wildcards).gpus
        return f"{gres}:{gpus}" if gres and gpus else ""

    return {
        "mem_mb": lambda wildcards, attempt: plan.needs(wildcards).mem_mb * attempt,
        "runtime": lambda wildcards, attempt: plan.needs(wildcards).runtime * attempt,
        "gpu": lambda wildcards: 0 if gres else plan.needs(wildcards).gpus,
        "gres": gres_of,
        "server_gpus": lambda wildcards: plan.needs(wildcards).gpus,
        "nodes": 1,
    }


def asked_models(plan: RulePlan, jobs: Iterable[Job]) -> list[str]:
    """The models that some planned job will ask."""
    asking = [job for job in jobs if job.resources.get("server_gpus") is not None]
    return sorted({model for job in asking for model in plan.models_of(job.wildcards)})


def used_images(plan: RulePlan, jobs: Iterable[Job]) -> dict[str, tuple[str, str]]:
    """The image of each environment that some planned job runs in: what the config says, and its file."""
    files = {job.container_img_url: job.container_img_path for job in jobs if job.container_img}
    named = plan.config.containers.model_dump()
    return {stack: (url, files[url]) for stack, url in named.items() if url in files}


def asked_of_slurm(plan: RulePlan, job: Job) -> cluster.Asked:
    """What one planned job asks. Another cluster, or a file that chooses partitions, is not for us to check."""
    elsewhere = any(job.resources.get(name) for name in ("cluster", "clusters", "slurm_cluster"))
    partition = None if elsewhere else job.resources.get("slurm_partition")
    return cluster.Asked(
        model=", ".join(plan.models_of(job.wildcards)),
        step=job.rule.name,
        gpus=plan.needs(job.wildcards).gpus,
        minutes=job.resources.get("runtime") or 0,
        partition=str(partition) if partition else None,
    )


def gpu_total(workflow: Workflow) -> int | None:
    """The GPUs that all jobs together may have (`resources` of the profile); None: no limit."""
    totals = workflow.global_resources
    return min((totals[name].value for name in ("server_gpus", "gpu") if name in totals), default=None)


def start_run(plan: RulePlan, workflow: Workflow) -> None:
    """Before the first job: check that all that it needs is there, and save what this run is. Raises UserError."""
    hold_results()
    jobs = list(workflow.dag.needrun_jobs())
    models, serve = asked_models(plan, jobs), interpreter(plan, workflow, "serve")
    if in_containers(workflow):
        images.check_images(used_images(plan, jobs))
    cluster.check_gpus(plan.config, models, gpu_total(workflow))
    if workflow.executor_plugin.name == "slurm":
        asked = [asked_of_slurm(plan, job) for job in jobs if not job.is_local]
        cluster.check_slurm(asked, workflow.executor_settings.status_command)
    prepared = {dict(job.wildcards.items())["model"] for job in jobs if job.rule.name == "prepare_weights"}
    preflight.check_run(plan.config, serve, sorted({*models, *prepared}), telling.to_be_asked(plan, jobs))
    show_time_left(workflow)
    show_failures_once(workflow)
    Path(paths.PURSE).unlink(missing_ok=True)
    job = saved(plan)
    if other := other_run(Path(plan.own(paths.CONFIG)), job.config["run"]):
        print(other, file=sys.stderr)
    save_config(job=job, out=Path(paths.RUN_CONFIG), provenance=Path(paths.RUN_PROVENANCE))


def hold_results(lock: Path = Path(paths.RUN_LOCK)) -> None:
    """Hold the results for this run, until its process ends. Raises UserError where another checkout's run has them.

    Snakemake's own lock lies in a checkout: two of them may share their results by a link.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    handle = open(lock, "a+", encoding="utf-8")  # noqa: SIM115 - as long as the process lives
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        owner, _, folder = handle.read().strip().partition(" in ")
        handle.close()
        if folder != str(Path.cwd()):  # in this one Snakemake's lock decides, or --nolock
            raise UserError(
                str(lock.resolve().parent), f"a run of another checkout works there ({owner}, in {folder})",
                "wait for its end, or give this checkout results of its own",
            ) from None  # fmt: skip
        return
    except OSError as error:  # a file system without locks
        log.warning("%s cannot be locked (%s): start no other run on these results", lock, error.strerror)
        return
    handle.truncate(0)
    handle.write(f"host {socket.gethostname()} pid {os.getpid()} in {Path.cwd()}\n")
    handle.flush()
    HELD.append(handle)


def show_time_left(workflow: Workflow) -> None:
    """Let a terminal's bars say how long each stage is likely to go on: the logger itself shows what has passed."""
    handlers = workflow.logger_manager.get_log_handlers()
    bars = [handler.progress for handler in handlers if hasattr(handler, "progress")]
    if not bars:  # another logger, or none: rich need not be there
        return
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        """By the mean of the jobs that are done: jobs of minutes leave no speed of the last seconds."""

        def render(self, task: Task) -> Text:
            if not task.completed or not task.total or task.finished or task.elapsed is None:
                return Text("")
            return Text(f"{clock(task.elapsed * (task.total / task.completed - 1))} left", style="dim")

    for progress in bars:
        progress.columns = (*progress.columns, TimeLeft())


def show_failures_once(workflow: Workflow) -> None:
    """Let the terminal's logger leave out a failed job's command and its log.

    The job has written its error itself, and the run's last lines name cause and log. `.snakemake/log` keeps all of it.
    """
    for handler in workflow.logger_manager.get_log_handlers():
        if hasattr(handler, "event_handler"):
            handler.addFilter(partial(is_no_repetition, handler.event_handler.jobs_info))


def is_no_repetition(jobs: dict[int, dict[str, Any]], record: logging.LogRecord) -> bool:
    """Return whether a record of Snakemake's says more than the job itself.

    jobs: what the logger knows of each job; of one that failed, its log files are taken away.
    """
    event = getattr(record, "event", None)
    if event == "job_error" and (job := jobs.get(getattr(record, "jobid", -1))):
        job["log"] = []
    return not (event == "error" and "returned non-zero exit status" in record.getMessage())


def other_run(saved_config: Path, run: dict[str, Any]) -> str | None:
    """A line where the folder holds a page of another selection, which this run writes anew."""
    from maieutic.plan.runs import saved_run

    if not saved_config.is_file():
        return None
    before = saved_run(saved_config)
    changed = sorted(f"run.{key}" for key in {*before, *run} if before.get(key) != run.get(key))
    if not changed:
        return None
    what = ", ".join(changed)
    return f"{saved_config.parent} holds a page of other settings ({what}), written anew now: run.name keeps several"


def say_after_dry_run(plan: RulePlan, workflow: Workflow) -> None:
    """When this process ends: of a dry run, what it would ask and what that costs. Snakemake has no hook for it."""

    def say() -> None:
        dag = getattr(workflow, "_dag", None)
        if dag is None or not workflow.dryrun:
            return
        try:
            print(
                telling.requests_line(
                    plan, telling.planned_requests(plan, list(dag.needrun_jobs(exclude_finished=False)))
                )
            )
        except Exception as error:  # of whatever kind: a plan without this line is a plan
            print(f"new requests: not counted ({type(error).__name__}: {error})")

    atexit.register(say)


def end_run(plan: RulePlan, workflow: Workflow, page: str | None) -> None:
    """The last lines of a run, of which each says one thing."""
    failed = sorted(getattr(workflow.scheduler, "failed", ()), key=lambda job: (job.rule.name, str(job.wildcards)))
    for line in telling.last_lines(plan, failed, BEGAN, BEGAN_SECONDS, page):
        print(line, file=sys.stderr)


def partial_report(plan: RulePlan, workflow: Workflow) -> str | None:
    """What a failed run does last: the command of its partial report, or None where the report is there already."""
    if not any(job.rule.name == "build_report" for job in workflow.dag.needrun_jobs()):
        return None
    # Never under the final names: Snakemake would take the report for made, and leave the failed tutor out for good.
    partial = plan.own(paths.PARTIAL_REPORT)
    return (
        f"-m maieutic build-report --config {paths.RUN_CONFIG} --provenance {paths.RUN_PROVENANCE}"
        f" --results {paths.ROOT} --out {partial} --missing-ok"
        f" --log {paths.log_of('build_report').replace('.log', '.partial.log')}"
        f" && echo 'what is there so far: {partial}/index.html' >&2 || true"
    )
