"""The plan of a run with every slice: what the rules of Snakemake, and the commands for people, ask."""

from __future__ import annotations

from functools import cache
from typing import Any

from maieutic.config.pins import fill_pins, read_pins
from maieutic.config.settings import read_config
from maieutic.core.errors import Unpinned, UserError
from maieutic.core.extensions import check_extensions
from maieutic.core.plugins import plugin_objects, stage_objects
from maieutic.plan.checks import check_selection, check_start
from maieutic.plan.plan import Plan
from maieutic.plan.rules import IS_FINISHED, RulePlan
from maieutic.plan.slice_plan import SlicePlan

SLICES: tuple[SlicePlan, ...] = (
    *stage_objects("stage", "STAGE"),
    *plugin_objects("stage", "STAGE").values(),
)


@cache
def extended_plan_class() -> type[RulePlan]:
    """Return the plan class with the slices and their mixin classes."""
    mixins = [part.plan for part in SLICES if part.plan is not Plan]
    return type("ExtendedPlan", (RulePlan, *mixins), {"slices": SLICES})


def plan_of(raw: dict[str, Any]) -> RulePlan:
    """Return the checked plan of a configuration. Raises UserError with the faults of the first failing check."""
    plan = unchecked_plan(raw)
    if not IS_FINISHED.get():
        check_plan(plan)
    return plan


def unchecked_plan(raw: dict[str, Any]) -> RulePlan:
    """Return the plan of a configuration. The keys are checked, but not the selection."""
    config = read_config(fill_pins(raw, read_pins()))
    check_extensions(config.extensions)
    plan: RulePlan = extended_plan_class()(config)
    return plan


def check_plan(plan: RulePlan) -> None:
    """Check a plan's selection and its human labels. Raises UserError if a check fails."""
    check_selection(plan)
    check_start(plan)


def plan_before_pins(raw: dict[str, Any]) -> tuple[RulePlan, list[UserError]]:
    """Return a plan and the errors about missing pins. Raises UserError if a check fails for another reason."""
    plan = unchecked_plan(raw)
    try:
        check_plan(plan)
    except UserError as error:
        if others := [fault for fault in error.all if not isinstance(fault, Unpinned)]:
            raise UserError.of(others) from None
        return plan, error.all
    return plan, []
