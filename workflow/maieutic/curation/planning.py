"""Part of the plan that covers curations and tunings."""

from __future__ import annotations

from functools import partial

from maieutic.curation import inputs, jobs
from maieutic.curation.curated_plan import CurationPlan, check_curations, models_of, needs_of
from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.plan.used_code import Replacements, unused_tables


def used_by_make_seeds(plan: CurationPlan, curation: str) -> Replacements:
    """Leave out of the digest of `make_seeds` the benchmark loaders that a curation's seeds do not use."""
    return unused_tables("loaders", "LOADERS", plan.curation(curation).seeds.values())


PLANNING = SlicePlan(
    inputs=inputs,
    plan=CurationPlan,
    jobs=jobs,
    checks=Checks(data=lambda plan: [partial(check_curations, plan)]),
    report_files=inputs.report_files,
    models_of=models_of,
    needs_of=needs_of,
    used_code={"make_seeds": used_by_make_seeds},
)
