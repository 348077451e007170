"""A run with a scripted reader that answers, invents or doubts; nothing moves beside the rows that it adds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from httpserver import chat, scripted, serving
from running import overlay, planned, run

TASK = "mathtutorbench/solution_correctness"
FISHY = "Hm. Something smells fishy here, dear."
READINGS = (
    {"value": "yes", "quote": "Something smells fishy here"},
    {"value": "yes", "quote": "Your solution is wrong"},  # invented
    {"value": "none", "quote": ""},
)


def answer(number: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
    """Answer as a tutor whose reply the rules do not understand, or as a reader of such replies, by turns."""
    if body["model"] == "tutor":
        return 200, chat({"content": f"{FISHY} ({number})" if number % 2 else "Yes, it is incorrect."}), {}
    prompt = body["messages"][-1]["content"]
    assert FISHY in prompt and "Reference" not in prompt
    return 200, chat({"content": json.dumps(READINGS[number % len(READINGS)])}), {}


def test_a_reader_adds_rows_and_moves_nothing(checkouts: Callable[[], Path]) -> None:
    folder = checkouts()
    with serving(scripted(answer)) as address:
        hosted = {"engine": "hosted", "base_url": f"{address}/v1", "endpoint": "chat"}
        models = {"ours": {**hosted, "model": "tutor"}, "far": {**hosted, "model": "reader"}}
        keys: dict[str, Any] = {"tutors": ["ours"], "tasks": [TASK]}
        without = overlay(folder, {"models": models, "run": keys}, "without.yaml")
        with_reader = overlay(folder, {"models": models, "run": {**keys, "reader": "far"}}, "with.yaml")
        dry = run(folder, with_reader, "-n")
        assert "far at most 24" in dry.stdout, dry.stdout
        done = run(folder, without)
        assert done.returncode == 0, done.stdout
        before = pd.read_csv(folder / "results/report/scores.csv")
        assert planned(folder, with_reader) >= {
            "ask_reader_locally benchmark=mathtutorbench, reader=far, tutor=ours",
            "grade_readings benchmark=mathtutorbench, reader=far, tutor=ours",
        }
        assert not any(job.startswith(("generate", "parse")) for job in planned(folder, with_reader))
        done = run(folder, with_reader)
        assert done.returncode == 0, done.stdout
        assert planned(folder, with_reader) == set() and "far 12" in done.stdout, done.stdout
        same = {**models, "far": {**hosted, "model": "tutor"}}
        refused = run(folder, overlay(folder, {"models": same, "run": {**keys, "reader": "far"}}, "same.yaml"), "-n")
        assert "run.reader: far is also the tutor ours" in refused.stdout
        accepted = {**keys, "reader": "far", "reader_same_model": True}
        assert run(folder, overlay(folder, {"models": same, "run": accepted}, "same.yaml"), "-n").returncode == 0
    after = pd.read_csv(folder / "results/report/scores.csv")
    of_reader = after.by == "far"
    pd.testing.assert_frame_equal(after[~of_reader].reset_index(drop=True), before, check_dtype=False)
    rows = after[of_reader & (after.scoring == "robust")].set_index("metric")
    assert not rows.headline.any()
    ruled = after[~of_reader & (after.tutor == "ours") & (after.scoring == "robust")].set_index("metric")
    assert (ruled.loc["f1", "unreadable"], rows.loc["f1", "unreadable"]) == (12, 8), "a third of the readings count"
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    assert "could not be made" not in page
