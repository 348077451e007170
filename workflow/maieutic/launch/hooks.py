"""Start and end of a run: checks before the first job, resources and variables of jobs, messages on the terminal."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from maieutic.config.batch_apis import batch_api_of
from maieutic.config.models import CriteriaModel, HostedModel, JudgeModel, Needs, RewardModel, VllmModel, WeightsOnly
from maieutic.config.settings import Containers
from maieutic.core import extensions, paths
from maieutic.core.errors import RUN_FILES_VARIABLE, UserError, check_all
from maieutic.core.ledger import utc_now
from maieutic.core.locks import has_locks
from maieutic.core.logs import ONE_WRITER_VARIABLE
from maieutic.core.parent_process import PARENT_VARIABLE
from maieutic.core.rule_functions import with_parameters
from maieutic.core.terminal import say
from maieutic.launch import (
    budget_limits,
    cluster,
    images,
    messages,
    partition_file,
    preflight,
    provenance,
    snakemake_compat,
)
from maieutic.launch.config_files import own_entry_lines
from maieutic.launch.display import RunDisplay
from maieutic.launch.reader_changes import keep_previous_grades
from maieutic.launch.requests import NewRequests, models_perhaps_called, new_requests
from maieutic.launch.results_lock import lock_results
from maieutic.launch.saved_runs import save_config
from maieutic.launch.snakemake_compat import (
    Job,
    Workflow,
    default_resource,
    image_of_job,
    planned_jobs,
    resource_total,
    uses_containers,
)
from maieutic.launch.stage import save_config_job
from maieutic.launch.training_time import TRAINING_RULES, training_lines
from maieutic.launch.watch import RunWatch, remove_old_progress
from maieutic.plan.rules import IS_FINISHED, JobWildcards, RulePlan
from maieutic.preparation.own_readings import checks_of_readings
from maieutic.serving.batches import BATCH_VARIABLE, OUTBOX, BatchFolder, BatchLimits, BatchSettings, has_batches
from maieutic.serving.budget import BUDGET_VARIABLE, Allowance, open_purse
from maieutic.serving.devices import gpu_names
from maieutic.serving.run_environment import RUN_VARIABLE, SnakemakeRun

GPU_RESOURCE = re.compile(r"gpu(?::[\w.-]*[A-Za-z][\w.-]*)?")  # a type is no mere number
EXECUTOR_MESSAGES: dict[int, str] = {}  # messages of the executor about failed jobs, by job number
DISPLAYS: list[RunDisplay] = []  # the display of this run, if the terminal's log handler is the workflow's own
LIVE_PAGES: list[subprocess.Popen[bytes]] = []  # the process that writes the live page
LAST_PAGE_SECONDS = 5  # maximum time for the last version of the live page, in seconds
EXIT_PENDING = 75  # EX_TEMPFAIL of sysexits.h: the same command will succeed later
BATCH_FAULTS: dict[str, UserError] = {}  # by registry entry, the error of its batches at the start of the run
RULES: set[str] = set()  # names of the rules of the jobs that the run has to execute
PAGE_RULES = {"all", "build_report", "check_report", "check_judges", "keep_run"}
STARTED_AT, STARTED_AT_SECONDS = utc_now(), time.time()


def interpreter(plan: RulePlan, workflow: Workflow, stack: str) -> str:
    """Return the Python interpreter of an environment. In containers, it is the interpreter of the image.

    stack: name of the environment, `driver` or `serve`.
    """
    if uses_containers(workflow):
        return "python3"
    named = getattr(plan.config.interpreters, stack)
    return paths.here_or_shipped(named) if named else sys.executable


def images_of(plan: RulePlan) -> Containers:
    """Return a run's container images, taken from the workflow's folder if missing in the working directory."""
    images = plan.config.containers
    places = {name: paths.here_or_shipped(path) for name, path in images.model_dump().items()}
    return images.model_copy(update=places)


def shared_servers_variable(plan: RulePlan, workflow: Workflow) -> dict[str, str]:
    """Return the environment variable that lets jobs share servers.

    Its value is empty in containers, because the processes in a container end with their job.
    """
    value = "" if uses_containers(workflow) else SnakemakeRun.here(plan.config.servers.linger).variable()
    return {RUN_VARIABLE: value}


def budget_variable(plan: RulePlan) -> dict[str, str]:
    """Return the environment variable that passes the run's budget to its jobs. It is empty if there is no budget."""
    if not plan.run.budget.is_limited():
        return {BUDGET_VARIABLE: ""}
    models = answering_entries(plan)
    prices = {
        name: price
        for name, entry in plan.models.items()
        if isinstance(entry, HostedModel) and (price := entry.full_price)
    }
    most_tokens = {name: most for name, entry in plan.models.items() if (most := getattr(entry, "most_tokens", None))}
    allowance = Allowance(
        budget=plan.run.budget,
        budget_file=Path(paths.RUN_SPENDING),
        models=models,
        prices=prices,
        most_tokens=most_tokens,
    )
    return {BUDGET_VARIABLE: allowance.to_json()}


