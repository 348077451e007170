"""`maieutic doctor`: check that this machine and a run file are ready for a run, and print a fix for each fault."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from maieutic.config.models import HostedModel, VllmModel
from maieutic.core.errors import UserError
from maieutic.core.extensions import folders_with_code
from maieutic.core.paths import HOME, here_or_shipped
from maieutic.core.visible import terminal_line
from maieutic.launch import cluster, images, preflight, provenance
from maieutic.launch.config_files import merged_configuration
from maieutic.launch.serving_time import BYTES_PER_PARAMETER, parameter_count
from maieutic.plan.plan import Plan
from maieutic.plan.rules import RulePlan
from maieutic.run_plan import plan_before_pins, plan_of
from maieutic.serving.devices import gpu_names, visible_devices
from maieutic.serving.eviction import memory_mb
from maieutic.tools.counting import count_requests

State = Literal["ok", "note", "fault"]
COLOURS = {"ok": "green", "note": "yellow", "fault": "red"}
RESULTS_MB = 5000  # disk space in MB needed for results, in addition to the weights


class Finding(NamedTuple):
    """Result of one check. subject: the checked thing; fix: the action to take, empty if no action is needed."""

    subject: str
    state: State
    finding: str
    fix: str = ""


def doctor(*, configfile: list[Path] | None = None, offline: bool = False) -> None:
    """Check this machine and a run file: environments, disk, memory, GPUs, endpoints, keys, SLURM, images, pins.

    Args:
        configfile: run files, as for snakemake; if omitted, only the machine is checked
        offline: for run files from other people: contact no endpoint, and run no code of extensions

    Raises:
        UserError: if there are faults
    """
    from rich.console import Console
    from rich.markup import escape

    console = Console(soft_wrap=True, highlight=False)
    findings = list(findings_of(configfile or [], offline))
    for finding in findings:
        fix = f" Fix: {escape(finding.fix)}" if finding.fix else ""
        mark = f"[{COLOURS[finding.state]}]{finding.state:5}[/]"
        console.print(terminal_line(f"{mark} {escape(finding.subject)}: {escape(finding.finding)}.{fix}"))
    if faults := sum(finding.state == "fault" for finding in findings):
        raise UserError(
            "maieutic doctor", f"faults listed above: {faults}", "fix the faults, then run `maieutic doctor` again"
        )


def findings_of(files: Sequence[Path], offline: bool = False) -> Iterator[Finding]:
    """Yield all findings on the run files, the machine and the endpoints."""
    plan = None
    if files:
        raw = merged_configuration(files)
        if offline and (folders := folders_with_code(raw.get("extensions") or [])):
            yield Finding(
                "run file: extensions",
                "fault",
                f"{', '.join(map(str, folders))} contains code, which was not run",
                "read the code, then run `maieutic doctor` without --offline",
            )
            return
        yield from findings_of_check("run file", partial(plan_of, raw), f"{', '.join(map(str, files))} is valid")
        try:
            plan, _ = plan_before_pins(raw)
        except UserError:
            return
    yield from environments(plan)
    if fault := provenance.ownership_fault(HOME):
        yield Finding("git", "note", fault.problem, fault.fix)
    yield from libraries()
    yield disk(plan)
    yield memory(plan)
    yield from gpus(plan)
    yield slurm()
    yield containers(plan)
    if plan is not None:
        yield from start_of_run(raw, plan, offline)


def findings_of_check(what: str, check: Callable[[], object], passed: str) -> Iterator[Finding]:
    """Run a check. Yield one finding per fault in its UserError, or a single finding if the check passes.

    what: subject of the findings; passed: text of the finding if the check passes.
    """
    try:
        check()
    except UserError as error:
        for fault in error.all:
            yield Finding(f"{what}: {fault.place}", "fault", fault.problem, fault.fix)
    else:
        yield Finding(what, "ok", passed)


def served_models(plan: Plan | None) -> dict[str, VllmModel]:
    """Return the models that a run serves itself."""
    used = {} if plan is None else {name: plan.models[name] for name in plan.used_models}
    return {name: model for name, model in used.items() if isinstance(model, VllmModel)}


def environments(plan: Plan | None) -> Iterator[Finding]:
    """Check that each environment of this checkout exists and matches its lock. Yield one finding per environment."""
    for stack, fix in (
        ("driver", "run `make driver`"),
        ("serve", "run `make env` (with a GPU: `make env VARIANT=cuda`)"),
    ):
        link = Path(".venv") / stack
        if not link.exists():
            state: State = "fault" if stack == "driver" and plan is not None else "note"
            yield Finding(f"environment {stack}", state, "not built", fix)
            continue
        built = link.resolve().name.rpartition("-")[2]
        fresh = built in images.lock_hashes(stack)
        yield Finding(
            f"environment {stack}",
            "ok" if fresh else "fault",
            "matches its lock" if fresh else f"built from lock {built}, but this checkout has another lock",
            "" if fresh else fix,
        )


def libraries() -> Iterator[Finding]:
    """Yield a finding if a library of LD_LIBRARY_PATH keeps the serving environment from starting."""
    python = Path(".venv/serve/bin/python")
    if not os.environ.get("LD_LIBRARY_PATH") or not python.exists():
        return
    done = subprocess.run([str(python), "-c", "import zmq, pandas"], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        fix = "unset LD_LIBRARY_PATH (a module or conda has set it)"
        yield Finding("libraries", "fault", f"the serving environment cannot be imported: {last}", fix)


def disk(plan: Plan | None) -> Finding:
    """Return a finding on disk space for weights and results."""
    free = shutil.disk_usage(".").free >> 20
    sizes = [parameter_count(name, model) for name, model in served_models(plan).items()]
    needed = RESULTS_MB + sum(round(BYTES_PER_PARAMETER * size.total * 1000) for size in sizes if size)
    unknown = f" plus {sum(size is None for size in sizes)} model(s) of unknown size" if None in sizes else ""
    finding = f"{free // 1000} GB free, about {needed // 1000} GB needed{unknown}"
    fix = "free disk space, or replace the folder `results` with a link to a larger disk"
    return Finding("disk", "ok" if free > needed else "fault", finding, "" if free > needed else fix)


def memory(plan: Plan | None) -> Finding:
    """Return a finding on the memory for the served model that needs most."""
    free, total = memory_mb()
    needs = {name: model.needs.mem_mb for name, model in served_models(plan).items()}
    largest = max(needs, key=lambda name: needs[name], default=None)
    if largest is None:
        return Finding("memory", "ok", f"{free // 1000} of {total // 1000} GB free")
    finding = f"{total // 1000} GB in total; {largest} needs {needs[largest] // 1000} GB"
    if total >= needs[largest]:
        return Finding("memory", "ok", finding)
    fix = f"run on a cluster (--profile slurm), or lower models.{largest}.needs.mem_mb"
    return Finding("memory", "note", finding, fix)


def gpus(plan: Plan | None) -> Iterator[Finding]:
    """Yield a finding on GPUs and their driver, and one for each model that needs more GPUs than this machine has."""
    names = gpu_names()
    _, devices = visible_devices(os.environ)
    yield Finding("GPUs", "ok" if names else "note", ", ".join(names) or "found no GPU, or no driver (nvidia-smi)")
    for name, model in served_models(plan).items():
        needed = model.needs.gpus
        if needed > len(devices):
            fix = f"use a cluster (--profile slurm) or a machine with more GPUs, or lower models.{name}.needs.gpus"
            yield Finding(
                f"GPUs of {name}", "note", f"expected at least {needed}, found {len(devices)} on this machine", fix
            )


def slurm() -> Finding:
    """Return a finding on SLURM, with its partitions if this is a login node."""
    if shutil.which("sbatch") is None:
        return Finding("SLURM", "note", "sbatch is not on the PATH, so this is not a login node")
    try:
        known = cluster.known_partitions()
    except UserError as error:
        return Finding("SLURM", "note", error.problem.partition("\n")[0], error.fix)
    words = ", ".join(f"{name} ({partition.gpu_count()} GPUs per node)" for name, partition in sorted(known.items()))
    return Finding("SLURM", "ok", f"partitions: {words}")


def containers(plan: Plan | None) -> Finding:
    """Return a finding on apptainer and on the images that the configuration names."""
    if (shutil.which("apptainer") or shutil.which("singularity")) is None:
        return Finding("containers", "note", "apptainer is not on the PATH, so --sdm apptainer cannot be used")
    named = plan.config.containers.model_dump() if plan is not None else {}
    files = {
        stack: (url, url) for stack, url in named.items() if not url.startswith("docker://") and Path(url).exists()
    }
    if not files:
        return Finding("containers", "note", "apptainer is available, but no image exists yet", "run containers/build")
    try:
        images.check_images(files)
    except UserError as error:
        return Finding("containers", "fault", error.problem, error.fix)
    return Finding("containers", "ok", f"images match this checkout's locks: {', '.join(files)}")


def start_of_run(raw: dict[str, Any], plan: RulePlan, offline: bool) -> Iterator[Finding]:
    """Yield the findings of the checks with which a run starts.

    A model that its endpoint does not list is only a note, since an endpoint may serve unlisted models. With `offline`,
    no endpoint is contacted, and the finding names the key that the endpoint would receive. raw: the configuration.
    """
    models = {name: plan.models[name] for name in plan.used_models}
    if offline:
        for name, model in models.items():
            if isinstance(model, HostedModel):
                secret = f"the value of {model.key_env}" if model.key_env else "no key"
                yield Finding(f"endpoint of {name}", "note", f"{model.base_url} would receive {secret}")
        return
    serve = here_or_shipped(plan.config.interpreters.serve or sys.executable)
    for check in preflight.checks_of_start(plan, serve, models, count_requests(raw, plan)):
        listed: list[str] = []
        for finding in findings_of_check(check.subject, partial(collect_result, listed, check.run), check.passed):
            silent = finding.state == "ok" and check.subject.startswith("endpoint") and not listed
            yield finding._replace(finding=f"{check.passed}, but it lists no models") if silent else finding
        name = check.subject.rpartition(" ")[2]
        entry = models.get(name)
        if isinstance(entry, HostedModel) and (fix := preflight.unlisted_model_fix(entry, listed)):
            subject = f"{check.subject}: models.{name}.model"
            yield Finding(subject, "note", f"the endpoint does not list {entry.model}", fix)


def collect_result(listed: list[str], check: Callable[[], object]) -> None:
    """Run a check, and add the models that an endpoint lists to `listed`."""
    result = check()
    listed += result if isinstance(result, list) else []
