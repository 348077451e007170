"""KMP-Bench's part of the plan: alignment of judges with people's comparisons."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.alignment import COMPARISON_RUBRIC, AlignJudge
from maieutic.core import paths
from maieutic.judges.stage import batch_verdicts
from maieutic.plan.inputs import rubric_files
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Replacements, SlicePlan, unused_metrics
from maieutic.validation.stage import people_label_fields


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


def align_judge_job(plan: Plan, judge: str) -> AlignJudge:
    return AlignJudge(judge=judge, **people_label_fields(plan))


def report_files(plan: Plan) -> list[str]:
    """Return the alignment file of each judge that compares replies with a reference; empty without human labels."""
    judges = plan.run.judges if plan.run.human_labels else ()
    return [paths.ALIGNMENT.of(judge=name) for name in judges if compared_verdicts(plan, name)]


def used_by_align_judge(plan: Plan, judge: str) -> Replacements:
    """Leave out the metrics that no card names in the benchmarks where the judge compares replies with a reference."""
    cards = [loaded.card for name in compared_benchmarks(plan, judge) for loaded in plan.benchmarks[name]]
    return unused_metrics(cards)


STAGE = SlicePlan(module=__name__, report_files=report_files, used_code={"align_judge": used_by_align_judge})
