"""Definitions that the digest of a job leaves out or replaces, because the job does not use them.

Each benchmark has its own tables of plug-ins, such as a table of graders. The digest of a job covers only the tables
with an entry that the job uses, so that adding or editing a benchmark does not re-run the jobs of another benchmark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from maieutic.config.cards import Card
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
