"""Part of the plan that covers simulations."""

from __future__ import annotations

from functools import partial

from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.simulation import inputs, jobs
from maieutic.simulation.planned import SimulationPlan, check_simulations, models_of, needs_of, planned_requests

PLANNING = SlicePlan(
    inputs=inputs,
    plan=SimulationPlan,
    jobs=jobs,
    checks=Checks(data=lambda plan: [partial(check_simulations, plan)]),
    report_files=inputs.report_files,
    journals=inputs.simulation_journals,
    steps=inputs.scoring_steps,
    requests=planned_requests,
    models_of=models_of,
    needs_of=needs_of,
)
