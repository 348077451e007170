"""Run of the papers' scale up to the report: the published files, eight tutors, a judge (`make test-scale`).

It takes minutes on two cores. tests/unit/test_page.py limits the rows of a chart whatever the number of items.
"""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path

import pandas as pd
from running import overlay, run
from scripted import at_endpoint, endpoint, served

TUTORS = tuple(f"tutor-{number}" for number in range(1, 9))
TASKS = [
    "mathtutorbench", "mrbench", "tutorbench/copy_text", "kmpbench/fqa_mathchat", "kmpbench/gen_followup_mathchat",
    "kmpbench/gen_similar_mathchat", "kmpbench/ec_stepverify",
]  # fmt: skip
MINUTES, PAGE_MB, MEMORY_GB = 8, 50, 1.5


def test_the_papers_scale_reaches_the_page_in_minutes(checkout: Path, data: Path, tmp_path: Path) -> None:
    with endpoint() as address:
        config = at_endpoint(address, data, TUTORS, tasks=TASKS, judges=["scripted-judge"])
        start = time.monotonic()
        process = run(checkout, overlay(tmp_path, config))
        minutes, requests = (time.monotonic() - start) / 60, served(address)
    assert process.returncode == 0, process.stdout[-4000:]
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    report = checkout / "results/report"
    size = (report / "index.html").stat().st_size / 2**20
    scores = pd.read_csv(report / "scores.csv")
    jobs = process.stdout.count("\nrule ") + process.stdout.count("\nlocalrule ")
    print(f"{requests} requests, {jobs} jobs, {minutes:.1f} min, page {size:.1f} MB, at most {memory:.2f} GB a process")
    assert set(TUTORS) <= set(scores.tutor) and scores.benchmark.nunique() == 4
    assert json.loads((report / "problems.json").read_text()) == []
    assert requests > 150_000
    assert minutes < MINUTES and size < PAGE_MB and memory < MEMORY_GB
