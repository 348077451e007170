"""MathTutorBench's page: expertise against pedagogy, every task of every tutor, plain against hard dialogues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from maieutic.benchmarks.mathtutorbench.printed import BENCHMARK
from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core.records import ReportedScore
from maieutic.report.figures import levels_chart, radar_chart, scatter_chart
from maieutic.report.overview import distinct_labels, headlines_of, mean
from maieutic.report.sections import Run, Section
from maieutic.report.tables import label_of
from maieutic.scores.printed import printed_values

EXPERTISE, PEDAGOGY = "Expertise", "Pedagogy"  # skills of the cards
HARD = "_hard"  # what a task's name ends with whose dialogues are the longer ones (section 4.1, task 7)
MOST_RINGS = 6  # tutors that one radar can tell apart
Headlines = Mapping[tuple[str, str], ReportedScore]


def skill_rows(run: Run, cards: Sequence[Card], headlines: Headlines) -> list[dict[str, Any]]:
    """Each tutor's mean headline over the tasks of expertise and of pedagogy, ours and the paper's (Table 4)."""
    plan = run.plan
    rows = []
    for tutor in plan.tutors:
        values = {
            skill: [headlines.get((card.task, tutor)) for card in cards if card.skill == skill]
            for skill in (EXPERTISE, PEDAGOGY)
        }
        means = {
            skill: mean(score.value if score else None for score in own) if own else None
            for skill, own in values.items()
        }
        if None not in means.values():
            kind = "baseline" if isinstance(plan.models[tutor], BaselineModel) else "this run"
            rows.append({"label": label_of(plan, tutor), "kind": kind, **means})
    tasks = {card.task: card for card in cards}
    printed: dict[str, dict[str, float]] = {}
    for cell in printed_values(BENCHMARK):
        if cell.task in tasks and cell.metric == tasks[cell.task].headline:
            printed.setdefault(cell.model, {})[cell.task] = cell.value
    for model, by_task in printed.items():
        of = {
            skill: mean(by_task.get(card.task) for card in cards if card.skill == skill)
            for skill in (EXPERTISE, PEDAGOGY)
        }
        if None not in of.values():
            rows.append({"label": model, "kind": "paper, Table 4", **of})
    return rows


def radar_of(run: Run, cards: Sequence[Card], headlines: Headlines) -> tuple[str, list[dict[str, Any]]]:
    """Every task's headline of the first tutors that have them all, as a picture and as rows of all tutors."""
    plan = run.plan
    rows: list[dict[str, Any]] = []
    rings: dict[str, list[float]] = {}
    labels = distinct_labels(plan)
    for tutor in plan.tutors:
        scores = [headlines.get((card.task, tutor)) for card in cards]
        values = [score.value if score else None for score in scores]
        if any(scores):
            rows.append({"label": label_of(plan, tutor), "values": values})
        known = [min(max(value, 0.0), 1.0) for value in values if value is not None]
        if len(known) == len(values) and len(rings) < MOST_RINGS:
            rings[labels[tutor]] = known
    return radar_chart(rings, [card.title for card in cards]) if rings and len(cards) > 2 else "", rows


def hard_rows(run: Run, cards: Sequence[Card], headlines: Headlines) -> list[dict[str, Any]]:
    """The pedagogy tasks of the run's tutors on plain and on hard dialogues."""
    titles = {card.task: card.title for card in cards}
    rows = []
    for task in [name for name in titles if f"{name}{HARD}" in titles]:
        for name in (task, f"{task}{HARD}"):
            for tutor in run.plan.run.tutors:
                score = headlines.get((name, tutor))
                if score is not None and score.value is not None:
                    rows.append(
                        {
                            "level": titles[name],
                            "tutor": label_of(run.plan, tutor),
                            **score.model_dump(include={"value", "low", "high"}),
                            "paper": float("nan"),
                        }
                    )
    return rows


def produce(run: Run) -> dict[str, Any] | None:
    """The page's variables; None for a run without this benchmark's scores."""
    loadeds = run.plan.benchmarks.get(BENCHMARK)
    scores = run.scores.get(BENCHMARK)
    if not loadeds or not scores:
        return None
    cards = [loaded.card for loaded in loadeds]
    headlines = headlines_of(scores, cards)
    skills, hard = skill_rows(run, cards, headlines), hard_rows(run, cards, headlines)
    radar, tasks = radar_of(run, cards, headlines)
    labels = list(dict.fromkeys(row["tutor"] for row in hard))
    return {
        "skills": skills,
        "scatter": scatter_chart(pd.DataFrame(skills), EXPERTISE, PEDAGOGY) if skills else "",
        "radar": radar,
        "tasks": tasks,
        "titles": [card.title for card in cards],
        "hard": hard,
        "plain_and_hard": levels_chart(pd.DataFrame(hard), "headline", labels) if hard else "",
        "most": MOST_RINGS,
    }


PAGES = [Section("#/mathtutorbench", "MathTutorBench's figures", "mathtutorbench", produce)]
