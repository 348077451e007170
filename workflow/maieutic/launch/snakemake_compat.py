"""Access to all undocumented attributes of Snakemake 9 that this package reads.

`tests/unit/test_snakemake_compat.py` checks each attribute in the pinned version of Snakemake.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from maieutic.core.rule_functions import with_parameters

Workflow = Any  # snakemake.workflow.Workflow
Job = Any  # snakemake.jobs.Job
INTERRUPTS: list[int] = []  # signals of Ctrl-C and SIGTERM that this process has received
RECORDS_SECONDS = 2.0
LOCAL_TWIN = "_locally"  # ends the name of a rule's twin, whose jobs call hosted models only


def store_parameters_of_resources() -> None:
    """Store the parameters of the method that evaluates a job's resources in the method.

    Snakemake reads them twice for each resource of each job, and computing them takes a tenth of the time of a large
    plan.
    """
    from snakemake.resources import Resource

    with_parameters(Resource.evaluate)


def uses_containers(workflow: Workflow) -> bool:
    """Return True if a run uses container images (--sdm apptainer)."""
    return any(method.name == "APPTAINER" for method in workflow.deployment_settings.deployment_method)


def conda_lines(workflow: Workflow) -> list[str]:
    """Return a line if the user's profile asks for conda environments, of which this workflow has none."""
    if not any(method.name == "CONDA" for method in workflow.deployment_settings.deployment_method):
        return []
    profile = os.environ.get("SNAKEMAKE_PROFILE")
    source = f"the profile of SNAKEMAKE_PROFILE ({profile})" if profile else "the command line or profile"
    fix = "unset SNAKEMAKE_PROFILE" if profile else "leave it out; containers are used with --sdm apptainer"
    return [f"{source} sets use-conda, but no rule has a conda environment, so it has no effect. Fix: {fix}"]


def run_files(workflow: Workflow) -> list[Path]:
    """Return the files that are named with --configfile on the command line."""
    return [Path(str(file)) for file in workflow.overwrite_configfiles]


def read_config_files(workflow: Workflow) -> list[Path]:
    """Return all configuration files that Snakemake read before it loaded the rules."""
    return [Path(str(file)) for file in workflow.config_settings.configfiles or ()]


def default_resource(workflow: Workflow, name: str) -> str | None:
    """Return the profile's default value of a resource as text; None if the profile does not set one."""
    defaults = workflow.resource_settings.default_resources or {}
    return str(defaults[name].raw).strip("'\"") if name in defaults else None


def resource_total(workflow: Workflow, name: str) -> int | None:
    """Return the amount of a resource that all jobs together may use; None if the profile sets no limit."""
    totals = workflow.global_resources
    return totals[name].value if name in totals else None


def planned_jobs(workflow: Workflow) -> list[Job]:
    """Return the jobs of a run that remain to be executed."""
    return list(workflow.dag.needrun_jobs())


def runs_beside_snakemake(job: Job) -> bool:
    """Return True if a cluster's executor does not submit a job. In a dry run, `job.is_local` is True for each job."""
    rule = job.rule
    return bool(rule.norun or rule.name in rule.workflow._localrules)


def asks_model(job: Job) -> bool:
    """Return True if a job sends requests to a model: its rule has a twin for hosted models, or is one.

    Further rules that serve a model train, embed or score with it.
    """
    name = str(job.rule.name)
    if job.resources.get("server_gpus") is None:
        return False
    return name.endswith(LOCAL_TWIN) or job.rule.workflow.is_rule(f"{name}{LOCAL_TWIN}")


def planned_jobs_of_dry_run(workflow: Workflow) -> list[Job] | None:
    """Return the jobs that a dry run planned; None if the run is not a dry run or its jobs were never computed."""
    dag = getattr(workflow, "_dag", None)
    return None if dag is None or not workflow.dryrun else list(dag.needrun_jobs(exclude_finished=False))


def jobs_of_dry_run(snakefile: Path, config: dict[str, Any], targets: Sequence[str] | None = None) -> list[Job]:
    """Return the jobs of a run, each after those whose outputs it reads. Nothing is executed.

    config: configuration, which overrides the registries of the working directory; targets: files that are made anew
    with all that they need, None for the jobs that a run would execute. The profile of the user's environment does not
    apply. Raises WorkflowError if a rule's input neither exists nor can be made.
    """
    from snakemake.api import SnakemakeApi
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    words, environment = sys.argv, dict(os.environ)
    os.environ.pop("SNAKEMAKE_PROFILE", None)
    sys.argv = ["snakemake", "-n", "--workflow-profile", "none"]
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
            workflow_api = api.workflow(
                resource_settings=ResourceSettings(cores=1),
                config_settings=ConfigSettings(config=config),
                snakefile=snakefile,
                workdir=Path.cwd(),
            )
            anew = DAGSettings(targets=set(targets or ()), forcetargets=True, rerun_triggers=frozenset())
            dag = workflow_api.dag(DAGSettings() if targets is None else anew)
            dag.execute_workflow(executor="dryrun")
            workflow = workflow_api._workflow
            needed = set(workflow.dag.needrun_jobs(exclude_finished=False))
            return [
                job for jobs in workflow.dag.toposorted() for job in jobs if job in needed and job.rule.name != "all"
            ]
    finally:
        logging.disable(disabled)
        sys.argv = words
        os.environ.clear()
        os.environ.update(environment)


