"""Part of the plan that covers the report."""

from maieutic.plan.slice_plan import SlicePlan
from maieutic.report import inputs

PLANNING = SlicePlan(inputs=inputs)
