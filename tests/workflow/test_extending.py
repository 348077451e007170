"""CONTRIBUTING.md's recipes, followed to the letter: add a task, add a grader. (Add a model: test_structure.)"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from running import overlay, planned, run

CARD = """\
task: first_question
benchmark: mathtutorbench
version: 1
title: First question
skill: Expertise
source: written for this test
dataset: gsm8k_socratic
loader: gsm8k_socratic
items: 1319
turns: [first_question.jinja]
stop: ["?"]
graders: [length]
metrics:
  characters: {headline: true, function: mean, higher_is_better: null}
baselines: {floor: [echo], ceiling: reference}
help: How long the first question is.
"""
GRADER = '''"""The length of a reply."""

from __future__ import annotations

from maieutic.graders.reading import Reading
from maieutic.records import Item, Scoring


def length(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Characters of a reply."""
    return [Reading(len(text), None, text[:20])]
'''


def add_grader(folder: Path) -> None:
    """One module, one line in the dict."""
    package = folder / "workflow/maieutic/graders"
    (package / "length.py").write_text(GRADER, encoding="utf-8")
    text = (package / "__init__.py").read_text(encoding="utf-8")
    text = text.replace(
        "from maieutic.graders.questions",
        "from maieutic.graders.length import length\nfrom maieutic.graders.questions",
        1,
    )
    (package / "__init__.py").write_text(
        text.replace('    "step": step,\n', '    "step": step,\n    "length": length,\n')
    )


def test_a_task_is_a_card_and_a_grader_is_a_module(checkout: Path) -> None:
    before = overlay(checkout, {"run": {"tutors": ["echo"], "tasks": ["mathtutorbench/problem_solving"]}})
    assert run(checkout, before).returncode == 0
    add_grader(checkout)
    benchmark = checkout / "resources/benchmarks/mathtutorbench"
    (benchmark / "first_question.yaml").write_text(CARD, encoding="utf-8")
    (benchmark / "first_question.jinja").write_text("Problem: {{ question }}\nFirst question:", encoding="utf-8")
    tasks = ["mathtutorbench/problem_solving", "mathtutorbench/first_question"]
    after = overlay(checkout, {"run": {"tutors": ["echo"], "tasks": tasks}})
    assert "make_items benchmark=mathtutorbench, task=problem_solving" not in planned(checkout, after)
    done = run(checkout, after)
    assert done.returncode == 0, done.stdout
    table = pd.read_csv(checkout / "results/report/scores.csv")
    mine = table[(table.task == "first_question") & (table.model == "echo") & (table.scoring == "robust")].iloc[0]
    assert mine.metric == "characters" and mine.n == 12 and mine.value > 20
    assert "First question" in (checkout / "results/report/index.html").read_text(encoding="utf-8")