def start_purse(plan: RulePlan) -> None:
    """Begin the purse of a run with a budget. What earlier runs have sent in batches stays reserved until collected."""
    pending = BatchFolder().pending() if plan.run.budget.is_limited() else []
    reserved = [(batch.entry, batch.keys, batch.reserved_tokens, batch.reserved_usd) for batch in pending]
    open_purse(Path(paths.RUN_SPENDING), [part for part in reserved if part[2]])


def answering_entries(plan: RulePlan) -> dict[str, str]:
    """Return, for each judge, the registry entry that answers its requests."""
    return {name: plan.answering_entry(name) for name, entry in plan.models.items() if isinstance(entry, JudgeModel)}


def batch_limits(entry: HostedModel) -> BatchLimits:
    """Return the limits of one batch: the provider's, or lower ones of the entry."""
    api = batch_api_of(entry.base_url)
    requests, mb = min(entry.batch_requests or api.requests, api.requests), min(entry.batch_mb or api.mb, api.mb)
    return BatchLimits(requests=requests, mb=mb, url_prefix=api.url_prefix)


def batch_variable(plan: RulePlan) -> dict[str, str]:
    """Return the environment variable with the settings of batches. It is empty without batches."""
    limits = {
        name: batch_limits(entry)
        for name, entry in plan.models.items()
        if isinstance(entry, HostedModel) and entry.batch
    }
    if not limits:
        return {BATCH_VARIABLE: ""}
    judges = {judge: entry for judge, entry in answering_entries(plan).items() if entry in limits}
    prices = {name: price for name in limits if (price := getattr(plan.models[name], "full_price", None))}
    settings = BatchSettings(run=plan.run.name or "", limits=limits, prices=prices, models=judges)
    return {BATCH_VARIABLE: settings.to_json()}


def run_files_variable(workflow: Workflow) -> dict[str, str]:
    """Return the environment variable that lists the run files. Jobs insert them into the commands that they print."""
    here, files = Path.cwd(), snakemake_compat.run_files(workflow)
    return {
        RUN_FILES_VARIABLE: shlex.join(
            str(file.relative_to(here) if file.is_relative_to(here) else file) for file in files
        )
    }


def model_resources(plan: RulePlan, workflow: Workflow) -> dict[str, Any]:
    """Return the resources of a rule that calls a model. Each further attempt of a job gets more time and memory.

    With a partition file, no attempt gets more than a partition allows.

    The GPUs are requested as `gpu` or `gres`. They are also counted as `server_gpus`, which a profile can limit.
    """
    snakemake_compat.store_parameters_of_resources()
    # Name of the GPU resource on a cluster. If the profile does not set it, GPUs are requested as `gpu`.
    gres = default_resource(workflow, "gpu_gres")
    file = site_partitions(workflow)

    def request_of(wildcards: JobWildcards, attempt: int = 1) -> partition_file.JobRequest:
        first = job_request("", plan.needs(wildcards), gres)
        return partition_file.request_of_attempt(file, first, attempt) if file else first.multiplied(attempt)

    functions: dict[str, Callable[..., Any]] = {
        "mem_mb": lambda wildcards, attempt: request_of(wildcards, attempt).mem_mb,
        "runtime": lambda wildcards, attempt: request_of(wildcards, attempt).minutes,
        "gpu": lambda wildcards: 0 if gres else plan.needs(wildcards).gpus,
        "gres": lambda wildcards: request_of(wildcards).gres,
        "server_gpus": lambda wildcards: plan.needs(wildcards).gpus,
    }
    return {**{name: with_parameters(function) for name, function in functions.items()}, "nodes": 1}


