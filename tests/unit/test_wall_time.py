"""Tests of the estimate of a run's time on one or more nodes of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from maieutic.core.errors import UserError
from maieutic.launch.serving_time import GpuJob, queue_widths, wall_seconds
from maieutic.tools import estimate


def tutors(*seconds: float, gpus: int = 1) -> list[GpuJob]:
    return [GpuJob("tutors", "m", gpus, length) for length in seconds]


@pytest.mark.parametrize(("jobs", "nodes", "gpus", "expected"), [
    ([], 1, 1, 0),
    (tutors(10), 1, 1, 10),
    (tutors(10, 20, 30), 1, 1, 60),
    (tutors(10, 20, 30), 1, 4, 30),
    (tutors(10, 20, 30), 2, 1, 30),  # 30 beside 20 + 10
    (tutors(10, 10, gpus=3), 1, 4, 20),  # two servers of three GPUs do not fit on a node of four
    (tutors(10, 10, gpus=3), 2, 4, 10),
    ([*tutors(10, gpus=4), *tutors(5, 5, 5, 5)], 1, 4, 15),
    ([*tutors(10), GpuJob("judges", "j", 1, 7)], 4, 8, 17),  # judges wait for the tutors
    ([*tutors(10), GpuJob("checks", "j", 1, 7)], 1, 8, 10),  # checks do not
    ([GpuJob("judges", "j", 2, 7)], 1, 2, 7),
])  # fmt: skip
def test_the_longest_jobs_start_first_on_the_first_free_gpus(
    jobs: list[GpuJob], nodes: int, gpus: int, expected: float
) -> None:
    assert wall_seconds(jobs, nodes, gpus) == expected


def test_more_nodes_are_never_slower_and_never_below_the_longest_job() -> None:
    jobs = [*tutors(*range(1, 40)), *tutors(*range(5, 60, 5), gpus=4), GpuJob("judges", "j", 8, 100)]
    times = [wall_seconds(jobs, nodes, 8) for nodes in queue_widths(16)]
    assert times == sorted(times, reverse=True) and times[-1] == 55 + 100
    work = sum(job.gpus * job.seconds for job in jobs)
    assert all(time * nodes * 8 >= work for time, nodes in zip(times, queue_widths(16), strict=True))


def test_an_estimate_prints_the_time_by_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    estimate.estimate(configfile=[Path("config/mathtutorbench.yaml")], nodes=4)
    output = " ".join(capsys.readouterr().out.split())
    assert "time, with 8 GPUs a node and an empty queue: " in output
    assert " h on 1 node, " in output and " h on 2 nodes, " in output and " h on 4 nodes " in output
    assert "the longest of 5 jobs: llama-3.1-70b, " in output
    with pytest.raises(UserError, match=r"--gpus-per-node: llama-3\.1-70b needs more than 2 GPUs on one node"):
        estimate.estimate(configfile=[Path("config/mathtutorbench.yaml")], nodes=4, gpus_per_node=2)
    with pytest.raises(UserError, match="--nodes: expected a number from 1 to 10,000, found 0"):
        estimate.estimate(configfile=[Path("config/mathtutorbench.yaml")], nodes=0)
