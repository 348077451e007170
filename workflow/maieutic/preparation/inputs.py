"""Input files of the rules for data and weights that depend on the run's tasks and models."""

from __future__ import annotations

from pathlib import Path

from maieutic.config import cards
from maieutic.core import paths
from maieutic.plan.inputs import rubric_files, source_files
from maieutic.plan.plan import Plan


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
