"""Part of the plan that covers scores."""

from __future__ import annotations

from functools import partial

from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.plan.used_code import used_on_benchmark
from maieutic.scores import inputs, jobs
from maieutic.scores.checks import check_metrics
from maieutic.scores.printed import check_papers

PLANNING = SlicePlan(
    inputs=inputs,
    jobs=jobs,
    checks=Checks(
        names=lambda plan: [partial(check_papers, plan.models)],
        cards=lambda plan: [partial(check_metrics, path, loaded) for path, loaded in plan.cards.items()],
    ),
    used_code={"score_replies": used_on_benchmark, "compare_tutors": used_on_benchmark},
)
