"""The parts of a run's plan that an extension adds (`maieutic.extensions`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from maieutic.config.models import Needs
from maieutic.plan.inputs import Files
from maieutic.plan.plan import Plan

WildcardValues = Mapping[str, str]  # wildcards of a job


class PlanExtension(NamedTuple):
    """Parts of the plan that an extension adds. Each function receives a plan that includes the mixin `plan`.

    plan: mixin class of the plan; inputs, jobs: modules with one function per rule of the extension, named like the
    rule; check: raises UserError for a faulty selection, before any job; report_files: inputs of the report page;
    models_of, needs_of: models that a job calls and resources that it needs, from its wildcards; None for other jobs.
    """

    plan: type[Plan]
    inputs: ModuleType
    jobs: ModuleType
    check: Callable[[Any], None]
    report_files: Callable[[Any], Files]
    models_of: Callable[[Any, WildcardValues], list[str] | None]
    needs_of: Callable[[Any, WildcardValues], Needs | None]
