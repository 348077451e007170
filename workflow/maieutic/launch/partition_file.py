"""The SLURM executor's partition file, with which it chooses a partition by GPUs, memory, cores and time of a job.

`maieutic partitions` writes the file. A run checks it before anything is submitted, and in a dry run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from maieutic.core.errors import UserError
from maieutic.launch import cluster


class PartitionFile(NamedTuple):
    """A partition file with its content. partitions: the executor's object for each partition, by name."""

    path: Path
    partitions: Mapping[str, Any]


def read_partition_file(path: Path) -> PartitionFile:
    """Read a partition file as the executor reads it. Raises UserError for anything that the executor cannot read."""
    from snakemake_executor_plugin_slurm.partitions import read_partition_file as read
    from snakemake_interface_common.exceptions import WorkflowError

    fix = "write it with `maieutic partitions`, or correct it (docs/cluster.md)"
    try:
        read_partitions = read(path)
    except (WorkflowError, TypeError, KeyError, AttributeError, ValueError) as error:
        problem = f"cannot be read as a partition file: {' '.join(str(error).split())[:200]}"
        raise UserError(str(path), problem, fix) from None
    if not read_partitions:
        raise UserError(str(path), "expected at least one partition, found none", fix)
    return PartitionFile(path, {partition.name: partition for partition in read_partitions})


class JobRequest(NamedTuple):
    """Request of a job of a model. gres: the GPUs as a generic resource, such as `gpu:a100:1`, or empty."""

    model: str
    gpus: int
    cpus: int
    mem_mb: int
    minutes: int
    gres: str = ""

    def multiplied(self, attempt: int) -> JobRequest:
        """Return the request with `attempt` times the memory and time."""
        return self._replace(mem_mb=self.mem_mb * attempt, minutes=self.minutes * attempt)


def fitting_partitions(file: PartitionFile, request: JobRequest) -> list[str]:
    """Return the partitions of a file to which the executor may send a job."""
    resources = {
        "gpu": 0 if request.gres else request.gpus,
        "gres": request.gres,
        "mem_mb": request.mem_mb,
        "runtime": request.minutes,
        "nodes": 1,
    }
    job = SimpleNamespace(resources=resources, threads=request.cpus)
    return [name for name, partition in file.partitions.items() if partition.score_job_fit(job) is not None]


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


def check_requests(file: PartitionFile, requests: Iterable[JobRequest]) -> None:
    """Raise UserError that lists every model whose jobs fit no partition of the file."""
    faults = []
    for request in sorted(set(requests)):
        if not fitting_partitions(file, request):
            problem = (
                f"expected jobs that fit a partition of {file.path}, found {request.gpus} GPU(s), "
                f"{request.cpus} cores, {request.mem_mb} MB and {request.minutes} minutes; {largest_of(file)}"
            )
            fix = f"lower models.{request.model}.needs, or correct the file"
            faults.append(UserError(f"models.{request.model}.needs", problem, fix))
    if faults:
        raise UserError.of(faults)


def largest_of(file: PartitionFile) -> str:
    """Return the limits of a file's partitions as text, such as `gpu: 4 GPU(s), 1440 minutes`."""
    texts = []
    for name, partition in file.partitions.items():
        limits = partition.limits
        known = [f"{limits.max_gpu} GPU(s)"]
        known += [
            f"{value:.0f} {unit}"
            for value, unit in (
                (limits.max_threads, "cores"),
                (limits.max_mem_mb, "MB"),
                (limits.max_runtime, "minutes"),
            )
            if value != float("inf")
        ]
        texts.append(f"{name} has {', '.join(known)}")
    return "; ".join(texts)


def check_against_cluster(file: PartitionFile, known: Mapping[str, cluster.Partition]) -> None:
    """Raise UserError that lists the partitions of a file that the cluster lacks, or whose nodes have fewer GPUs."""
    faults = []
    for named, partition in file.partitions.items():
        if partition.partition_cluster is not None:
            continue  # a partition of another cluster
        names = [name.strip() for name in named.split(",")]
        if unknown := [name for name in names if name not in known]:
            fix = f"choose one of {', '.join(sorted(known))}, or write the file with `maieutic partitions`"
            faults.append(UserError(str(file.path), f"{unknown[0]!r} is not a partition of this cluster", fix))
            continue
        most = max(known[name].gpus for name in names)
        if partition.limits.max_gpu > most:
            requested = partition.limits.max_gpu
            problem = f"expected max_gpu to be at most {most}, the GPUs of a node of {named}, found {requested}"
            faults.append(UserError(str(file.path), problem, "all GPUs of a job are on one node: lower max_gpu"))
    if faults:
        raise UserError.of(faults)
