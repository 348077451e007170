"""Extension of the plan by curations and tunings."""

from maieutic.curation import inputs, jobs
from maieutic.curation.curated_plan import CurationPlan, check_curations, models_of, needs_of
from maieutic.plan.plan_extension import PlanExtension

PLANNING = PlanExtension(
    plan=CurationPlan,
    inputs=inputs,
    jobs=jobs,
    check=check_curations,
    report_files=inputs.report_files,
    models_of=models_of,
    needs_of=needs_of,
)
