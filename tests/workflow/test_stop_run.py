"""Runs that stop when every mean is known with the wanted width: requests, the page, and the same stop after a kill."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from httpserver import chat, scripted, serving
from maieutic.config.settings import Run
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.scores.anytime import betting_interval
from running import ROOT, environment, maieutic, overlay

WIDTH, ITEMS = "width=0.11", 1319
ROUNDS = (50, 75, 113, 170, 255)
FEW_WRONG = 5  # of 256


def is_wrong(question: str) -> bool:
    """Return True if the tutor answers a question wrongly."""
    return hashlib.sha256(question.encode()).digest()[0] < FEW_WRONG


@contextmanager
def tutor(data: Path) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Serve a tutor that solves nearly all problems of GSM8k; yield its entry and the questions that it was asked."""
    lines = (data / "gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines()
    answers = {row["question"]: row["answer"].rpartition("#### ")[2] for row in map(json.loads, lines)}
    questions: list[str] = []

    def answer(_: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        prompt = body["messages"][-1]["content"]
        question = max((text for text in answers if text in prompt), key=prompt.rindex)
        questions.append(question)
        return 200, chat({"content": f"Final Answer: {'1' if is_wrong(question) else answers[question]}"}), {}

    with serving(scripted(answer)) as address:
        yield {"engine": "hosted", "model": "m", "base_url": f"{address}/v1", "endpoint": "chat"}, questions


def start(folder: Path, config: Path, *more: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "maieutic", "run", config.name, "--cores", "2", "--stop-at", WIDTH, *more]
    with open(folder / "run.log", "w", encoding="utf-8") as log:
        return subprocess.Popen(
            line, cwd=folder, text=True, stdout=log, stderr=log,
            env={**environment(), "PYTHONPATH": str(ROOT / "workflow")}, start_new_session=True,
        )  # fmt: skip


def run_file(folder: Path, data: Path, entry: dict[str, Any]) -> Path:
    keys = {"tutors": ["far"], "tasks": ["mathtutorbench/problem_solving"]}
    return overlay(folder, {"edition": "published", "data_dir": str(data), "models": {"far": entry}, "run": keys})


def last_lines(folder: Path) -> tuple[int, str]:
    """Return the number of items asked, and the output."""
    output = (folder / "run.log").read_text(encoding="utf-8")
    match = re.search(rf"(\d+) of {ITEMS:,} items were asked, which saves ([\d,]+) requests to tutors", output)
    assert match is not None, output[-3000:]
    assert int(match[1]) + int(match[2].replace(",", "")) == ITEMS
    return int(match[1]), output


def expected_items(data: Path, wrong: Callable[[str], bool]) -> int:
    """Return the number of items after which the run must stop, computed from the data and the tutor's answers."""
    records = [json.loads(line) for line in (data / "gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines()]
    items = {item.id: item for item in LOADERS["gsm8k_solving"].load(records, "problem_solving")}
    order = ranked_by_seed(items, Run(tutors=[], tasks=["any"]).seed)
    answers = [0.0 if wrong(items[name].vars["question"]) else 1.0 for name in order]
    for limit in ROUNDS:
        low, high = betting_interval(answers[:limit], ITEMS)
        if high - low <= float(WIDTH.partition("=")[2]):
            return limit
    raise AssertionError("no round is narrow enough")


def test_a_killed_run_stops_where_it_knows_enough(checkouts: Callable[[], Path], data: Path) -> None:
    folder = checkouts()
    items = expected_items(data, is_wrong)
    assert items > ROUNDS[0], "the kill is in the second round"
    with tutor(data) as (entry, questions):
        process = start(folder, run_file(folder, data, entry))
        until = time.monotonic() + 200
        while len(questions) <= ROUNDS[0] and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        recovered = maieutic(folder, "recover")
        assert recovered.returncode == 0, recovered.stderr
        process = start(folder, run_file(folder, data, entry))
        assert process.wait(300) == 0, (folder / "run.log").read_text(encoding="utf-8")[-3000:]
    stopped, output = last_lines(folder)
    assert stopped == len(set(questions)) == items
    assert "covers the value over all items with a probability of 95 %" in output
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    assert f"{items} of {ITEMS:,} items were asked, which saves {ITEMS - items:,} requests to tutors" in page