def failed_jobs(workflow: Workflow) -> list[Job]:
    """Return the failed jobs of a run, sorted by rule and wildcards; empty if the run never started."""
    return sorted(getattr(workflow.scheduler, "failed", ()), key=lambda job: (job.rule.name, str(job.wildcards)))


def slurm_status_command(workflow: Workflow) -> str | None:
    """Return the command with which the SLURM executor polls its jobs; None for any other executor."""
    return workflow.executor_settings.status_command if workflow.executor_plugin.name == "slurm" else None


class IntendedExecutor(NamedTuple):
    """The executor that a call of snakemake names, also in a dry run.

    partition_file, array_jobs: options of the SLURM executor, None if not set.
    """

    name: str | None
    partition_file: Path | None = None
    array_jobs: str | None = None


def intended_executor() -> IntendedExecutor:
    """Return the executor of this process's command line and profiles. A dry run does not tell it to its workflow."""
    executor, file = executor_of(tuple(sys.argv[1:])), os.environ.get("SNAKEMAKE_SLURM_PARTITIONS")
    if file and executor.name and not executor.partition_file:
        return executor._replace(partition_file=Path(file))
    return executor


@cache
def executor_of(words: tuple[str, ...]) -> IntendedExecutor:
    """Return the executor of a command line of Snakemake, which is parsed once."""
    from snakemake.cli import parse_args

    try:
        _, arguments = parse_args(list(words))
    except (Exception, SystemExit):  # another program that runs Snakemake as a library
        return IntendedExecutor(None)
    # An option that is not set has a placeholder as its value.
    file, array_jobs = (
        str(value) if isinstance(value := getattr(arguments, f"slurm_{name}", None), str | Path) else None
        for name in ("partition_config", "array_jobs")
    )
    return IntendedExecutor(arguments.executor, Path(file) if file else None, array_jobs)


def image_of_job(job: Job) -> tuple[str, str] | None:
    """Return the address and the file of the container image in which a job runs; None without a container."""
    return (job.container_img_url, job.container_img_path) if job.container_img else None


def in_order(jobs: Iterable[Job], workflow: Workflow) -> list[Job]:
    """Return jobs in the order in which the rules are written, which is that of the data, and of their wildcards."""
    places = {rule.name: number for number, rule in enumerate(workflow.rules)}
    return sorted(jobs, key=lambda job: (places.get(job.rule.name, len(places)), sorted(job.wildcards.items())))


def notice_interrupts() -> None:
    """Remember every Ctrl-C and SIGTERM. One that falls between two jobs leaves no job that was running.

    Snakemake's handler of SIGTERM takes a lock of its scheduler. If the interrupted code holds the lock, the run would
    wait for ever, so the handler runs in a thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)

    def interrupt(number: int, frame: object) -> NoReturn:
        INTERRUPTS.append(number)
        raise KeyboardInterrupt

    def terminate(number: int, frame: object) -> None:
        assert callable(before)
        INTERRUPTS.append(number)
        threading.Thread(target=before, args=(number, None), daemon=True).start()

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    if callable(before):
        signal.signal(signal.SIGTERM, terminate)


def was_interrupted(workflow: Workflow) -> bool:
    """Return True if the run was ended by SIGTERM or Ctrl-C."""
    scheduler = workflow.scheduler
    return bool(INTERRUPTS or getattr(scheduler, "_user_kill", None) or getattr(scheduler, "running", ()))


def display_handler(workflow: Workflow) -> Any:
    """Return the terminal's log handler if it can show a run (`snakemake_logger_plugin_maieutic`), else None.

    With --verbose and --printshellcmds it prints Snakemake's records instead.
    """
    handlers = [handler for handler in workflow.logger_manager.get_log_handlers() if hasattr(handler, "attach")]
    return next((handler for handler in handlers if not handler.is_loud), None)


def wait_for_records(workflow: Workflow) -> None:
    """Wait until the thread of the terminal's log handler has taken all records, for at most RECORDS_SECONDS."""
    queue = getattr(workflow.logger_manager, "_queue", None)
    until = time.monotonic() + RECORDS_SECONDS
    while queue is not None and not queue.empty() and time.monotonic() < until:
        time.sleep(0.05)


class JobErrors(logging.Handler):
    """Handler that keeps the executor's messages about failed jobs."""

    def __init__(self, messages: dict[int, str]) -> None:
        """messages: filled with the last message about each job, by job number."""
        super().__init__()
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message of a record about a failed job."""
        if getattr(record, "event", None) == "job_error" and (message := getattr(record, "rule_msg", None)):
            self.messages[getattr(record, "jobid", -1)] = str(message)


def keep_job_errors(workflow: Workflow, messages: dict[int, str]) -> None:
    """Keep the executor's messages about failed jobs, by job number, with any logger of the terminal."""
    workflow.logger_manager.logger.addHandler(JobErrors(messages))
