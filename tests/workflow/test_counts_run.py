"""Several run files of one folder: `estimate` and the dry run count the same requests, and those are what is asked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gullible import answering
from httpserver import serving
from running import NO_PAGE, environment, overlay, run

JUDGE = {"engine": "judge", "model": "scripted", "rubrics": ["mrbench_taxonomy", "kmp_error_reason"]}
# The three take each other's places in the folder: other limits, tasks and seeds under the same file names.
RUNS: dict[str, dict[str, Any]] = {
    "a": {"tutors": ["scripted", "echo", "reference"], "tasks": ["mrbench", "kmpbench/ec"], "judges": ["strict"]},
    "b": {"tutors": ["scripted", "echo"], "tasks": ["mrbench"], "judges": ["strict"], "limit": 3, "seed": 5},
    "c": {"tutors": ["other", "scripted"], "tasks": ["kmpbench/ec", "mrbench"], "limit": 5, "name": "third"},
}
COUNTED = re.compile(r"^new requests: (.*)$", re.MULTILINE)
ROWS = (
    "import sys; from pathlib import Path; from maieutic.plan import estimate, pinning, rules;"
    "rows = estimate.estimate_rows(rules.plan_before_pins(pinning.merged_configuration([Path(sys.argv[1])]))[0], 'h100');"
    "print(sum(row.requests or 0 for row in rows), all(row.exact for row in rows), *(row.requests for row in rows))"
)


def answer(prompt: str) -> str:
    """Answer judges by their form, and tutors with a step, so that the judge of reasons is asked."""
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
    made = checkouts()
    hosted = {"engine": "hosted", "model": "m", "base_url": f"{server[0]}/v1", "endpoint": "chat"}
    models = {"scripted": hosted, "other": {**hosted, "model": "n"}, "strict": JUDGE}
    for name, keys in RUNS.items():
        overlay(made, {"models": models, "run": {"max_unreadable": 1.0, **keys}}, f"{name}.yaml")
    return made


def dry(folder: Path, name: str) -> tuple[int, bool, str]:
    """Return what a dry run counts: how many requests, and whether all of them are counted and none is supposed."""
    done = run(folder, folder / f"{name}.yaml", "-n")
    assert done.returncode == 0, done.stdout
    [line] = COUNTED.findall(done.stdout)
    asked = re.sub(r" \([^)]*\)", "", line.partition(";")[0])  # of a judge's, how many check it
    numbers = re.findall(r"(\d+)(?:,|$)", asked)
    return sum(map(int, numbers)), "about" not in line.partition(";")[0], line


def estimated(folder: Path, name: str) -> tuple[int, bool]:
    """Return what `maieutic estimate` counts."""
    line = [sys.executable, "-c", ROWS, f"{name}.yaml"]
    env = {**environment(), "PYTHONPATH": "workflow"}
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    number, exact, *_ = done.stdout.split()
    return int(number), exact == "True"


def equal_counts(folder: Path) -> dict[str, int]:
    """Return by run file what will be asked, after the check that both say the same."""
    counts = {}
    for name in RUNS:
        number, exact, line = dry(folder, name)
        assert (number, exact) == estimated(folder, name), f"{name}: {line}"
        counts[name] = number
    return counts


def test_three_run_files_of_one_folder_are_counted_alike_and_truly(folder: Path, server: tuple[str, Any]) -> None:
    assert all(equal_counts(folder).values())
    for name in RUNS:
        done = run(folder, folder / f"{name}.yaml", *NO_PAGE)
        assert done.returncode == 0, done.stdout[-3000:]
    assert equal_counts(folder) == {"a": 0, "b": 0, "c": 0}, "all is on file, whichever run's items lie in the folder"
    for batch in ("mrbench/scripted", "kmpbench/scripted"):
        journal = folder / f"results/journal/grades/strict/{batch}.jsonl"
        journal.write_text("".join(journal.read_text(encoding="utf-8").splitlines(True)[1:]), encoding="utf-8")
    counts, before = equal_counts(folder), len(server[1].requests)
    assert counts["a"] == 2
    done = run(folder, folder / "a.yaml", *NO_PAGE)
    assert done.returncode == 0 and len(server[1].requests) - before == counts["a"], "what was told is asked"