def job_request(model: str, needs: Needs, gres: str | None) -> partition_file.JobRequest:
    """Return the resources that a model's job requests in its first attempt.

    gres: name of the GPU resource, None if the profile does not set it.
    """
    gpus = f"{gres}:{needs.gpus}" if gres and needs.gpus else ""
    return partition_file.JobRequest(model, needs.gpus, needs.cpus, needs.mem_mb, needs.runtime, gpus)


def check_slurm_options(plan: RulePlan, workflow: Workflow) -> None:
    """Check the SLURM executor's options, also in a dry run: a partition for every model, and no job arrays.

    Job arrays of the executor (version 2.8) take the resources of the first job, and a failing task deletes the output
    of another one. Raises UserError.
    """
    if workflow.is_main_process and snakemake_compat.intended_executor().array_jobs:
        problem = (
            "job arrays give all jobs the first one's resources, and can delete finished outputs (docs/cluster.md)"
        )
        raise UserError("slurm-array-jobs", problem, "remove the option")
    gres = default_resource(workflow, "gpu_gres") if workflow.is_main_process else None
    if gres and not GPU_RESOURCE.fullmatch(gres):
        problem = f"expected `gpu` or `gpu:TYPE`, found {gres!r}; the number of GPUs is each model's needs.gpus"
        raise UserError("default-resources: gpu_gres", problem, "write, for example, gpu_gres=gpu:a100")
    file = site_partitions(workflow)
    if file is None:
        return
    partition_file.check_requests(
        file,
        (
            job_request(name, entry.needs, gres)
            for name in plan.used_models
            if isinstance(entry := plan.models[name], VllmModel | RewardModel | CriteriaModel | WeightsOnly)
        ),
    )


def site_partitions(workflow: Workflow) -> partition_file.PartitionFile | None:
    """Return the SLURM executor's partition file; None without one, and within jobs.

    Raises UserError if the file is invalid.
    """
    if not workflow.is_main_process:
        return None
    executor = snakemake_compat.intended_executor()
    if executor.name != "slurm" or executor.partition_file is None:
        return None
    return partition_file.read_partition_file(executor.partition_file)


def called_models(plan: RulePlan, jobs: Iterable[Job]) -> list[str]:
    """Return the models that planned jobs will call."""
    asking = [job for job in jobs if job.resources.get("server_gpus") is not None]
    return sorted({model for job in asking for model in plan.models_of(job.wildcards)})


def lines_on_training(plan: RulePlan, jobs: Iterable[Job]) -> list[str]:
    """Return the lines on planned trainings. The GPUs of a cluster's jobs are not those of this machine."""
    trained = [name for job in jobs if job.rule.name in TRAINING_RULES for name in dict(job.wildcards.items()).values()]
    if not trained:
        return []
    return training_lines(plan, trained, [] if snakemake_compat.intended_executor().name == "slurm" else gpu_names())


def used_images(plan: RulePlan, jobs: Iterable[Job]) -> dict[str, tuple[str, str]]:
    """Return the container images in which planned jobs run: the address and the file of each, by environment."""
    files = dict(image for job in jobs if (image := image_of_job(job)))
    named = plan.config.containers.model_dump()
    return {stack: (url, files[url]) for stack, url in named.items() if url in files}


def is_for_other_cluster(job: Job) -> bool:
    """Return True if a job's resources name the cluster to which it goes."""
    return any(job.resources.get(name) for name in partition_file.CLUSTER_KEYS)


def slurm_request(plan: RulePlan, job: Job) -> cluster.JobResources:
    """Return the resources that a planned job requests from SLURM.

    The partition is None if the job goes to another cluster.
    """
    partition = None if is_for_other_cluster(job) else job.resources.get("slurm_partition")
    return cluster.JobResources(
        model=", ".join(plan.models_of(job.wildcards)),
        step=job.rule.name,
        gpus=plan.needs(job.wildcards).gpus,
        minutes=job.resources.get("runtime") or 0,
        partition=str(partition) if partition else None,
        cpus=job.threads,
        mem_mb=job.resources.get("mem_mb") or 0,
        gpu_model=cluster.gpu_type_of(str(job.resources.get("gres") or "")),
    )


