"""MathTutorBench's report page: expertise beside pedagogy, all tasks, and plain dialogues beside hard dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from maieutic.benchmarks.mathtutorbench.printed import BENCHMARK
from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core.records import ReportedScore
from maieutic.report.figures import levels_chart, radar_chart, scatter_chart
from maieutic.report.overview import complete_mean, distinct_labels, headlines_of
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label
from maieutic.scores.printed import printed_values

EXPERTISE, PEDAGOGY = "Expertise", "Pedagogy"  # values of `skill` on the cards
SKILL_AXES = ("expertise: mean of its tasks", "pedagogy: mean of its tasks")
HARD_SUFFIX = "_hard"  # suffix of the names of tasks with longer dialogues (section 4.1, task 7)
MOST_RINGS = 6  # maximum number of tutors in one radar chart; more would not be distinguishable
Headlines = Mapping[tuple[str, str], ReportedScore]


def skill_rows(run: ReportInput, cards: Sequence[Card], headlines: Headlines) -> list[dict[str, Any]]:
    """Return the mean headline metric on expertise and on pedagogy for tutors of this run and of Table 4."""
    plan = run.plan
    rows = []
    for tutor in plan.tutors:
        values = {
            skill: [headlines.get((card.task, tutor)) for card in cards if card.skill == skill]
            for skill in (EXPERTISE, PEDAGOGY)
        }
        means = {
            skill: complete_mean(score.value if score else None for score in scores) if scores else None
            for skill, scores in values.items()
        }
        if None not in means.values():
            kind = "baseline" if isinstance(plan.models[tutor], BaselineModel) else "this run"
            rows.append({"label": display_label(plan, tutor), "kind": kind, **means})
    tasks = {card.task: card for card in cards}
    printed: dict[str, dict[str, float]] = {}
    for cell in printed_values(BENCHMARK):
        if cell.task in tasks and cell.metric == tasks[cell.task].headline:
            printed.setdefault(cell.model, {})[cell.task] = cell.value
    for model, by_task in printed.items():
        means = {
            skill: complete_mean(by_task.get(card.task) for card in cards if card.skill == skill)
            for skill in (EXPERTISE, PEDAGOGY)
        }
        if None not in means.values():
            rows.append({"label": model, "kind": "paper, Table 4", **means})
    return rows


def task_radar(run: ReportInput, cards: Sequence[Card], headlines: Headlines) -> tuple[str, list[dict[str, Any]]]:
    """Return a radar chart of the first MOST_RINGS tutors with a value on every task, and table rows of all tutors."""
    plan = run.plan
    rows: list[dict[str, Any]] = []
    rings: dict[str, list[float]] = {}
    labels = distinct_labels(plan)
    for tutor in plan.tutors:
        scores = [headlines.get((card.task, tutor)) for card in cards]
        values = [score.value if score else None for score in scores]
        if any(scores):
            rows.append({"label": display_label(plan, tutor), "values": values})
        known = [min(max(value, 0.0), 1.0) for value in values if value is not None]
        if len(known) == len(values) and len(rings) < MOST_RINGS:
            rings[labels[tutor]] = known
    return radar_chart(rings, [card.title for card in cards]) if rings and len(cards) > 2 else "", rows


def hard_rows(run: ReportInput, cards: Sequence[Card], headlines: Headlines) -> list[dict[str, Any]]:
    """Return the headline metrics of the run's tutors on each task with a hard variant, and on that variant."""
    titles = {card.task: card.title for card in cards}
    rows = []
    for task in [name for name in titles if f"{name}{HARD_SUFFIX}" in titles]:
        for name in (task, f"{task}{HARD_SUFFIX}"):
            for tutor in run.plan.run.tutors:
                score = headlines.get((name, tutor))
                if score is not None and score.value is not None:
                    rows.append(
                        {
                            "level": titles[name],
                            "tutor": display_label(run.plan, tutor),
                            **score.model_dump(include={"value", "low", "high"}),
                            "paper": float("nan"),
                        }
                    )
    return rows


def mathtutorbench_page(run: ReportInput) -> dict[str, Any] | None:
    """Return the variables of MathTutorBench's page, or None if the run has no scores on this benchmark."""
    loaded_cards = run.plan.benchmarks.get(BENCHMARK)
    scores = run.scores.get(BENCHMARK)
    if not loaded_cards or not scores:
        return None
    cards = [loaded.card for loaded in loaded_cards]
    headlines = headlines_of(scores, cards)
    skills, hard = skill_rows(run, cards, headlines), hard_rows(run, cards, headlines)
    radar, tasks = task_radar(run, cards, headlines)
    labels = list(dict.fromkeys(row["tutor"] for row in hard))
    return {
        "skills": skills,
        "scatter": scatter_chart(pd.DataFrame(skills), EXPERTISE, PEDAGOGY, SKILL_AXES) if skills else "",
        "radar": radar,
        "tasks": tasks,
        "titles": [card.title for card in cards],
        "hard": hard,
        "plain_and_hard": levels_chart(pd.DataFrame(hard), "headline", labels) if hard else "",
        "most": MOST_RINGS,
    }


PAGES = [Section("#/mathtutorbench", "MathTutorBench's figures", "mathtutorbench", mathtutorbench_page)]
