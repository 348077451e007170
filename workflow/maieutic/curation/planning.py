"""Part of the plan that covers curations and tunings."""

from maieutic.curation import inputs, jobs
from maieutic.curation.curated_plan import CurationPlan, check_curations, models_of, needs_of
from maieutic.plan.slice_plan import SlicePlan
from maieutic.plan.used_code import LOADERS, Replacements, unused_tables


def used_by_make_seeds(plan: CurationPlan, curation: str) -> Replacements:
    """Leave out of the digest of `make_seeds` the benchmark loaders that a curation's seeds do not use."""
    return unused_tables("loaders", "LOADERS", LOADERS, plan.curation(curation).seeds.values())


PLANNING = SlicePlan(
    inputs=inputs,
    plan=CurationPlan,
    jobs=jobs,
    check=check_curations,
    report_files=inputs.report_files,
    models_of=models_of,
    needs_of=needs_of,
    used_code={"make_seeds": used_by_make_seeds},
)
