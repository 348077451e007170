"""Can the graders of a run be had? Names, pins, sources of pairs, before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maieutic.datasets.mrbench import DESIRED
from maieutic.errors import UserError
from maieutic.models import CriteriaModel, Model, RewardModel, VllmModel, WeightsOnly
from maieutic.registry import check_entry, unknown
from maieutic.rewards.pairs import PAIR_SOURCES

if TYPE_CHECKING:  # settings checks a configuration with what is here
    from maieutic.settings import Config


def check_graders(config: Config) -> None:
    """Every reward model and classifier exists, once, with a pinned origin and data that this edition has."""
    run = config.run
    listed = [*run.reward_models, *run.reward_comparisons, *run.classifiers]
    for key, names, kind, what in (
        ("reward_models", run.reward_models, RewardModel, "a reward model"),
        ("reward_comparisons", run.reward_comparisons, RewardModel, "a reward model"),
        ("classifiers", run.classifiers, CriteriaModel, "a criteria classifier"),
    ):
        for number, name in enumerate(names):
            check_entry(config.models, f"run.{key}[{number}]", name, (kind,), what)
            if listed.count(name) > 1:
                raise UserError(f"run.{key}[{number}]", f"{name!r} is listed twice", "list it once")
            check_grader(config, name)


def check_grader(config: Config, name: str) -> None:
    """One reward model or classifier can be had: base and weights pinned, sources and criteria known."""
    model = config.models[name]
    assert isinstance(model, RewardModel | CriteriaModel)
    if isinstance(model, RewardModel) and model.weights is not None:
        model.weights.refuse_unpinned(f"models.{name}.weights")
    if model.train is not None:
        key = f"models.{name}.train.base"
        what = "a base: it needs weights of its own"
        check_entry(config.models, key, model.train.base, (VllmModel, WeightsOnly), what)
        base = config.models[model.train.base]
        assert isinstance(base, VllmModel | WeightsOnly)
        base.weights.refuse_unpinned(f"models.{model.train.base}.weights")
    for criterion in model.train.criteria if isinstance(model, CriteriaModel) else []:
        if criterion not in DESIRED:
            raise unknown(f"models.{name}.train.criteria", criterion, list(DESIRED), "MRBench's criteria")
    for source in sources_of(model):
        if source not in PAIR_SOURCES:
            raise unknown(f"models.{name}: source of pairs", source, list(PAIR_SOURCES), "rewards/pairs.py")
        if PAIR_SOURCES[source].test:
            raise UserError(f"models.{name}", f"{source} holds the test pairs", "train on other sources")
        check_source(config, name, source)


def check_source(config: Config, name: str, source: str) -> None:
    """The files of one source of pairs are in the registry, and pinned in this edition."""
    for dataset in PAIR_SOURCES[source].datasets:
        if dataset not in config.datasets:
            raise unknown(f"rewards/pairs.py: {source}", dataset, list(config.datasets), "the registry")
        try:
            config.datasets[dataset].copy_of(dataset, config.edition)
        except UserError as error:
            mend = f"{error.mend}, or leave {name} out of run.reward_models and run.reward_comparisons"
            problem = f"it learns from {source}: {error.place}: {error.problem}"
            raise UserError(f"models.{name}", problem, mend) from None


def sources_of(model: Model) -> list[str]:
    """The sources of pairs that a reward model was trained on."""
    if not isinstance(model, RewardModel):
        return []
    return sorted(model.train.mix if model.train else model.trained_on)
