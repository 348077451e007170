"""What an extension adds to the plan of a run (`maieutic.extensions`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from maieutic.config.models import Needs
from maieutic.plan.inputs import Files
from maieutic.plan.plan import Plan

Names = Mapping[str, str]  # wildcards of a job


class Planning(NamedTuple):
    """An extension's part of the plan. Each function gets a plan that has the methods of `plan`.

    plan: what it adds to the plan; inputs, jobs: modules with a function of each of its rules' names; check: before any
    work; report_files: what the page reads of it; models_of, needs_of: which models one of its jobs asks and what that
    job needs, by its wildcards; None for a job that is not its own.
    """

    plan: type[Plan]
    inputs: ModuleType
    jobs: ModuleType
    check: Callable[[Any], None]
    report_files: Callable[[Any], Files]
    models_of: Callable[[Any, Names], list[str] | None]
    needs_of: Callable[[Any, Names], Needs | None]
