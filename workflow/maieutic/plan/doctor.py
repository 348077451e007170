"""`maieutic doctor`: is this machine, and a run file, ready? Each finding with its fix."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from maieutic.config.models import HostedModel, VllmModel
from maieutic.core.errors import UserError
from maieutic.plan import cluster, images, preflight
from maieutic.plan.pinning import configuration
from maieutic.plan.plan import Plan
from maieutic.plan.rules import plan_before_pins, plan_of
from maieutic.plan.scale import BYTES, weights_of
from maieutic.serving.devices import candidates, gpu_names
from maieutic.serving.room import memory_mb

State = Literal["ok", "note", "fault"]
COLOURS = {"ok": "green", "note": "yellow", "fault": "red"}
ROOM_MB = 5000  # of disk beside the weights


class Finding(NamedTuple):
    """One thing that was looked at. fix: what to do, empty where there is nothing to do."""

    what: str
    state: State
    finding: str
    fix: str = ""


def doctor(*, configfile: list[Path] | None = None, offline: bool = False) -> None:
    """Look at this machine, and at a run file: environments, disk, memory, GPUs, endpoints, keys, SLURM, images, pins.

    configfile: run files, as of snakemake; without one the machine alone; offline: ask no endpoint, and say which
    variable each would get: for somebody else's run file. Raises UserError naming every fault.
    """
    from rich.console import Console
    from rich.markup import escape

    console = Console(soft_wrap=True, highlight=False)
    findings = list(findings_of(configfile or [], offline))
    for finding in findings:
        fix = f" Fix: {escape(finding.fix)}" if finding.fix else ""
        mark = f"[{COLOURS[finding.state]}]{finding.state:5}[/]"
        console.print(f"{mark} {escape(finding.what)}: {escape(finding.finding)}.{fix}")
    if faults := sum(one.state == "fault" for one in findings):
        raise UserError("maieutic doctor", f"{faults} of the lines above are faults", "mend them, and run it again")


def findings_of(files: Sequence[Path], offline: bool = False) -> Iterator[Finding]:
    """All findings, the machine's first."""
    plan = None
    if files:
        raw = configuration(files)
        yield from checked("run file", partial(plan_of, raw), f"{', '.join(map(str, files))} is right")
        try:
            plan, _ = plan_before_pins(raw)
        except UserError:
            return
    yield from environments(plan)
    yield disk(plan)
    yield memory(plan)
    yield from gpus(plan)
    yield slurm()
    yield containers(plan)
    if plan is not None:
        yield from endpoints(plan, offline)


def checked(what: str, check: Callable[[], object], right: str) -> Iterator[Finding]:
    """A check that raises UserError, as findings."""
    try:
        check()
    except UserError as error:
        for fault in error.all:
            yield Finding(f"{what}: {fault.place}", "fault", fault.problem, fault.mend)
    else:
        yield Finding(what, "ok", right)


def served(plan: Plan | None) -> dict[str, VllmModel]:
    """The models that a run serves itself."""
    used = {} if plan is None else {name: plan.models[name] for name in plan.used_models}
    return {name: model for name, model in used.items() if isinstance(model, VllmModel)}


def environments(plan: Plan | None) -> Iterator[Finding]:
    """The environments of this checkout, built from its locks."""
    for stack, fix in (("driver", "make driver"), ("serve", "make env (with a GPU: make env VARIANT=cuda)")):
        link = Path(".venv") / stack
        needed = stack == "driver" or bool(served(plan))
        if not link.exists():
            state: State = "fault" if needed and plan is not None else "note"
            yield Finding(f"environment {stack}", state, "not there", fix)
            continue
        built = link.resolve().name.rpartition("-")[2]
        fresh = built in images.locks_of(stack)
        yield Finding(
            f"environment {stack}",
            "ok" if fresh else "fault",
            "as its lock says" if fresh else f"built from lock {built}, this checkout has another",
            "" if fresh else fix,
        )


def disk(plan: Plan | None) -> Finding:
    """Room for weights and results."""
    free = shutil.disk_usage(".").free >> 20
    sizes = [weights_of(name, model) for name, model in served(plan).items()]
    needed = ROOM_MB + sum(round(BYTES * size.total * 1000) for size in sizes if size)
    unknown = f", {sum(size is None for size in sizes)} of unknown size" if None in sizes else ""
    finding = f"{free // 1000} GB free, about {needed // 1000} GB needed{unknown}"
    fix = "make room, or put results on a larger disk (a link)"
    return Finding("disk", "ok" if free > needed else "fault", finding, "" if free > needed else fix)