def extensions_variable() -> dict[str, str]:
    """Return the environment variable with the folders of the run's extensions."""
    return {extensions.VARIABLE: os.environ.get(extensions.VARIABLE, "")}


def gpu_total(workflow: Workflow) -> int | None:
    """Return the number of GPUs that all jobs together may use, by the profile's `resources`; None if unlimited."""
    totals = [resource_total(workflow, name) for name in ("server_gpus", "gpu")]
    return min((total for total in totals if total is not None), default=None)


def start_run(plan: RulePlan, workflow: Workflow) -> None:
    """Check everything that the first job needs, and save config and provenance. Raises UserError if a check fails."""
    lock_results()
    snakemake_compat.notice_interrupts()
    jobs = planned_jobs(workflow)
    models, serve = called_models(plan, jobs), interpreter(plan, workflow, "serve")
    if uses_containers(workflow):
        images.check_images(used_images(plan, jobs))
    check_resources(plan, workflow, jobs, models)
    prepared = {dict(job.wildcards.items())["model"] for job in jobs if job.rule.name == "prepare_weights"}
    planned = new_requests(plan, jobs)
    check_all(check.run for check in preflight.checks_of_start(plan, serve, sorted({*models, *prepared}), planned))
    for fault in preflight.unready_endpoints(plan.config, models_perhaps_called(planned)):
        say(f"needed only if an answer is not on file: {fault.line}", error=True)
    if (unowned := provenance.ownership_fault(paths.HOME)) is not None:
        say(unowned.line, error=True)
    for line in (
        *snakemake_compat.conda_lines(workflow),
        *own_entry_lines(),
        *preflight.idle_judge_lines(plan),
        *budget_limits.concurrency_lines(plan, planned),
        *lines_on_training(plan, jobs),
    ):
        say(line, error=True)
    snakemake_compat.keep_job_errors(workflow, EXECUTOR_MESSAGES)
    check_budget_without_locks(plan, jobs, Path(paths.ROOT))
    start_purse(plan)
    keep_previous_grades(jobs, Path(paths.ROOT))
    job = save_config_job(plan)
    RULES.update(job.rule.name for job in jobs)
    warning = overwrite_warning(Path(plan.run_path(paths.CONFIG)), job.config["run"])
    if RULES & PAGE_RULES and warning:
        say(warning, error=True)
    save_config(job=job, out=Path(paths.RUN_CONFIG), provenance=Path(paths.RUN_PROVENANCE))
    if has_batches(Path(paths.JOURNALS)):
        from maieutic.launch.batches import collect_batches  # imports the client, which few runs need here

        hosted = [entry for entry in plan.models.values() if isinstance(entry, HostedModel)]
        BATCH_FAULTS.update(collect_batches({(entry.base_url, entry.key_env) for entry in hosted}).faults)
    show_run(plan, workflow, jobs, planned)


def show_run(plan: RulePlan, workflow: Workflow, jobs: list[Job], planned: Sequence[NewRequests]) -> None:
    """Print what the run will ask, and show the progress of its jobs if the terminal's log handler can do so."""
    remove_old_progress()
    if (handler := snakemake_compat.display_handler(workflow)) is None:
        return
    say(f"{len(jobs)} jobs; {messages.requests_line(plan, planned)}", error=True)
    watch = RunWatch(plan, jobs, planned, STARTED_AT_SECONDS)
    if planned:
        try:
            start_live_page()
            say(f"live page: {paths.LIVE_PAGE}", error=True)
        except OSError as error:
            say(f"no live page: {error}", error=True)
    DISPLAYS.append(RunDisplay(watch, sys.stderr.isatty(), EXECUTOR_MESSAGES))
    handler.attach(DISPLAYS[0])


