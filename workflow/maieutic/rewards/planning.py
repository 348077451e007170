"""Part of the plan that covers reward models and classifiers."""

from __future__ import annotations

from functools import partial

from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.rewards import inputs, jobs
from maieutic.rewards.checks import check_grader, check_names_of_graders, check_preferences, listed_graders

PLANNING = SlicePlan(
    inputs=inputs,
    jobs=jobs,
    checks=Checks(
        names=lambda plan: [partial(check_names_of_graders, plan)],
        entries=lambda plan: [partial(check_grader, plan, name) for name in listed_graders(plan)],
        data=lambda plan: [partial(check_preferences, plan)],
    ),
)
