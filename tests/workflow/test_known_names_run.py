"""Test of a whole run with tutors named like values of programming languages, such as "null" and "nan"."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from httpserver import completion, scripted, serving
from known_names import NAMES
from running import overlay, run


def test_a_run_of_names_that_languages_know_ends_with_a_whole_page(checkout: Path) -> None:
    with serving(scripted(lambda number, body: (200, completion(f"Final answer: {number % 3}"), {}))) as address:
        entry = {"engine": "hosted", "base_url": f"{address}/v1", "model": "m"}
        models = {name: {**entry, "label": name, "group": name} for name in NAMES}
        tasks = ["mathtutorbench/problem_solving"]
        config = overlay(checkout, {"models": models, "run": {"tutors": NAMES, "tasks": tasks, "limit": 4}})
        done = run(checkout, config)
    assert done.returncode == 0, done.stdout[-3000:]
    report = checkout / "results/report"
    assert json.loads((report / "problems.json").read_text()) == []
    scores = pd.read_csv(report / "scores.csv", dtype=str, keep_default_na=False)
    assert set(scores.tutor) >= set(NAMES) and set(scores.label) >= set(NAMES)
    assert set(pd.read_csv(report / "differences.csv", dtype=str, keep_default_na=False)["first"]) <= set(NAMES)
