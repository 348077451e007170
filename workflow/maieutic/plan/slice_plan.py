"""The part of a run's plan that a slice adds, and the code that a slice's jobs leave out of their digests.

A slice is a feature, or a benchmark with stages of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from maieutic.config.cards import Card
from maieutic.config.models import Needs
from maieutic.config.rubrics import read_rubric
from maieutic.core import plugins
from maieutic.core.plugins import PACKAGE, plugin_packages
from maieutic.plan import former_digests
from maieutic.plan.plan import Plan
from maieutic.plan.syntax import Name

Replacements = dict[Name, tuple[Name, ...]]  # definitions that replace a definition; none if it is left out


@cache
def plugin_tables(module: str, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the tables `module.name` of the plug-ins, by benchmark or feature."""
    # Called as an attribute, because `plan.syntax` requires constant arguments in direct calls of this function.
    return plugins.plugin_objects(module, name)


def unused_tables(module: str, name: str, used: Iterable[str]) -> Replacements:
    """Return replacements that leave out each plug-in's table `module.name` if it contains none of the `used` names."""
    packages, names = plugin_packages(), set(used)
    return {
        Name(f"{packages[owner].removeprefix(f'{PACKAGE}.')}.{module}", name): ()
        for owner, table in plugin_tables(module, name).items()
        if not table.keys() & names
    }


def unused_metrics(cards: Iterable[Card]) -> Replacements:
    """Return replacements that leave out the metrics that none of the cards names."""
    functions = {metric.function or name for card in cards for name, metric in card.metrics.items()}
    return unused_tables("metrics", "METRICS", functions)


def unused_by_rubrics(names: Iterable[str], criteria: Iterable[str] = ()) -> Replacements:
    """Return replacements that leave out the conditions and word lists that the named rubrics do not use.

    criteria: further criteria, whose word lists are used.
    """
    rubrics = [read_rubric(name).rubric for name in names]
    conditions = {rubric.when for rubric in rubrics if rubric.when}
    used = {*criteria, *(name for rubric in rubrics for name in rubric.criteria)}
    return {
        **unused_tables("conditions", "CONDITIONS", conditions),
        **unused_tables("heuristics", "HEURISTICS", used),
    }


def used_on_benchmark(plan: Plan, benchmark: str, **others: str) -> Replacements:
    """Return replacements that leave out the graders and metrics that no card of a benchmark names."""
    cards = [loaded.card for loaded in plan.benchmarks[benchmark]]
    graders = {name for card in cards for name in card.graders}
    return {**unused_tables("graders", "GRADERS", graders), **unused_metrics(cards)}


@cache
def code_with_replacements(command: str, instead: tuple[tuple[Name, tuple[Name, ...]], ...]) -> str:
    """Return the digest of a command's code with some definitions replaced by others."""
    return former_digests.code_of(command, dict(instead))


WildcardValues = Mapping[str, str]  # wildcards of a job


def no_files(plan: Any) -> Iterable[str]:
    """Return no files."""
    return ()


def no_verdicts(plan: Any) -> dict[str, list[str]]:
    """Return no files of verdicts."""
    return {}


class PlannedRequests(NamedTuple):
    """Estimated requests of one job to one model.

    rule, names: the job's rule and the values of its wildcards; stage: name of the stage in estimates; requests: None
    if their number is unknown; prompt_tokens, answer_tokens: sums over all requests.
    """

    rule: str
    names: Mapping[str, str]
    stage: str
    model: str
    requests: int | None
    prompt_tokens: float
    answer_tokens: float


def no_requests(plan: Any) -> Iterator[PlannedRequests]:
    """Return no requests."""
    return iter(())


Check = Callable[[], None]  # raises UserError if the check fails


def no_checks(plan: Any) -> Iterable[Check]:
    """Return no checks."""
    return ()


class Checks(NamedTuple):
    """Checks of a run's selection. Each function takes a plan and returns checks that list their faults together.

    If one of these groups fails, the later groups are not run. names: names in the run file; cards: the selected cards;
    entries: registry entries; data: datasets, labelled sets and pairs; start: checks only when a run starts, because
    the report can be built without the files that they need.
    """

    names: Callable[[Any], Iterable[Check]] = no_checks
    cards: Callable[[Any], Iterable[Check]] = no_checks
    entries: Callable[[Any], Iterable[Check]] = no_checks
    data: Callable[[Any], Iterable[Check]] = no_checks
    start: Callable[[Any], Iterable[Check]] = no_checks


class SlicePlan(NamedTuple):
    """Parts of a run's plan that a slice adds. Each function takes a plan, whose class includes the slice's mixin.

    module: name of the slice's module `stage`, whose functions select input files of the slice's rules and, named like
    a rule, make the rule's job; plan: the slice's mixin class for the plan; checks:
    checks of the selection before any job runs; report_files: files that the report reads; last_files: files that a
    run makes in addition to its report; verdict_files: files of model answers for which the share of missing
    answers is limited, by the model's name; journals: journals of the slice's requests; computed_files: files
    outside the folders of grades, scores and validations that are computed without a model; requests: estimated
    requests of jobs that `maieutic.launch.requests` does not count; used_code: functions that return the code that
    a rule's digest leaves out, by rule; models_of: returns the models that a job calls, from its wildcards, or None
    for a job outside the slice; needs_of: returns the resources that such a job needs, or None.
    """

    module: str
    plan: type[Plan] = Plan
    checks: Checks = Checks()
    report_files: Callable[[Any], Iterable[str]] = no_files
    last_files: Callable[[Any], Iterable[str]] = no_files
    verdict_files: Callable[[Any], dict[str, list[str]]] = no_verdicts
    journals: Callable[[Any], Iterable[str]] = no_files
    computed_files: Callable[[Any], Iterable[str]] = no_files
    requests: Callable[[Any], Iterable[PlannedRequests]] = no_requests
    used_code: Mapping[str, Callable[..., Replacements]] = {}
    models_of: Callable[[Any, WildcardValues], list[str] | None] = lambda plan, names: None
    needs_of: Callable[[Any, WildcardValues], Needs | None] = lambda plan, names: None
