"""Part of the plan that covers the run as a whole."""

from __future__ import annotations

from maieutic.launch import inputs, jobs
from maieutic.plan.slice_plan import SlicePlan

PLANNING = SlicePlan(inputs=inputs, jobs=jobs)
