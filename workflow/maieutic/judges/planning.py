"""Part of the plan that covers judges."""

from __future__ import annotations

from functools import partial

from maieutic.judges import inputs, jobs
from maieutic.judges.checks import check_coverage, check_judge, check_labels, check_names_of_judges
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.plan.used_code import Replacements, unused_by_rubrics


def used_by_judge_replies(plan: Plan, judge: str, benchmark: str, **others: str) -> Replacements:
    """Return replacements that leave out conditions and word lists that the rubrics for a benchmark do not use."""
    return unused_by_rubrics(plan.reply_rubrics(judge, benchmark))


def used_by_judge_all_replies(plan: Plan, judge: str, **others: str) -> Replacements:
    """Return replacements that leave out conditions and word lists that a judge's rubrics do not use."""
    return unused_by_rubrics(
        {rubric for benchmark in plan.judged_benchmarks(judge) for rubric in plan.reply_rubrics(judge, benchmark)}
    )


def used_by_judge_labelled(plan: Plan, judge: str) -> Replacements:
    """Return replacements that leave out conditions and word lists that rubrics for labelled data do not use."""
    entry = plan.judge_entry(judge)
    return unused_by_rubrics([*(plan.label_rubrics(judge) or entry.rubrics), *entry.pairs])


PLANNING = SlicePlan(
    inputs=inputs,
    jobs=jobs,
    checks=Checks(
        names=lambda plan: [partial(check_names_of_judges, plan)],
        entries=lambda plan: [partial(check_judge, plan, name) for name in (*plan.run.judges, *plan.run.taggers)],
        data=lambda plan: [partial(check_coverage, plan), partial(check_labels, plan)],
    ),
    used_code={
        "judge_replies": used_by_judge_replies,
        "judge_all_replies": used_by_judge_all_replies,
        "judge_labelled": used_by_judge_labelled,
    },
)
