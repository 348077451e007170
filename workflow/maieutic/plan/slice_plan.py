"""The part of a run's plan that a slice adds: a feature, or a benchmark with stages of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from maieutic.config.models import Needs
from maieutic.plan.plan import Plan
from maieutic.plan.steps import Step
from maieutic.plan.used_code import Replacements

WildcardValues = Mapping[str, str]  # wildcards of a job


def no_files(plan: Any) -> Iterable[str]:
    """Return no files."""
    return ()


def no_steps(plan: Any) -> Iterator[Step]:
    """Return no steps."""
    return iter(())


def no_verdicts(plan: Any) -> dict[str, list[str]]:
    """Return no verdicts."""
    return {}


def accept_selection(plan: Any) -> None:
    """Accept every selection."""


class SlicePlan(NamedTuple):
    """Parts of the plan that a slice adds. Each function receives a plan that includes the mixin `plan`.

    inputs: module with the selections of the slice's rules (as in `maieutic.plan.inputs`); jobs: module with one
    function per rule of the slice, named like the rule; plan: mixin class of the plan; check: raises UserError for a
    faulty selection, before any job; report_files: files that the report reads; last_files: files that a run makes
    beside its report; verdict_files: files of model answers whose missing share is limited, by the model's name;
    journals: journals of requests; steps: steps that compute scores without a model, in an order in which they can
    run; used_code: code that the digests of rules leave out, by rule (as in `maieutic.plan.used_code`); models_of,
    needs_of: models that a job calls and resources that it needs, from its wildcards; None for other jobs.
    """

    inputs: ModuleType
    jobs: ModuleType
    plan: type[Plan] = Plan
    check: Callable[[Any], None] = accept_selection
    report_files: Callable[[Any], Iterable[str]] = no_files
    last_files: Callable[[Any], Iterable[str]] = no_files
    verdict_files: Callable[[Any], dict[str, list[str]]] = no_verdicts
    journals: Callable[[Any], Iterable[str]] = no_files
    steps: Callable[[Any], Iterator[Step]] = no_steps
    used_code: Mapping[str, Callable[..., Replacements]] = {}
    models_of: Callable[[Any, WildcardValues], list[str] | None] = lambda plan, names: None
    needs_of: Callable[[Any, WildcardValues], Needs | None] = lambda plan, names: None
