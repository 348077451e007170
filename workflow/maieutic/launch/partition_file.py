"""The SLURM executor's partition file, with which it chooses a partition by GPUs, memory, cores and time of a job.

`maieutic partitions` writes the file, since the executor's own generator does not know the GPUs of a node, nor its
memory. A run checks it before anything is submitted, and in a dry run.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import yaml

from maieutic.config.faults import suggestion_for
from maieutic.core.errors import UserError, raise_all
from maieutic.core.files import atomic_file
from maieutic.core.terminal import say
from maieutic.launch import cluster

HEADER = """# Partitions of this cluster, written by `maieutic partitions`. The SLURM executor sends each job to the
# partition with the tightest limits that fit. Check the file: remove partitions that you may not use.
#   snakemake --profile slurm --slurm-partition-config {file}
"""


def partitions(*, out: Path = Path("partitions.yaml")) -> None:
    """Write the partition file of this cluster from `sinfo`, with the limits of each partition's largest node.

    Partitions that do not start jobs are left out.

    Args:
        out: file to write

    Raises UserError if SLURM does not answer or has no partitions, or if the file exists or cannot be written.
    """
    if out.exists():
        raise UserError(
            str(out), "the file exists, and may have been edited", "delete it, or choose another file with --out"
        )
    known = cluster.known_partitions()
    if not known:
        raise UserError("sinfo", "expected at least one partition, found none", "run it on the login node")
    usable = {name: partition for name, partition in known.items() if partition.state == "up"}
    quoted = shlex.quote(str(out))
    try:
        with atomic_file(out) as handle:
            handle.write(HEADER.format(file=quoted))
            limits = {name: limits_of(partition) for name, partition in usable.items()}
            yaml.safe_dump({"partitions": limits}, handle, sort_keys=False, default_flow_style=None, width=200)
    except OSError as error:
        raise UserError(str(out), f"cannot be written ({error.strerror})", "choose another file with --out") from None
    gpus = {name: partition.gpu_count() for name, partition in usable.items() if partition.gpu_count()}
    listed = ", ".join(f"{name} with up to {number} a node" for name, number in gpus.items())
    say(f"{out}: {len(usable)} partition(s); GPUs: {listed or 'none'}")
    if closed := [f"{name} ({partition.state})" for name, partition in known.items() if name not in usable]:
        say(f"left out, since they start no jobs: {', '.join(closed)}")
    say(f"next: snakemake --profile slurm --slurm-partition-config {quoted} --configfile my.yaml -n")


def limits_of(partition: cluster.Partition) -> dict[str, Any]:
    """Return a partition's limits by the executor's names. Unknown limits are left out."""
    limits = {
        "max_runtime": partition.minutes,
        "max_threads": partition.cpus,
        "max_mem_mb": partition.mem_mb,
        "max_gpu": partition.gpu_count(),
        "available_gpu_models": partition.models,
    }
    return {name: value for name, value in limits.items() if value not in (None, [])}


class PartitionFile(NamedTuple):
    """A partition file with its content. partitions: the executor's object for each partition, by name."""

    path: Path
    partitions: Mapping[str, Any]


def read_partition_file(path: Path) -> PartitionFile:
    """Read a partition file as the executor reads it. Raises UserError for anything that the executor cannot read."""
    from snakemake_executor_plugin_slurm.partitions import read_partition_file as read
    from snakemake_interface_common.exceptions import WorkflowError

    fix = "write it with `maieutic partitions`, or correct it (docs/cluster.md)"
    if faults := list(faults_of_file(path)):
        raise UserError.of([UserError(f"{path}: partitions.{place}", problem, fix) for place, problem in faults])
    try:
        read_partitions = read(path)
    except (WorkflowError, TypeError, KeyError, AttributeError, ValueError) as error:
        problem = f"cannot be read as a partition file: {' '.join(str(error).split())[:200]}"
        raise UserError(str(path), problem, fix) from None
    if not read_partitions:
        raise UserError(str(path), "expected at least one partition, found none", fix)
    return PartitionFile(path, {partition.name: partition for partition in read_partitions})


CLUSTER_KEYS = ("slurm_cluster", "cluster", "clusters")  # keys that name the cluster of a partition


