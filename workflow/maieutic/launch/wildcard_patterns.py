"""Wildcard constraints: they match exactly the names in a run, so that no two rules can write the same file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from maieutic.datasets.pairs import PAIR_SOURCES
from maieutic.plan.plan import Plan


def one_of(names: Iterable[str]) -> str:
    """Return a pattern that matches exactly the given names; without names, a pattern that matches nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def constraints_of(plan: Plan) -> dict[str, str]:
    """Return the constraint of every wildcard, by name of the wildcard."""
    return {
        "benchmark": one_of(plan.benchmarks),
        "task": "[a-z][a-z0-9_]*",
        "dataset": one_of(plan.datasets),
        "source": one_of({**PAIR_SOURCES, **plan.config.preferences}),
        "release": one_of(plan.label_sets),
        "model": one_of(plan.models),
        "tutor": one_of(plan.with_engine("vllm", "hosted", "baseline", "recorded")),
        "reward_model": one_of(plan.reward_models),
        "classifier": one_of(plan.classifiers),
        "encoder": one_of(plan.run.encoders),
        "judge": one_of(plan.run.judges),
        "tagger": one_of(plan.run.taggers),
        "shard": "[1-9][0-9]*-of-[1-9][0-9]*",
        "batch": "[A-Za-z0-9_][A-Za-z0-9._+-]*",
    }


def datasets_with_pictures(plan: Plan) -> list[str]:
    """Return the datasets whose records have pictures."""
    return [name for name, dataset in plan.datasets.items() if dataset.pictures]


def judges_with_engine(plan: Plan, judges: Iterable[str], *engines: str) -> list[str]:
    """Return the given judges whose model is run by any of the given engines."""
    models = plan.with_engine(*engines)
    return [name for name in judges if plan.answering_entry(name) in models]
