"""Part of the plan that covers reward models and classifiers."""

from __future__ import annotations

from functools import partial

from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.rewards import inputs, jobs
from maieutic.rewards.checks import (
    check_grader,
    check_name_of_pair_source,
    check_names_of_graders,
    check_preferences,
    listed_graders,
)

PLANNING = SlicePlan(
    inputs=inputs,
    jobs=jobs,
    checks=Checks(
        names=lambda plan: [
            partial(check_names_of_graders, plan),
            *(partial(check_name_of_pair_source, number, name) for number, name in enumerate(plan.run.pair_sources)),
        ],
        entries=lambda plan: [partial(check_grader, plan, name) for name in listed_graders(plan)],
        data=lambda plan: [partial(check_preferences, plan)],
    ),
)
