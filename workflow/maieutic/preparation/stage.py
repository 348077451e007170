"""Part of the plan that covers data and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maieutic.config import cards
from maieutic.config.models import RewardModel, VllmModel, WeightsOnly
from maieutic.config.people import TABLE_LOADER
from maieutic.core import paths
from maieutic.datasets.registry import LOADERS
from maieutic.plan import digest
from maieutic.plan.inputs import rubric_files, source_files
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, Replacements, SlicePlan, unused_tables
from maieutic.plan.syntax import Name
from maieutic.preparation.fetch import FetchDataset
from maieutic.preparation.items import MakeItems
from maieutic.preparation.labels import MakeLabels
from maieutic.preparation.own_files import checks_of_own_files
from maieutic.preparation.pairs import MakePairs
from maieutic.preparation.pictures import FetchPictures
from maieutic.preparation.weights import PrepareWeights


def local_weight_files(plan: Plan, model: str) -> list[str]:
    """Return the weight files of a model in a local folder, so that Snakemake notices a change; else an empty list."""
    path = getattr(getattr(plan.models[model], "weights", None), "path", None)
    return [str(file) for file in sorted(Path(path).glob("*.*"))] if path else []


def task_source(plan: Plan, benchmark: str, task: str) -> str:
    """Return the source file of a task's items."""
    return paths.SOURCE.of(dataset=plan.card(benchmark, task).dataset)


def task_pictures(plan: Plan, benchmark: str, task: str) -> list[str]:
    """Return the file that lists the pictures of a task's dataset; empty for a task without pictures."""
    card = plan.card(benchmark, task)
    return [paths.PICTURE_LIST.of(dataset=card.dataset)] if card.images else []


def task_card(plan: Plan, benchmark: str, task: str) -> str:
    """Return the file of a task's card."""
    return str(cards.card_path(benchmark, task))


def label_sources(plan: Plan, release: str) -> list[str]:
    """Return the files from which a labelled release is made: the user's file, or the sources of its datasets."""
    entry = plan.label_sets[release]
    return [entry.file] if entry.file else source_files(plan.label_datasets(release))


def label_rubric(plan: Plan, release: str) -> list[str]:
    """Return the files of the rubric that a user's labels follow; empty for published releases."""
    entry = plan.label_sets[release]
    return rubric_files([entry.rubric] if entry.rubric else [])


def pair_sources(plan: Plan, source: str) -> list[str]:
    """Return the files from which a set of pairs is made: the user's file, or the sources of its datasets."""
    entry = plan.config.preferences.get(source)
    return [entry.file] if entry and entry.file else source_files(plan.pair_datasets(source))


def download_files(plan: Plan) -> list[str]:
    """Return every file that the run may have to download."""
    files = source_files(plan.used_datasets)
    files += [paths.PICTURE_LIST.of(dataset=name) for name in plan.pictured_datasets]
    models = plan.models
    return files + [paths.WEIGHTS.of(model=name) for name in plan.used_models if getattr(models[name], "weights", None)]


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


def fetch_dataset_job(plan: Plan, dataset: str) -> FetchDataset:
    return FetchDataset(**edition_fields(plan, dataset))


def fetch_pictures_job(plan: Plan, dataset: str) -> FetchPictures:
    return FetchPictures(**edition_fields(plan, dataset))


def prepare_weights_job(plan: Plan, model: str) -> PrepareWeights:
    entry = plan.models[model]
    assert isinstance(entry, VllmModel | WeightsOnly | RewardModel) and entry.weights is not None
    adapted = isinstance(entry, RewardModel) and entry.adapter is not None
    return PrepareWeights(model=model, weights=entry.weights, with_code=entry.trust_remote_code or adapted)


def make_items_job(plan: Plan, benchmark: str, task: str) -> MakeItems:
    config = plan.config
    form = config.datasets[plan.card(benchmark, task).dataset].format_of(config.edition)
    return MakeItems(
        benchmark=benchmark, task=task, form=form, limit=config.run.limit, seed=config.run.seed, repeats=plan.repeats
    )


def make_labels_job(plan: Plan, release: str) -> MakeLabels:
    config = plan.config
    entry = plan.label_sets[release]
    forms = [config.datasets[dataset].format_of(config.edition) for dataset in plan.label_datasets(release)]
    suffixes = [Path(entry.file).suffix[1:]] if entry.file else []
    return MakeLabels(release=release, loader=entry.loader, forms=suffixes or forms, rubric=entry.rubric)


def make_pairs_job(plan: Plan, source: str) -> MakePairs:
    config = plan.config
    entry = config.preferences.get(source)
    forms = [config.datasets[dataset].format_of(config.edition) for dataset in plan.pair_datasets(source)]
    suffixes = [Path(entry.file).suffix[1:]] if entry and entry.file else []
    return MakePairs(source=source, forms=suffixes or forms, published=config.edition == "published", entry=entry)


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


STAGE = SlicePlan(
    module=__name__,
    checks=Checks(start=checks_of_own_files),
    used_code={
        "make_items": used_by_make_items,
        "make_pairs": used_by_make_pairs,
        "make_labels": used_by_make_labels,
    },
)