def start_live_page() -> None:
    """Start the process that writes the live page. It ends with the run, or with this process.

    It has a session of its own, so that Ctrl-C does not end it before its last version.
    """
    logs = Path(paths.LOGS.of())
    logs.mkdir(parents=True, exist_ok=True)
    with open(logs / "live.log", "w", encoding="utf-8") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "maieutic", "live"],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), PARENT_VARIABLE: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
        )
    LIVE_PAGES.append(process)


def one_writer_variable(workflow: Workflow) -> dict[str, str]:
    """Return the environment variable that keeps jobs from writing to the terminal, which the run's process does.

    It is also set in the Snakemake of a cluster's job, whose output goes to a log.
    """
    is_set = not workflow.is_main_process or snakemake_compat.display_handler(workflow) is not None
    return {ONE_WRITER_VARIABLE: "1" if is_set else ""}


def check_resources(plan: RulePlan, workflow: Workflow, jobs: Iterable[Job], models: list[str]) -> None:
    """Check the GPUs that the planned jobs request, and that SLURM can run each job.

    models: registry entries that the jobs call. Raises UserError with the errors of all checks.
    """
    total, jobs = gpu_total(workflow), list(jobs)
    checks: list[Callable[[], object]] = [partial(cluster.check_gpus, plan.config, models, total)]
    for job in jobs:
        if job.resources.get("server_gpus") is not None and len(together := plan.models_of(job.wildcards)) > 1:
            checks.append(partial(cluster.check_job_gpus, together, plan.needs(job.wildcards).gpus, total))
    if status_command := snakemake_compat.slurm_status_command(workflow):
        requests = [slurm_request(plan, job) for job in jobs if not job.is_local]
        checks.append(partial(check_slurm, requests, status_command, site_partitions(workflow)))
    check_all(checks)


def check_slurm(
    requests: list[cluster.JobResources], status_command: str, file: partition_file.PartitionFile | None
) -> None:
    """Check that SLURM can run every job, and that the partition file fits the cluster. Raises UserError.

    status_command: command with which the executor polls its jobs.
    """
    known = cluster.check_available(status_command)
    checks: list[Callable[[], object]] = [partial(cluster.check_jobs, requests, known)]
    if file is not None:
        checks.append(partial(partition_file.check_against_cluster, file, known))
    check_all(checks)


def check_budget_without_locks(plan: RulePlan, jobs: Iterable[Job], folder: Path) -> None:
    """Raise UserError if several jobs would share a budget on a file system without locks."""
    asking = [job for job in jobs if job.resources.get("server_gpus") is not None]
    if len(asking) > 1 and plan.run.budget.is_limited() and not has_locks(folder):
        problem = f"{folder} is on a file system without locks, where {len(asking)} jobs cannot share a budget"
        fix = "link results to another file system, or give each model a run of its own"
        raise UserError("run.budget", problem, fix)


def overwrite_warning(saved_config: Path, run: dict[str, Any]) -> str | None:
    """Return a warning if this run will overwrite the page of a run with other settings, else None.

    saved_config: configuration saved with the existing page; run: settings of this run.
    """
    from maieutic.launch.saved_runs import saved_run

    if not saved_config.is_file():
        return None
    before = saved_run(saved_config)
    changed = sorted(f"run.{key}" for key in {*before, *run} if before.get(key) != run.get(key))
    if not changed:
        return None
    settings = ", ".join(changed)
    problem = f"contains the page of a run with other settings ({settings}), and this run overwrites that page"
    return f"{saved_config.parent} {problem}. Fix: set run.name to keep both pages"


def print_requests_after_dry_run(plan: RulePlan, workflow: Workflow) -> None:
    """Arrange for a dry run to end with its requests, their cost, and the faults in the user's files.

    They are printed when the process ends, because Snakemake has no hook for dry runs.
    """
    if IS_FINISHED.get():
        return

    def print_requests() -> None:
        jobs = snakemake_compat.planned_jobs_of_dry_run(workflow)
        if jobs is None:
            return
        try:
            for line in submission_lines(plan, workflow, jobs):
                say(line)
            say(messages.requests_line(plan, new_requests(plan, jobs)))
            for line in messages.absent_lines(plan):
                say(line)
            for _, read in checks_of_readings(plan):
                try:
                    read()
                except UserError as error:
                    for fault in error.all:
                        say(f"the run will not start: {fault.line}", error=True)
        except Exception as error:  # ignore any error, because the dry run is useful without this line of output
            say(f"new requests: not counted ({type(error).__name__}: {error})")

    atexit.register(print_requests)


