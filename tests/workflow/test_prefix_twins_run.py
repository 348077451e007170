"""A whole run of prefix twins with scripted tutors and a scripted judge, whose effects are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from httpserver import chat, scripted, serving
from maieutic.benchmarks.prefix_twins.loaders import twins_of
from running import maieutic, overlay, planned, run

MISTAKE, QUESTION = "There is a mistake in your last step.", "How did you get there?"
DEMO = json.loads(Path("resources/demo/stepverify/dataset.json").read_text(encoding="utf-8"))
WRONG = {steps for _, steps, wrong in twins_of(DEMO) if wrong}
TUTORS = {
    "asks": lambda wrong: QUESTION,
    "finds": lambda wrong: MISTAKE,
    "knows": lambda wrong: MISTAKE if wrong else QUESTION,
    "errs": lambda wrong: QUESTION if wrong else MISTAKE,
}


def answer(_: int, body: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
    """Answer as one of the tutors, by the model's name, or as a judge that finds the sentence MISTAKE."""
    prompt = body["messages"][-1]["content"]
    if body["model"] == "judge":
        verdict = "yes" if MISTAKE in prompt.rsplit("The tutor's reply:", 1)[1] else "no"
        return 200, chat({"content": json.dumps({"treats_as_wrong": verdict})}), {}
    steps = prompt.split("The student has written so far:\n", 1)[1].split("\n\n", 1)[0]
    reply = TUTORS[body["model"]](steps in WRONG)
    if "incorrect?" in prompt:  # the task that asks for a verdict; a question is no verdict
        return 200, chat({"content": "Yes" if reply == MISTAKE else "No" if body["model"] != "asks" else QUESTION}), {}
    return 200, chat({"content": reply}), {}


def test_scripted_tutors_have_the_known_effects(checkouts: Callable[[], Path]) -> None:
    folder = checkouts()
    with serving(scripted(answer)) as address:
        hosted = {"engine": "hosted", "base_url": f"{address}/v1", "endpoint": "chat", "structured": True}
        models = {name: {**hosted, "model": name} for name in (*TUTORS, "judge")}
        grader = {"engine": "judge", "model": "judge", "rubrics": ["prefix_twins"]}
        run_keys = {"tutors": list(TUTORS), "tasks": ["prefix_twins"], "judges": ["grader"], "labels": []}
        config = overlay(folder, {"models": {**models, "grader": grader}, "run": run_keys})
        done = run(folder, config)
        assert done.returncode == 0, done.stdout
        assert planned(folder, config) == set(), "a second run asks nothing"
    done = maieutic(
        folder,
        "label",
        "--configfile",
        str(config),
        "--tutors",
        "asks",
        "--annotators",
        "ann",
        "--n",
        "8",
        "--out",
        "s",
    )
    assert done.returncode == 0, done.stderr
    strata = json.loads((folder / "s/key.json").read_text(encoding="utf-8"))["strata"]
    assert {name: number for name, (_, number) in strata.items()} == {
        f"prefix_twins, asks, prefix {kind}": 4 for kind in ("right", "wrong")
    }
    table = pd.read_csv(folder / "results/report/scores.csv")
    robust = table[table.scoring == "robust"].set_index(["task", "tutor", "metric"]).value
    for task in ("prefix_twins", "prefix_verdicts"):
        effects = {name: robust[task, name, "diagnosis_effect"] for name in TUTORS}
        assert effects == pytest.approx({"asks": 0, "finds": 0, "knows": 1, "errs": -1}), task
        assert robust[task, "finds", "false_alarms"] == 1
    assert robust["prefix_verdicts", "reference", "diagnosis_effect"] == 1
    assert robust["prefix_verdicts", "always-yes", "diagnosis_effect"] == 0
    page = (folder / "results/report/index.html").read_text(encoding="utf-8")
    assert 'data-page="#/prefix-twins"' in page and "wording: counts of words" in page
    assert "a part of the page" not in page.lower()
