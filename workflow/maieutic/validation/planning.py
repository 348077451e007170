"""Part of the plan that covers the validation of graders."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from maieutic.judges.planning import used_by_judge_labelled, used_by_judge_replies
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.plan.used_code import Replacements, unused_by_rubrics, unused_tables
from maieutic.validation import inputs, jobs
from maieutic.validation.checks import check_encoders, check_people_labels, check_word_lists


def used_by_validation(plan: Plan, judge: str = "", classifier: str = "") -> Replacements:
    """Return replacements that leave out the word lists for criteria that the labelled sets of a grader do not have."""
    return unused_by_rubrics((), criteria_of_labels(plan, plan.validating_releases(judge or classifier)))


def used_by_score_labels(plan: Plan, release: str) -> Replacements:
    """Return replacements that leave out the measures of criteria that a labelled set does not have."""
    return unused_tables("toolkit", "MEASURES", criteria_of_labels(plan, [release]))


def criteria_of_labels(plan: Plan, releases: Iterable[str]) -> set[str]:
    """Return the criteria of labelled sets."""
    return {criterion for release in releases for criterion in plan.label_source(release).scales}


PLANNING = SlicePlan(
    inputs=inputs,
    jobs=jobs,
    checks=Checks(
        entries=lambda plan: [partial(check_word_lists, plan, name) for name in plan.word_list_judges],
        data=lambda plan: [partial(check_encoders, plan)],
        start=lambda plan: [partial(check_people_labels, plan)],
    ),
    used_code={
        "judge_by_words": used_by_judge_replies,
        "judge_labelled_by_words": used_by_judge_labelled,
        "validate_judge": used_by_validation,
        "validate_criteria_on_labels": used_by_validation,
        "score_labels": used_by_score_labels,
    },
)