def submission_lines(plan: RulePlan, workflow: Workflow, jobs: Sequence[Job]) -> list[str]:
    """Return a line for each partition of a SLURM cluster with the jobs that will be sent to it; none elsewhere."""
    if snakemake_compat.intended_executor().name != "slurm":
        return []
    submitted = []
    for job in (job for job in jobs if not snakemake_compat.runs_beside_snakemake(job)):
        resources = job.resources
        partition = resources.get("slurm_partition")
        if is_for_other_cluster(job):
            partition = "of another cluster"
        gpus = plan.needs(job.wildcards).gpus if resources.get("server_gpus") is not None else 0
        request = partition_file.JobRequest(
            "",
            gpus,
            job.threads,
            resources.get("mem_mb") or 0,
            resources.get("runtime") or 0,
            resources.get("gres") or "",
        )
        submitted.append((str(job.rule.name), str(partition) if partition else None, request))
    lines = partition_file.partition_lines(site_partitions(workflow), submitted)
    here = sum(snakemake_compat.runs_beside_snakemake(job) and job.rule.name != "all" for job in jobs)
    return [*lines, f"on this machine: {here} jobs"]


def end_display(workflow: Workflow) -> None:
    """Remove the run's display from the terminal, so that other lines can follow."""
    snakemake_compat.wait_for_records(workflow)
    for display in DISPLAYS:
        display.end()


def end_run(plan: RulePlan, workflow: Workflow, page: str | None) -> None:
    """Send batches, and print the last lines of a run: failed jobs with causes, requests and their cost, the page.

    page: the page; it is not printed if the run was to write other files only.

    Raises SystemExit with EXIT_PENDING if every failed job waits for batches in progress.
    """
    end_display(workflow)
    page = page if RULES & PAGE_RULES and page is not None and Path(page).exists() else None
    for display in DISPLAYS:
        display.write_last_state(page)
    for process in LIVE_PAGES:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LAST_PAGE_SECONDS)
    failed = snakemake_compat.failed_jobs(workflow)
    pending = [job for job in failed if messages.is_pending(job, STARTED_AT_SECONDS)]
    last, ends_pending = list[str](), False
    if snakemake_compat.was_interrupted(workflow):
        if any(Path(paths.JOURNALS).glob(f"**/*{OUTBOX}")):
            last = ["requests for batches were not sent, because the run was interrupted"]
    elif pending:
        from maieutic.launch.batches import pending_lines, send_batches

        order = [
            str(job.params[name])
            for job in snakemake_compat.in_order(planned_jobs(workflow), workflow)
            for name in ("journal", "student_journal")
            if job.params.get(name)
        ]
        work = send_batches(BATCH_FAULTS, order)
        last = pending_lines(work)
        ends_pending = len(pending) == len(failed) and work.is_answered_later
    others = [job for job in failed if job not in pending]
    printed = {number for display in DISPLAYS for number in display.watch.failures}
    for line in messages.last_lines(plan, others, STARTED_AT, STARTED_AT_SECONDS, page, EXECUTOR_MESSAGES, printed):
        say(line, error=True)
    for line in last:
        say(line, error=True)
    if ends_pending:
        raise SystemExit(EXIT_PENDING)


def partial_report_command(plan: RulePlan, workflow: Workflow) -> str | None:
    """Return the command that writes the partial report of a failed run; None if the full report is already written."""
    if not any(job.rule.name == "build_report" for job in planned_jobs(workflow)):
        return None
    # The partial report has its own file names, so that Snakemake does not take it for the finished report.
    partial = plan.run_path(paths.PARTIAL_REPORT)
    return (
        f"-m maieutic build-report --config {paths.RUN_CONFIG} --provenance {paths.RUN_PROVENANCE}"
        f" --results {paths.ROOT} --out {partial} --missing-ok"
        f" --log {paths.PARTIAL_REPORT_LOG}"
        f" && echo 'partial report: {partial}/index.html' >&2 || true"
    )
