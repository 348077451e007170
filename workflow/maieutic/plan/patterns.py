"""What wildcards can be: exactly the names that a run has, so that no two rules can write one file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from maieutic.plan.plan import Plan
from maieutic.rewards.pairs import PAIR_SOURCES


def one_of(names: Iterable[str]) -> str:
    """A pattern for exactly these names; of none it matches nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def patterns(plan: Plan) -> dict[str, str]:
    """The pattern of every wildcard."""
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


def pictured(plan: Plan) -> list[str]:
    """The datasets whose records have pictures."""
    return [name for name, dataset in plan.datasets.items() if dataset.pictures]


def judges_answered_by(plan: Plan, judges: Iterable[str], *engines: str) -> list[str]:
    """Of some judges those whose model an engine answers for."""
    models = plan.with_engine(*engines)
    return [name for name in judges if plan.answering(name) in models]
