"""MathTutorBench's report page: expertise beside pedagogy, all tasks, and plain dialogues beside hard dialogues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from maieutic.benchmarks.mathtutorbench.printed import BENCHMARK
from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core import paths
from maieutic.core.intervals import SHARE_BOUNDS, paired_difference
from maieutic.core.records import Grade, ReportedScore, read_records
from maieutic.core.stats import (
    MEAN,
    BootstrapSettings,
    Statistic,
    difference_statistic,
    estimate_statistic,
    leave_one_out,
    sums_by_cluster,
)
from maieutic.report.figures import levels_chart, radar_chart, scatter_chart
from maieutic.report.overview import headlines_of
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label, distinct_labels, items_of_task
from maieutic.rewards.grading import WINS
from maieutic.scores.printed import printed_values

EXPERTISE, PEDAGOGY = "Expertise", "Pedagogy"  # values of `skill` on the cards
SKILL_AXES = ("expertise: mean of its tasks", "pedagogy: mean of its tasks")
EXTENDED_PROMPT = {  # task with the extended prompt -> task with the simple prompt on the same dialogues
    "pedagogy_following": "scaffolding_generation",
    "pedagogy_following_hard": "scaffolding_generation_hard",
}
SCAFFOLDING = "scaffolding_generation"
SOLVING = ("mistake_correction", "solution_correctness")  # tasks on the problems of SCAFFOLDING (StepVerify)
HARD_SUFFIX = "_hard"  # suffix of the names of tasks with longer dialogues (section 4.1, task 7)
MOST_RINGS = 6  # maximum number of tutors in one radar chart; more would not be distinguishable
Headlines = Mapping[tuple[str, str], ReportedScore]


def complete_mean(numbers: Iterable[float | None]) -> float | None:
    """Return the mean of the numbers; None if one of them is None or if there are no numbers."""
    values = list(numbers)
    present = [number for number in values if number is not None]
    return sum(present) / len(present) if present and len(present) == len(values) else None


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


def task_radar(run: ReportInput, cards: Sequence[Card], headlines: Headlines) -> str:
    """Return a radar chart of the first MOST_RINGS tutors with a value on every task; empty with fewer than 3 tasks."""
    rings: dict[str, list[float]] = {}
    labels = distinct_labels(run.plan)
    for tutor in run.plan.tutors:
        scores = [headlines.get((card.task, tutor)) for card in cards]
        known = [min(max(score.value, 0.0), 1.0) for score in scores if score is not None and score.value is not None]
        if len(known) == len(cards) and len(rings) < MOST_RINGS:
            rings[labels[tutor]] = known
    return radar_chart(rings, [card.title for card in cards]) if rings and len(cards) > 2 else ""


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
                            "series": display_label(run.plan, tutor),
                            **score.model_dump(include={"value", "low", "high"}),
                        }
                    )
    return rows


def labels_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the labels of the tutors in some rows, in order of first appearance."""
    return list(dict.fromkeys(row["series"] for row in rows))


def prompt_gains(run: ReportInput) -> list[dict[str, Any]]:
    """Return each tutor's gain in win rate by the extended prompt over the simple one (section 5.1).

    Both prompts are sent with the same dialogues, so the intervals are those of a paired difference over problems.
    """
    plan = run.plan
    rows: list[dict[str, Any]] = []
    for extended, simple in EXTENDED_PROMPT.items():
        if not {extended, simple} <= {card.task for card in plan.reward_cards(BENCHMARK)}:
            continue
        problems = {item.id: item.cluster for item in items_of_task(run.results, BENCHMARK, simple)}
        for tutor in plan.run.tutors:
            wins = [wins_by_item(run, tutor, task) for task in (extended, simple)]
            shared = sorted(wins[0].keys() & wins[1].keys())
            gain = paired_gain([[side[name] for name in shared] for side in wins], [problems[name] for name in shared])
            if gain is not None:
                level = "hard dialogues" if simple.endswith(HARD_SUFFIX) else "dialogues"
                rows.append(
                    {
                        "level": level,
                        "series": display_label(plan, tutor),
                        "n": len(shared),
                        **gain,
                    }
                )
    return rows


def wins_by_item(run: ReportInput, tutor: str, task: str) -> dict[str, float]:
    """Return, for each item of a task, whether the leading reward model prefers a tutor's reply to the teacher's."""
    [leader] = run.plan.run.reward_models[:1]
    path = paths.REWARD_GRADES.within(run.results, benchmark=BENCHMARK, reward_model=leader, tutor=tutor)
    return {
        grade.id: float(grade.correct)
        for grade in (read_records(path, Grade) if path.exists() else [])
        if grade.task == task and grade.scoring == "robust" and grade.criterion == WINS[0] and grade.correct is not None
    }


