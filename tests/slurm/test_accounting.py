"""Tests on a SLURM cluster with an accounting database: `sacct` polls the jobs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from nodes import running_cluster
from running import overlay, run
from small import NAME, stub_of


@pytest.fixture(scope="module", autouse=True)
def up() -> Iterator[None]:
    """Start a cluster with slurmdbd."""
    yield from running_cluster("--accounting")


def test_a_run_reaches_its_report(checkout: Path) -> None:
    needs = {"gpus": 1, "cpus": 1, "mem_mb": 3000, "runtime": 10}
    keys = {"tutors": [NAME], "tasks": ["mathtutorbench/problem_solving"], "limit": 4, "max_tokens": 8}
    config = overlay(checkout, {"models": {NAME: stub_of(checkout, needs=needs)}, "run": keys})
    site = (
        "--slurm-status-command", "sacct", "--slurm-init-seconds-before-status-checks", "3", "--slurm-partition-config",
        str(ROOT / "tests/slurm/partitions.yaml"),
    )  # fmt: skip
    process = run(checkout, config, "--profile", "slurm", *site)
    assert process.returncode == 0, process.stdout
    assert (checkout / "results/report/index.html").exists()
    # The query names the job, because the database may contain jobs of clusters that were killed.
    [job] = re.findall(r"SLURM jobid (\d+)", process.stdout)
    command = ["sacct", f"--jobs={job}", "-X", "--noheader", "--parsable2", "--format=State,Partition,AllocTRES"]
    (state,) = subprocess.run(command, text=True, capture_output=True, check=True).stdout.split()
    assert state.startswith("COMPLETED|gpu|") and "mem=3000M" in state
