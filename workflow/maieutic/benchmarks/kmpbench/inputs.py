"""Input files of KMP-Bench's own rules that depend on the run's tasks and models (as in `maieutic.plan.inputs`)."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.alignment import COMPARISON_RUBRIC
from maieutic.judges.inputs import batch_verdicts
from maieutic.plan.inputs import rubric_files
from maieutic.plan.plan import Plan


def compared_benchmarks(plan: Plan, judge: str | None = None) -> list[str]:
    """Return the benchmarks with a task in which a judge compares replies with a reference.

    judge: name of the judge, or None for any judge.
    """
    judged = {name: plan.judge_cards(name, judge) for name in plan.benchmarks}
    return [name for name, cards in judged.items() if any(COMPARISON_RUBRIC in card.rubrics for card in cards)]


def compared_verdicts(plan: Plan, judge: str) -> list[str]:
    """Return the verdict files of a judge for the benchmarks in which the judge compares replies with a reference."""
    return [file for benchmark in compared_benchmarks(plan, judge) for file in batch_verdicts(plan, judge, benchmark)]


def comparison_rubrics(plan: Plan, judge: str) -> list[str]:
    """Return the files of a judge's rubrics, and the file of the rubric for comparisons with a reference."""
    return rubric_files([COMPARISON_RUBRIC, *plan.judge_entry(judge).rubrics])
