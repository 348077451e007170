"""Tests of counted requests: `estimate` and the dry run count what a run sends, for two run files of one folder."""

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
# Each run overwrites the other's items: they share file names, but differ in their limits.
RUNS: dict[str, dict[str, Any]] = {
    "a": {"tutors": ["scripted", "echo", "reference"], "tasks": ["mrbench", "kmpbench/ec"], "judges": ["strict"]},
    "c": {"tutors": ["other", "scripted"], "tasks": ["kmpbench/ec", "mrbench"], "limit": 5, "name": "other"},
}
COUNT_LINE = re.compile(r"^new requests: (.*)$", re.MULTILINE)
COUNT_SCRIPT = (
    "import sys; from pathlib import Path; from maieutic import run_plan; from maieutic.tools import counting, pinning;"
    "raw = pinning.merged_configuration([Path(sys.argv[1])]);"
    "parts = counting.count_requests(raw, run_plan.plan_before_pins(raw)[0]);"
    "print(sum(part.requests or 0 for part in parts), all(part.exact for part in parts))"
)
KEY = "COUNTS_KEY"  # environment variable with the endpoint's key


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
    hosted = {"engine": "hosted", "model": "m", "base_url": f"{server[0]}/v1", "endpoint": "chat", "key_env": KEY}
    models = {"scripted": hosted, "other": {**hosted, "model": "n"}, "strict": JUDGE_ENTRY}
    for name, keys in RUNS.items():
        overlay(folder, {"models": models, "run": {"max_unreadable": 1.0, **keys}}, f"{name}.yaml")
    return folder


def finished(folder: Path, name: str, **env: str) -> str:
    """Run a run file without its page, and return the output."""
    done = run(folder, folder / f"{name}.yaml", *NO_PAGE, **env)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def count_of(folder: Path, name: str) -> tuple[int, bool]:
    """Return the number of a run's requests, and True if it is exact. Dry run and `maieutic estimate` agree."""
    done = run(folder, folder / f"{name}.yaml", "-n")
    assert done.returncode == 0, done.stdout
    [line] = COUNT_LINE.findall(done.stdout)
    requests = re.sub(r" \([^)]*\)", "", line.partition(";")[0])  # parentheses repeat a part of the number
    counted = sum(map(int, re.findall(r"(\d+)(?:,|$)", requests))), "about" not in requests
    command = [sys.executable, "-c", COUNT_SCRIPT, f"{name}.yaml"]
    env = {**environment(), "PYTHONPATH": "workflow"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    number, exact = done.stdout.split()
    assert counted == (int(number), exact == "True"), line
    return counted


def test_two_run_files_of_one_folder_are_counted_alike_and_truly(folder: Path, server: tuple[str, Any]) -> None:
    """Each run overwrites the items of the other, from which its requests cannot be looked up."""
    assert all(number and not exact for number, exact in (count_of(folder, name) for name in RUNS))
    for name in RUNS:
        finished(folder, name, **{KEY: "secret"})
    assert count_of(folder, "c") == (0, True), "the last run's items and replies exist"
    number, exact = count_of(folder, "a")
    assert number and not exact, "all answers are on file, but that is not known before the items are made"
    sent = len(server[1].requests)
    output = finished(folder, "a")
    assert len(server[1].requests) == sent, "no key is set, and none is needed"
    assert f"needed only if an answer is not on file: models.scripted.key_env: the environment variable {KEY}" in output
    assert count_of(folder, "a") == (0, True)
    for batch in ("mrbench/scripted", "kmpbench/scripted"):
        journal = folder / f"results/journal/grades/strict/{batch}.jsonl"
        journal.write_text("".join(journal.read_text(encoding="utf-8").splitlines(True)[1:]), encoding="utf-8")
    done = run(folder, folder / "a.yaml", *NO_PAGE, "--forcerun", "judge_replies_locally")
    assert done.returncode != 0
    assert f"models.scripted.key_env: the environment variable {KEY}" in done.stdout, "two verdicts are certainly asked"
    sent = len(server[1].requests)
    done = run(folder, folder / "a.yaml", *NO_PAGE, "--forcerun", "judge_replies_locally", **{KEY: "secret"})
    assert done.returncode == 0 and len(server[1].requests) - sent == 2, done.stdout[-3000:]