def faults_of_file(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the problem of each wrong key or value of a partition file's partitions.

    The executor reports one fault at a time, without its place. A file of another form is left to it.
    """
    from snakemake_executor_plugin_slurm.partitions import PartitionLimits

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return
    partitions = content.get("partitions") if isinstance(content, dict) else None
    known = {field.name: field.type for field in fields(PartitionLimits)}
    for name, limits in (partitions if isinstance(partitions, dict) else {}).items():
        if not isinstance(name, str):
            yield str(name), f"expected a name as a text, found the number {name!r}: write '{name}' in quotes"
        elif not isinstance(limits, dict):
            yield name, f"expected limits, such as {{max_runtime: 1440}}, found {limits!r}"
        else:
            for key, value in limits.items():
                if key not in known and key not in CLUSTER_KEYS:
                    hint = suggestion_for(str(key), list(known)).removesuffix(".")
                    yield f"{name}.{key}", f"is not a known key; {hint}"
                elif key in known and (expected := expected_value(key, known[key], value)):
                    yield f"{name}.{key}", f"expected {expected}, found {value!r}"


def expected_value(key: str, kind: Any, value: Any) -> str | None:
    """Return which values a limit can have, as text, if `value` is not one of them; None if it is.

    key: name of the limit; kind: type of the executor's field for it.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    if kind not in (int, float):
        is_list = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
        return None if is_list else "a list of texts, such as [a100]"
    if key == "max_runtime":
        return None if is_number or is_time(value) else "minutes, or a time such as 2-00:00:00"
    if kind is int:
        return None if is_number and value == int(value) else "a whole number"
    return None if is_number else "a number"


def is_time(value: Any) -> bool:
    """Return True if the executor reads a value as a time."""
    from snakemake_executor_plugin_slurm.partitions import parse_time_to_minutes
    from snakemake_interface_common.exceptions import WorkflowError

    try:
        return isinstance(value, str) and parse_time_to_minutes(value) >= 0
    except WorkflowError:
        return False


class JobRequest(NamedTuple):
    """Request of a job of a model. gres: the GPUs as a generic resource, such as `gpu:a100:1`, or empty."""

    model: str
    gpus: int
    cpus: int
    mem_mb: int
    minutes: int
    gres: str = ""

    @property
    def gpu_type(self) -> str:
        """Type of the requested GPUs, such as `a100`; "" for any."""
        return cluster.gpu_type_of(self.gres)

    def multiplied(self, attempt: int) -> JobRequest:
        """Return the request with `attempt` times the memory and time."""
        return self._replace(mem_mb=self.mem_mb * attempt, minutes=self.minutes * attempt)


def partition_scores(file: PartitionFile, request: JobRequest) -> dict[str, float]:
    """Return the executor's score of each partition of a file to which it may send a job. It takes the highest."""
    resources = {
        "gpu": 0 if request.gres else request.gpus,
        "gres": request.gres,
        "mem_mb": request.mem_mb,
        "runtime": request.minutes,
        "nodes": 1,
    }
    job = SimpleNamespace(resources=resources, threads=request.cpus)
    scores = {name: partition.score_job_fit(job) for name, partition in file.partitions.items()}
    return {name: score for name, score in scores.items() if score is not None}


def fitting_partitions(file: PartitionFile, request: JobRequest) -> list[str]:
    """Return the partitions of a file to which the executor may send a job."""
    return list(partition_scores(file, request))


def request_of_attempt(file: PartitionFile, first: JobRequest, attempt: int) -> JobRequest:
    """Return the request of a job's attempt: as many times the first one's memory and time as the attempt's number.

    If this fits no partition, the request is limited to the partition that allows the longest time, and then the most
    memory, of those that fit the first attempt. The executor would send it to the cluster's default partition.
    """
    more = first.multiplied(attempt)
    if attempt == 1 or fitting_partitions(file, more):
        return more
    limits = [file.partitions[name].limits for name in fitting_partitions(file, first)]
    limited = (
        more._replace(mem_mb=int(min(more.mem_mb, limit.max_mem_mb)), minutes=int(min(more.minutes, limit.max_runtime)))
        for limit in limits
    )
    return max(limited, key=lambda request: (request.minutes, request.mem_mb), default=more)


DEFAULT_PARTITION = "of the cluster's default"


def partition_lines(file: PartitionFile | None, jobs: Iterable[tuple[str, str | None, JobRequest]]) -> list[str]:
    """Return a line for each partition with the jobs that the executor will send to it.

    file: partition file of the site, None without one; jobs: rule, partition that its resources name, and request of
    each submitted job.
    """
    counts: dict[str, Counter[str]] = {}
    for rule, named, request in jobs:
        scores = partition_scores(file, request) if file is not None and not named else {}
        partition = named or max(scores, key=scores.__getitem__, default=DEFAULT_PARTITION)
        counts.setdefault(partition, Counter())[rule] += 1
    return [
        f"partition {partition}: {', '.join(f'{number} {rule}' for rule, number in rules.items())}"
        for partition, rules in counts.items()
    ]


def check_requests(file: PartitionFile, requests: Iterable[JobRequest]) -> None:
    """Raise UserError that lists every model whose jobs fit no partition of the file."""
    faults = []
    for request in sorted(set(requests)):
        if fitting_partitions(file, request):
            continue
        types = gpu_types(file)
        if request.gpu_type and request.gpu_type not in types:
            problem = f"no partition of {file.path} has GPUs of type {request.gpu_type}"
            known = f"choose one of {', '.join(types)} (--default-resources gpu_gres=gpu:TYPE)" if types else ""
            fix = known or "add available_gpu_models to the file's partitions"
            faults.append(UserError("default-resources: gpu_gres", problem, fix))
            continue
        kind = f" of type {request.gpu_type}" if request.gpu_type else ""
        problem = (
            f"expected jobs that fit a partition of {file.path}, found {request.gpus} GPU(s){kind}, "
            f"{request.cpus} cores, {request.mem_mb} MB and {request.minutes} minutes; {largest_of(file)}"
        )
        fix = f"lower models.{request.model}.needs, or correct the file"
        faults.append(UserError(f"models.{request.model}.needs", problem, fix))
    raise_all(faults)


def gpu_types(file: PartitionFile) -> list[str]:
    """Return the types of GPUs that a file's partitions name, sorted."""
    return sorted(
        {kind for partition in file.partitions.values() for kind in partition.limits.available_gpu_models or ()}
    )


def largest_of(file: PartitionFile) -> str:
    """Return the limits of a file's partitions as text, such as `gpu: 4 GPU(s), 1440 minutes`."""
    texts = []
    for name, partition in file.partitions.items():
        limits = partition.limits
        types = f" ({', '.join(limits.available_gpu_models)})" if limits.available_gpu_models else ""
        known = [f"{limits.max_gpu} GPU(s){types}"]
        known += [
            f"{value:.0f} {unit}"
            for value, unit in (
                (limits.max_threads, "cores"),
                (limits.max_mem_mb, "MB"),
                (limits.max_runtime, "minutes"),
            )
            if value != float("inf")
        ]
        elsewhere = f" on cluster {partition.partition_cluster}" if partition.partition_cluster else ""
        texts.append(f"{name}{elsewhere} has {', '.join(known)}")
    return "; ".join(texts)


def check_against_cluster(file: PartitionFile, known: Mapping[str, cluster.Partition]) -> None:
    """Raise UserError that lists the partitions of a file that the cluster lacks, or that cannot run its jobs.

    This is the case if their nodes have fewer GPUs, or if all are down.
    """
    faults = []
    for named, partition in file.partitions.items():
        if partition.partition_cluster is not None:
            continue  # a partition of another cluster
        names = [name.strip() for name in named.split(",")]
        if unknown := [name for name in names if name not in known]:
            fix = f"choose one of {', '.join(sorted(known))}, or write the file with `maieutic partitions`"
            faults.append(UserError(str(file.path), f"{unknown[0]!r} is not a partition of this cluster", fix))
            continue
        if not any(known[name].state == "up" for name in names):
            problem = f"partition {named} is {known[names[0]].state}, so that its jobs would not start"
            faults.append(UserError(str(file.path), problem, f"remove {named} from the file"))
        most = max(known[name].gpu_count() for name in names)
        if partition.limits.max_gpu > most:
            requested = partition.limits.max_gpu
            problem = f"expected max_gpu to be at most {most}, the GPUs of a node of {named}, found {requested}"
            faults.append(UserError(str(file.path), problem, "all GPUs of a job are on one node: lower max_gpu"))
    raise_all(faults)
