"""Estimate of the time that a served model needs for its requests.

Reading prompts is limited by compute: a forward pass costs two operations per parameter and token, and GPUs reach the
share PEAK_SHARE of their peak. Writing answers is limited by memory bandwidth: a decoding step reads all weights once
for all sequences in flight, and GPUs reach the share BANDWIDTH_SHARE of their bandwidth. docs/cluster.md explains these
assumptions, with results for several models and GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from maieutic.config.models import Model, VllmModel, WeightsOnly

PEAK_SHARE, BANDWIDTH_SHARE = 0.4, 0.6
BYTES_PER_PARAMETER = 2.0  # for weights in bfloat16
START_SECONDS = 90.0  # time to start a server, without reading its weights
DISK_BYTES_PER_SECOND = 2e9  # bytes of weights read per second
SIZE_IN_NAME = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s?b(?![a-z])", re.IGNORECASE)


class Gpu(NamedTuple):
    """Figures from a GPU's data sheet.

    operations: dense bfloat16 operations per second; bandwidth: memory bandwidth in bytes per second; memory: memory in
    bytes.
    """

    operations: float
    bandwidth: float
    memory: float


GPUS = {
    "a10": Gpu(125e12, 0.6e12, 24e9),
    "l40s": Gpu(362e12, 0.864e12, 48e9),
    "a100": Gpu(312e12, 2.04e12, 80e9),
    "h100": Gpu(989e12, 3.35e12, 80e9),
    "h200": Gpu(989e12, 4.8e12, 141e9),
    "b200": Gpu(2250e12, 8.0e12, 180e9),
}


class ParameterCount(NamedTuple):
    """Numbers of parameters in billions. total: all stored parameters; active: the parameters used for one token."""

    total: float
    active: float


def parameter_count(name: str, model: Model) -> ParameterCount | None:
    """Return a model's size from its registry entry, or from a name that contains one, such as 7B; None if unknown."""
    if not isinstance(model, VllmModel | WeightsOnly):
        return None
    if isinstance(model, VllmModel) and model.size is not None:
        return ParameterCount(model.size.total, model.size.active or model.size.total)
    weights = model.weights
    words = " ".join(str(part) for part in (getattr(weights, "repo", None), model.label, name) if part)
    match = SIZE_IN_NAME.search(words)
    if match is None and (small := re.search(r"(?<![\d.])(\d+)\s?m(?![a-z])", words, re.IGNORECASE)):
        return ParameterCount(float(small[1]) / 1000, float(small[1]) / 1000)
    return ParameterCount(float(match[1]), float(match[1])) if match else None


def server_seconds(
    size: ParameterCount, gpu: Gpu, gpus: int, requests: float, prompts: float, answers: float, at_once: int
) -> float:
    """Return the estimated seconds that one server needs for some requests, including its start.

    gpus: number of GPUs of the server; prompts, answers: total tokens of all prompts and of all answers; at_once:
    maximum number of sequences in flight.
    """
    active, stored = size.active * 1e9, size.total * 1e9
    reading = 2 * active * prompts / (gpus * gpu.operations * PEAK_SHARE)
    batch = max(1.0, min(at_once, requests))
    # A step reads each weight once for the whole batch. A large batch uses all experts of a mixture of experts.
    touched = min(stored, active * batch)
    memory = BYTES_PER_PARAMETER * touched / (gpus * gpu.bandwidth * BANDWIDTH_SHARE)
    arithmetic = 2 * active * batch / (gpus * gpu.operations * PEAK_SHARE)
    writing = answers / batch * max(memory, arithmetic)
    return START_SECONDS + BYTES_PER_PARAMETER * stored / DISK_BYTES_PER_SECOND + reading + writing


def fits_in_memory(size: ParameterCount, gpu: Gpu, gpus: int) -> bool:
    """Return True if the weights leave a quarter of the memory for the KV cache of the sequences."""
    return BYTES_PER_PARAMETER * size.total * 1e9 <= 0.75 * gpus * gpu.memory


class GpuJob(NamedTuple):
    """A job that serves a model on GPUs of one node.

    stage: `tutors`, `judges` (which start when all tutors have answered) or `checks` (which need no tutor); seconds:
    its length, with the server's start.
    """

    stage: str
    model: str
    gpus: int
    seconds: float


def queue_widths(nodes: int) -> list[int]:
    """Return the numbers of nodes to estimate: powers of two up to `nodes`, and `nodes`."""
    widths = [1]
    while widths[-1] * 2 < nodes:
        widths.append(widths[-1] * 2)
    return widths if nodes == 1 else [*widths, nodes]


def wall_seconds(jobs: Sequence[GpuJob], nodes: int, gpus_per_node: int) -> float:
    """Return the seconds until all jobs have ended on some nodes, if no other jobs use them.

    The longest jobs start first, each on the node where enough GPUs are free earliest. Judging starts when all tutors
    have answered. Raises ValueError for a job that needs more GPUs than a node has.
    """
    free = [[0.0] * gpus_per_node for _ in range(nodes)]  # for each node, the times at which its GPUs are free, sorted
    answered = schedule([job for job in jobs if job.stage == "tutors"], free, 0.0)
    ends = [answered, schedule([job for job in jobs if job.stage == "judges"], free, answered)]
    return max(*ends, schedule([job for job in jobs if job.stage == "checks"], free, 0.0))


def schedule(jobs: Iterable[GpuJob], free: list[list[float]], ready: float) -> float:
    """Add jobs to the nodes' schedules, and return the time at which the last one ends; `ready` without jobs.

    free: for each node, the times at which its GPUs are free, in ascending order; updated in place. ready: earliest
    start of the jobs.
    """
    end = ready
    for job in sorted(jobs, key=lambda job: -job.seconds):
        if job.gpus > len(free[0]):
            raise ValueError(f"{job.model} needs {job.gpus} GPUs on one node, and a node has {len(free[0])}")
        node = min(free, key=lambda times: times[job.gpus - 1])
        stop = max(node[job.gpus - 1], ready) + job.seconds
        node[:] = sorted([*node[job.gpus :], *[stop] * job.gpus])
        end = max(end, stop)
    return end