def paired_gain(wins: Sequence[Sequence[float]], problems: Sequence[str]) -> dict[str, float | None] | None:
    """Return the difference of two win rates on the same items with its 95 % interval; None without items."""
    if not problems:
        return None
    rates, left_out = [], []
    for side in wins:
        sums = sums_by_cluster(MEAN.counts(side), problems)
        rates.append(MEAN.value(side))
        left_out.append(leave_one_out(sums, MEAN.from_sums))
    contrast = paired_difference((rates[0], rates[1]), (left_out[0], left_out[1]), SHARE_BOUNDS)
    low, high = contrast.interval() if contrast else (None, None)
    return {"value": rates[0] - rates[1], "low": low, "high": high, "simple": rates[1], "extended": rates[0]}


def solved_problems(run: ReportInput, tutor: str, task: str) -> dict[str, bool]:
    """Return, for each problem of a task, whether all answers to its items are right; unread ones are not.

    Problems of which an item has no answer are left out.
    """
    path = paths.PARSED.within(run.results, benchmark=BENCHMARK, tutor=tutor)
    right = {
        grade.id: bool(grade.correct)
        for grade in (read_records(path, Grade) if path.exists() else [])
        if grade.task == task and grade.scoring == "robust" and grade.criterion is None and not grade.refused
    }
    solved: dict[str, bool] = {}
    unanswered = set()
    for item in items_of_task(run.results, BENCHMARK, task):
        if item.id not in right:
            unanswered.add(item.cluster)
        solved[item.cluster] = solved.get(item.cluster, True) and right.get(item.id, False)
    return {problem: value for problem, value in solved.items() if problem not in unanswered}


# Mean win rate on the problems that a tutor solves minus that on the others, of pairs of a problem's rate and if solved
LINKED: Statistic[tuple[float, bool]] = difference_statistic(lambda problem: problem)


def linked_rows(run: ReportInput) -> list[dict[str, Any]]:
    """Return how much more often each tutor's scaffolding wins on problems that the tutor can solve itself.

    The problems are those of StepVerify, which are shared by both tasks. Each problem counts once.
    """
    plan, tasks = run.plan, {loaded.card.task for loaded in run.plan.benchmarks.get(BENCHMARK, [])}
    if SCAFFOLDING not in {card.task for card in plan.reward_cards(BENCHMARK)}:
        return []
    problems = {item.id: item.cluster for item in items_of_task(run.results, BENCHMARK, SCAFFOLDING)}
    rows = []
    for tutor in plan.run.tutors:
        wins: dict[str, list[float]] = {}
        for name, win in wins_by_item(run, tutor, SCAFFOLDING).items():
            wins.setdefault(problems[name], []).append(win)
        for task in (name for name in SOLVING if name in tasks):
            solved = solved_problems(run, tutor, task)
            shared = sorted(wins.keys() & solved.keys())
            pairs = [(sum(wins[name]) / len(wins[name]), solved[name]) for name in shared]
            estimate = estimate_statistic(LINKED, pairs, shared, BootstrapSettings(**plan.bootstrap_settings))
            rates = [[rate for rate, is_solved in pairs if is_solved == side] for side in (True, False)]
            means = [MEAN.value(side) if side else None for side in rates]
            if pairs:
                rows.append(
                    {
                        "label": display_label(plan, tutor),
                        "task": plan.card(BENCHMARK, task).title,
                        "estimate": estimate,
                        "solved": means[0],
                        "unsolved": means[1],
                        "problems": [len(side) for side in rates],
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
    gains = prompt_gains(run)
    return {
        "scatter": scatter_chart(pd.DataFrame(skills), EXPERTISE, PEDAGOGY, SKILL_AXES) if skills else "",
        "radar": task_radar(run, cards, headlines),
        "plain_and_hard": levels_chart(pd.DataFrame(hard), "headline", labels_of(hard)) if hard else "",
        "gains": gains,
        "gain_chart": levels_chart(pd.DataFrame(gains), "gain in win rate", labels_of(gains)) if gains else "",
        "linked": linked_rows(run),
        "most": MOST_RINGS,
    }


PAGES = [Section("#/mathtutorbench", "MathTutorBench's figures", "mathtutorbench", mathtutorbench_page)]
