"""Part of the plan that covers data and weights."""

from __future__ import annotations

from maieutic.config.people import TABLE_LOADER
from maieutic.datasets.registry import LOADERS
from maieutic.plan import digest
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import SlicePlan
from maieutic.plan.syntax import Name
from maieutic.plan.used_code import Replacements, unused_tables
from maieutic.preparation import inputs, jobs


def used_by_make_items(plan: Plan, benchmark: str, task: str) -> Replacements:
    """Return replacements of the table of all loaders by the loader that the task's card names."""
    loader = LOADERS[plan.card(benchmark, task).loader].load
    return {Name("datasets.registry", "LOADERS"): (digest.as_definition(loader), Name("datasets.loaders", "Loader"))}


def used_by_make_pairs(plan: Plan, source: str) -> Replacements:
    """Return replacements of the table of all pair sources by the source whose pairs the job makes."""
    entry = plan.config.preferences.get(source)
    if entry is not None and entry.loader == TABLE_LOADER:
        return {Name("datasets.pairs", "PAIR_SOURCES"): (Name("datasets.pair_sources", "PairSource"),)}
    load = plan.pair_source(source).load
    return {
        Name("datasets.pairs", "PAIR_SOURCES"): (
            digest.as_definition(load),
            Name("datasets.pair_sources", "PairSource"),
        )
    }


def used_by_make_labels(plan: Plan, release: str) -> Replacements:
    """Return replacements that leave out the labelled releases of other benchmarks."""
    return unused_tables("releases", "RELEASES", {plan.label_sets[release].loader})


PLANNING = SlicePlan(
    inputs=inputs,
    jobs=jobs,
    used_code={
        "make_items": used_by_make_items,
        "make_pairs": used_by_make_pairs,
        "make_labels": used_by_make_labels,
    },
)
