"""A tutor's work in one job per benchmark, or in shards: same tables, and no request is repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from running import overlay, run
from small import NAME, stub_of

# kmpbench/ec has conversations of several turns, and the items do not divide evenly into three shards.
TASKS, LIMIT = ["mathtutorbench/problem_solving", "mrbench", "kmpbench/ec"], 8
BENCHMARKS = ("mathtutorbench", "mrbench", "kmpbench")
JUDGED, JUDGE = ("mrbench", "kmpbench"), "stub-judge"


def write_run_file(folder: Path, shards: int = 1, pace: float = 0.002) -> Path:
    """Write the run file of one tutor that is also the judge's model. shards: number of its jobs a benchmark."""
    judge = {"engine": "judge", "model": NAME, "rubrics": ["mrbench_taxonomy", "kmp_error_reason"], "label_limit": 2}
    models = {NAME: stub_of(folder, pace, shards=shards), JUDGE: judge}
    run_keys = {"tutors": [NAME], "tasks": TASKS, "limit": LIMIT, "max_tokens": 16, "judges": [JUDGE]}
    return overlay(folder, {"models": models, "run": run_keys})


def request_keys(folder: Path) -> list[str]:
    """Return the keys of all answered requests in all journals."""
    journals = (folder / "results/journal").rglob("*.jsonl")
    return [json.loads(line)["key"] for path in journals for line in path.read_text(encoding="utf-8").splitlines()]


def tables(folder: Path) -> dict[str, bytes]:
    """Return the products of a run: its scores, its replies and verdicts without times, and its prompts."""
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
    """Return a finished run with one job per benchmark."""
    folder = checkouts()
    done = run(folder, write_run_file(folder))
    assert done.returncode == 0, done.stdout[-3000:]
    return folder


@pytest.fixture(scope="module")
def sharded(checkouts: Callable[[], Path]) -> Path:
    """Return a finished run with three jobs per benchmark."""
    folder = checkouts()
    config = write_run_file(folder, shards=3)
    done = run(folder, config)
    assert done.returncode == 0, done.stdout[-3000:]
    return folder


def test_however_the_work_is_dealt_out_the_tables_are_the_same(usual: Path, sharded: Path) -> None:
    assert len(list((sharded / "results/replies").glob(f"*/shards/*/{NAME}.jsonl"))) == 3 * 3
    assert tables(sharded) == tables(usual)
    assert sorted(request_keys(sharded)) == sorted(request_keys(usual)), "the same requests: all prompts differ"


@pytest.mark.parametrize("shards", [3, 1])
def test_another_dealing_out_asks_nothing_again(shards: int, usual: Path, sharded: Path) -> None:
    """From one job per benchmark to shards, and back: every answer is in a journal already.

    The replies are written anew, so that the judge's requests are not known before.
    """
    folder = usual if shards == 3 else sharded
    before, keys = tables(usual), request_keys(folder)
    config = write_run_file(folder, shards=shards)
    plan = run(folder, config, "-n").stdout
    assert "generate" in plan and f"new requests: {JUDGE} at most about " in plan, plan[-2000:]
    done = run(folder, config)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "requests sent: none" in done.stdout
    assert (tables(folder), sorted(request_keys(folder))) == (before, sorted(keys))
