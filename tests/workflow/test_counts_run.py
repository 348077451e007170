"""Tests of counted requests: `estimate` and the dry run count what a run sends, for several run files of one folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from httpserver import serving
from obedient_judge import answering
from running import NO_PAGE, environment, overlay, run

JUDGE_ENTRY = {"engine": "judge", "model": "scripted", "rubrics": ["mrbench_taxonomy", "kmp_error_reason"]}
# Each run overwrites the others' items: they share file names, but differ in limits, tasks and seeds.
RUNS: dict[str, dict[str, Any]] = {
    "a": {"tutors": ["scripted", "echo", "reference"], "tasks": ["mrbench", "kmpbench/ec"], "judges": ["strict"]},
    "b": {"tutors": ["scripted", "echo"], "tasks": ["mrbench"], "judges": ["strict"], "limit": 3, "seed": 5},
    "c": {"tutors": ["other", "scripted"], "tasks": ["kmpbench/ec", "mrbench"], "limit": 5, "name": "third"},
}
COUNT_LINE = re.compile(r"^new requests: (.*)$", re.MULTILINE)
COUNT_SCRIPT = (
    "import sys; from pathlib import Path; from maieutic.plan import rules; from maieutic.tools import estimate, pinning;"
    "rows = estimate.estimate_rows(rules.plan_before_pins(pinning.merged_configuration([Path(sys.argv[1])]))[0], 'h100');"
    "print(sum(row.requests or 0 for row in rows), all(row.exact for row in rows), *(row.requests for row in rows))"
)


def answer(prompt: str) -> str:
    """Answer judges with their JSON form, and tutors with a step, so that the judge of reasons receives requests."""
    if "JSON" in prompt:
        return json.dumps({"verdict": "Yes"})
    return "<correctness>no</correctness>\n<error_step_num>2</error_step_num>\n<error_reason>Added.</error_reason>"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Any]]:
    handler = answering(answer)
    with serving(handler) as address:
        yield address, handler


@pytest.fixture(scope="module")
def folder(checkouts: Callable[[], Path], server: tuple[str, Any]) -> Path:
    folder = checkouts()
    hosted = {"engine": "hosted", "model": "m", "base_url": f"{server[0]}/v1", "endpoint": "chat"}
    models = {"scripted": hosted, "other": {**hosted, "model": "n"}, "strict": JUDGE_ENTRY}
    for name, keys in RUNS.items():
        overlay(folder, {"models": models, "run": {"max_unreadable": 1.0, **keys}}, f"{name}.yaml")
    return folder


def counted_by_dry_run(folder: Path, name: str) -> tuple[int, bool, str]:
    """Return the number of requests that a dry run counts, True if the count is exact, and the line that states it."""
    done = run(folder, folder / f"{name}.yaml", "-n")
    assert done.returncode == 0, done.stdout
    [line] = COUNT_LINE.findall(done.stdout)
    requests = re.sub(r" \([^)]*\)", "", line.partition(";")[0])  # parentheses repeat a part of the number
    numbers = re.findall(r"(\d+)(?:,|$)", requests)
    return sum(map(int, numbers)), "about" not in line.partition(";")[0], line


def counted_by_estimate(folder: Path, name: str) -> tuple[int, bool]:
    """Return the number of requests that `maieutic estimate` counts, and True if the count is exact."""
    command = [sys.executable, "-c", COUNT_SCRIPT, f"{name}.yaml"]
    env = {**environment(), "PYTHONPATH": "workflow"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    number, exact, *_ = done.stdout.split()
    return int(number), exact == "True"


def equal_counts(folder: Path) -> dict[str, int]:
    """Check that dry run and estimate agree, and return the number of requests by run file."""
    counts = {}
    for name in RUNS:
        number, exact, line = counted_by_dry_run(folder, name)
        assert (number, exact) == counted_by_estimate(folder, name), f"{name}: {line}"
        counts[name] = number
    return counts


def test_three_run_files_of_one_folder_are_counted_alike_and_truly(folder: Path, server: tuple[str, Any]) -> None:
    assert all(equal_counts(folder).values())
    for name in RUNS:
        done = run(folder, folder / f"{name}.yaml", *NO_PAGE)
        assert done.returncode == 0, done.stdout[-3000:]
    assert equal_counts(folder) == {"a": 0, "b": 0, "c": 0}, "all answers are on file, whichever run made the items"
    for batch in ("mrbench/scripted", "kmpbench/scripted"):
        journal = folder / f"results/journal/grades/strict/{batch}.jsonl"
        journal.write_text("".join(journal.read_text(encoding="utf-8").splitlines(True)[1:]), encoding="utf-8")
    counts, before = equal_counts(folder), len(server[1].requests)
    assert counts["a"] == 2
    done = run(folder, folder / "a.yaml", *NO_PAGE)
    assert done.returncode == 0 and len(server[1].requests) - before == counts["a"], "the count is what the run sends"
