"""Estimate of a run's time on a cluster, by the number of nodes that it gets at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


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
