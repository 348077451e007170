"""Jobs of the rules for data and weights. The function named like a rule returns the rule's job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maieutic.config.models import RewardModel, VllmModel, WeightsOnly
from maieutic.plan.plan import Plan
from maieutic.preparation.fetch import FetchDataset
from maieutic.preparation.items import MakeItems
from maieutic.preparation.labels import MakeLabels
from maieutic.preparation.pairs import MakePairs
from maieutic.preparation.pictures import FetchPictures
from maieutic.preparation.weights import PrepareWeights


def edition_fields(plan: Plan, dataset: str) -> dict[str, Any]:
    """Return the fields of a job that fetches a dataset: its registry entry, the edition and the data folder."""
    config = plan.config
    folder = Path(config.data_dir) if config.data_dir else None
    return {
        "name": dataset,
        "dataset": config.datasets[dataset],
        "edition": config.edition,
        "data_dir": folder,
        "limits": config.limits,
    }


def fetch_dataset(plan: Plan, dataset: str) -> FetchDataset:
    return FetchDataset(**edition_fields(plan, dataset))


def fetch_pictures(plan: Plan, dataset: str) -> FetchPictures:
    return FetchPictures(**edition_fields(plan, dataset))


def prepare_weights(plan: Plan, model: str) -> PrepareWeights:
    entry = plan.models[model]
    assert isinstance(entry, VllmModel | WeightsOnly | RewardModel) and entry.weights is not None
    adapted = isinstance(entry, RewardModel) and entry.adapter is not None
    return PrepareWeights(model=model, weights=entry.weights, with_code=entry.trust_remote_code or adapted)


def make_items(plan: Plan, benchmark: str, task: str) -> MakeItems:
    config = plan.config
    form = config.datasets[plan.card(benchmark, task).dataset].format_of(config.edition)
    return MakeItems(
        benchmark=benchmark, task=task, form=form, limit=config.run.limit, seed=config.run.seed, repeats=plan.repeats
    )


def make_labels(plan: Plan, release: str) -> MakeLabels:
    config = plan.config
    entry = plan.label_sets[release]
    forms = [config.datasets[dataset].format_of(config.edition) for dataset in plan.label_datasets(release)]
    suffixes = [Path(entry.file).suffix[1:]] if entry.file else []
    return MakeLabels(release=release, loader=entry.loader, forms=suffixes or forms, rubric=entry.rubric)


def make_pairs(plan: Plan, source: str) -> MakePairs:
    config = plan.config
    entry = config.preferences.get(source)
    forms = [config.datasets[dataset].format_of(config.edition) for dataset in plan.pair_datasets(source)]
    suffixes = [Path(entry.file).suffix[1:]] if entry and entry.file else []
    return MakePairs(source=source, forms=suffixes or forms, published=config.edition == "published", entry=entry)
