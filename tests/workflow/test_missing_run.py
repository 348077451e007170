"""Tests of runs whose endpoint never answers some prompts: the others get a value, and the run ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from httpserver import chat, scripted, serving
from obedient_judge import prompt_of
from running import NO_PAGE, overlay, run

# State of an item -> ways in which an endpoint leaves its prompt without an answer
WAYS: dict[str, tuple[str, int, Any]] = {
    "a server error": ("failed", 500, b""),
    "no candidate": ("filtered", 200, {"choices": [], "prompt_filter_results": []}),
}


def endpoint(way: str, every: int) -> tuple[Any, list[str]]:
    """Return a handler that leaves one in `every` prompts without an answer, and the list of these prompts as sent."""
    _, status, body = WAYS[way]
    prompts: list[str] = []
    sent: list[str] = []

    def answer(number: int, request: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        prompt = prompt_of(request)
        if prompt.endswith("2 + 2?"):
            return 200, chat({"content": "4"}), {}
        if prompt not in prompts:
            prompts.append(prompt)
        if prompts.index(prompt) % every == every - 1:
            sent.append(prompt)
            return status, body, {}
        return 200, chat({"content": "#### 18"}), {}

    return scripted(answer), sent


def run_file(folder: Path, address: str) -> Path:
    hosted = {"engine": "hosted", "model": "m", "base_url": f"{address}/v1", "endpoint": "chat", "attempts": 3}
    tutors = {"tutors": ["mine"], "tasks": ["mathtutorbench/problem_solving"]}
    return overlay(folder, {"models": {"mine": hosted}, "run": tutors})


def headline_of(folder: Path) -> pd.Series[Any]:
    """Return the score of the task's main metric."""
    table = pd.read_csv(folder / "results/report/scores.csv")
    [(_, row)] = table[(table.tutor == "mine") & (table.metric == "accuracy") & (table.scoring == "robust")].iterrows()
    return row


@pytest.mark.parametrize(("way", "code"), [("a server error", 1), ("no candidate", 0)])
def test_a_sixth_of_the_prompts_without_an_answer(way: str, code: int, checkouts: Callable[[], Path]) -> None:
    folder, state = checkouts(), WAYS[way][0]
    handler, sent = endpoint(way, 6)
    with serving(handler) as address:
        config = run_file(folder, address)
        done = run(folder, config)
        assert done.returncode == code, done.stdout[-3000:]
        assert (folder / "results/report/index.html").is_file()
        score = headline_of(folder)
        assert (score["n"], score["missing"], score["headline"], score["withheld"]) == (10, 2, False, True)
        assert 0 <= score["if_wrong"] <= score["value"] <= score["if_right"] <= 1
        assert f"2 {state}" in done.stdout, "the last lines name the items without an answer"
        if code:
            assert "run.max_missing: 2 of 12 requests of mine on mathtutorbench failed" in done.stdout
        first = len(sent)
        page = () if code else NO_PAGE  # the page of the second and third run has nothing new
        again = run(folder, config, *page)
        assert again.returncode == code, again.stdout[-3000:]
        assert len(sent) - first == (6 if state == "failed" else 0), "what failed is asked once more"
        requests = len(handler.requests)
        last = run(folder, config, *page)
        assert last.returncode == code and len(handler.requests) == requests, "then nothing is asked"
    replies = [
        json.loads(line) for line in (folder / "results/replies/mathtutorbench/mine.jsonl").open(encoding="utf-8")
    ]
    assert sum(bool(reply["error"]) for reply in replies) == 2