def memory(plan: Plan | None) -> Finding:
    """Memory for the largest job."""
    free, total = memory_mb()
    needs = {name: model.needs.mem_mb for name, model in served(plan).items()}
    largest = max(needs, key=lambda name: needs[name], default=None)
    if largest is None:
        return Finding("memory", "ok", f"{free // 1000} of {total // 1000} GB free")
    finding = f"{total // 1000} GB, {largest} needs {needs[largest] // 1000} GB"
    if total >= needs[largest]:
        return Finding("memory", "ok", finding)
    fix = f"run it on a cluster (--profile slurm), or lower models.{largest}.needs.mem_mb"
    return Finding("memory", "note", finding, fix)


def gpus(plan: Plan | None) -> Iterator[Finding]:
    """GPUs, their driver, and whether the models fit on them."""
    names = gpu_names()
    _, devices = candidates(os.environ)
    yield Finding("GPUs", "ok" if names else "note", ", ".join(names) or "none, or no driver (nvidia-smi)")
    for name, model in served(plan).items():
        needed = model.needs.gpus
        if needed > len(devices):
            fix = "run it on a cluster (--profile slurm), on a machine with more, or lower needs.gpus"
            yield Finding(f"GPUs of {name}", "note", f"{needed} needed, this machine offers {len(devices)}", fix)


def slurm() -> Finding:
    """Whether this is a login node."""
    if shutil.which("sbatch") is None:
        return Finding("SLURM", "note", "no sbatch on the PATH: this machine is no login node")
    try:
        known = cluster.partitions(cluster.ask("sinfo", "--all", "--noheader", "--format=%P|%l|%G"))
    except UserError as error:
        return Finding("SLURM", "note", error.problem.partition("\n")[0], error.mend)
    words = ", ".join(f"{name} ({partition.gpus} GPUs a node)" for name, partition in sorted(known.items()))
    return Finding("SLURM", "ok", f"partitions: {words}")


def containers(plan: Plan | None) -> Finding:
    """Whether images could be used, and are there."""
    if (shutil.which("apptainer") or shutil.which("singularity")) is None:
        return Finding("containers", "note", "no apptainer: --sdm apptainer cannot be used")
    named = plan.config.containers.model_dump() if plan is not None else {}
    files = {
        stack: (url, url) for stack, url in named.items() if not url.startswith("docker://") and Path(url).exists()
    }
    if not files:
        return Finding("containers", "note", "apptainer is here, no images yet", "containers/build")
    try:
        images.check_images(files)
    except UserError as error:
        return Finding("containers", "fault", error.problem, error.mend)
    return Finding("containers", "ok", f"images of this checkout's locks: {', '.join(files)}")


def endpoints(plan: Plan, offline: bool) -> Iterator[Finding]:
    """Yield whether each hosted model's endpoint answers, takes the key and lists it; offline, what it would get.

    A model that is not listed is a note: an endpoint may serve names that its list lacks.
    """
    for name in plan.used_models:
        model = plan.models[name]
        if isinstance(model, HostedModel) and offline:
            sent = f"the value of {model.key_env}" if model.key_env else "no key"
            yield Finding(f"endpoint of {name}", "note", f"{model.base_url} would get {sent}")
        elif isinstance(model, HostedModel):
            listed: list[str] = []
            check = partial(listed_into, listed, name, model)
            right = f"{model.base_url} answers" + (f", {model.key_env} is set" if model.key_env else "")
            for finding in checked(f"endpoint of {name}", check, right):
                unsure = finding.state == "ok" and not listed
                yield finding._replace(finding=f"{right}, and lists no models") if unsure else finding
            if fix := preflight.unlisted(model, listed):
                yield Finding(f"endpoint of {name}: models.{name}.model", "note", f"{model.model} is not listed", fix)


def listed_into(listed: list[str], name: str, model: HostedModel) -> None:
    """Check an endpoint, and keep the models that it lists."""
    listed += preflight.check_endpoint(name, model)
