"""A tutor's work in one job a benchmark, in shards, in one job for all: the same tables, and nothing is asked twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from running import overlay, run, start
from small import LOCK, NAME, alive, children, driver_pid, stub_of, until

# One of several turns, and items that three shards cannot share evenly.
TASKS, LIMIT = ["mathtutorbench/problem_solving", "mrbench", "kmpbench/ec"], 8
BENCHMARKS = ("mathtutorbench", "mrbench", "kmpbench")
JUDGED, JUDGE = ("mrbench", "kmpbench"), "stub-judge"
FORMS: dict[str, dict[str, Any]] = {
    "three shards": {"shards": 3},
    "one job": {"pack": True},
}


def configured(folder: Path, shards: int = 1, pack: bool = False, pace: float = 0.002) -> Path:
    """A run of one model, which judges too, its work dealt out in some way."""
    judge = {"engine": "judge", "model": NAME, "rubrics": ["mrbench_taxonomy", "kmp_error_reason"], "label_limit": 2}
    models = {NAME: stub_of(folder, pace, shards=shards), JUDGE: judge}
    run_keys = {"tutors": [NAME], "tasks": TASKS, "limit": LIMIT, "max_tokens": 16, "judges": [JUDGE]}
    return overlay(folder, {"models": models, "servers": {"pack": pack}, "run": run_keys})


def asked(folder: Path) -> list[str]:
    """The keys of all requests that were answered, over all journals."""
    journals = (folder / "results/journal").rglob("*.jsonl")
    return [json.loads(line)["key"] for path in journals for line in path.read_text(encoding="utf-8").splitlines()]


def tables(folder: Path) -> dict[str, bytes]:
    """What a run is for: its scores, its replies and verdicts without their times, the prompts."""
    results = folder / "results"
    files = {"scores": (results / "report/scores.csv").read_bytes()}
    for benchmark in BENCHMARKS:
        files[f"{benchmark} prompts"] = (results / f"replies/{benchmark}/prompts/{NAME}.jsonl").read_bytes()
        replies = (results / f"replies/{benchmark}/{NAME}.jsonl").read_text(encoding="utf-8").splitlines()
        kept = [{**json.loads(line), "turns": [turn["text"] for turn in json.loads(line)["turns"]]} for line in replies]
        files[f"{benchmark} replies"] = json.dumps(kept).encode()
    for benchmark, batch in product(JUDGED, (NAME, "_baselines")):
        lines = (results / f"verdicts/{JUDGE}/{benchmark}/{batch}.jsonl").read_text(encoding="utf-8").splitlines()
        assert lines
        files[f"{benchmark} verdicts on {batch}"] = json.dumps(
            [{**json.loads(line), "seconds": 0} for line in lines]
        ).encode()
    return files


@pytest.fixture(scope="module")
def usual(checkouts: Callable[[], Path]) -> Path:
    """A run with a job a benchmark."""
    folder = checkouts()
    done = run(folder, configured(folder))
    assert done.returncode == 0, done.stdout[-3000:]
    return folder


@pytest.fixture(scope="module")
def sharded(checkouts: Callable[[], Path]) -> Path:
    """A run with three jobs a benchmark."""
    folder = checkouts()
    config = configured(folder, **FORMS["three shards"])
    done = run(folder, config)
    assert done.returncode == 0, done.stdout[-3000:]
    return folder


def test_however_the_work_is_dealt_out_the_tables_are_the_same(usual: Path, sharded: Path) -> None:
    assert len(list((sharded / "results/replies").glob(f"*/shards/*/{NAME}.jsonl"))) == 3 * 3
    assert tables(sharded) == tables(usual)
    assert sorted(asked(sharded)) == sorted(asked(usual)), "and no more is asked: no two of these prompts are equal"


@pytest.mark.parametrize("form", FORMS)
def test_another_dealing_out_asks_nothing_again(form: str, usual: Path, sharded: Path) -> None:
    """From one job a benchmark to shards, from shards to one job for all: every answer is on file already."""
    folder = usual if form == "three shards" else sharded
    before, keys = tables(usual), asked(folder)
    config = configured(folder, **FORMS[form])
    told = run(folder, config, "-n").stdout
    assert "generate" in told and "new requests: none" in told, told[-2000:]
    assert told.count("rule judge_all_replies:") == (2 if form == "one job" else 0), "one a batch of tutors"
    done = run(folder, config)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "requests sent: none" in done.stdout
    assert (tables(folder), sorted(asked(folder))) == (before, sorted(keys))


def test_a_packed_job_that_is_killed_goes_on_where_it_was(usual: Path, checkouts: Callable[[], Path]) -> None:
    """A killed job leaves no process: server and workers end with it. Each journal stays, and nothing is asked twice."""
    folder = checkouts()
    process = start(folder, configured(folder, pack=True, pace=0.05))
    until(lambda: (folder / LOCK).exists() and len(asked(folder)) > 10, "first answers")
    driver = driver_pid(folder)
    processes = children(driver)
    os.kill(driver, signal.SIGKILL)
    assert process.wait() != 0
    until(lambda: not alive(processes), "the end of what it had started")
    kept = asked(folder)
    done = run(folder, configured(folder, pack=True))
    assert done.returncode == 0, done.stdout[-3000:]
    assert sorted(asked(folder)) == sorted(asked(usual)) and set(kept) < set(asked(folder))
    assert tables(folder) == tables(usual)
