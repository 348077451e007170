"""Run the first steps of a run without Snakemake, as their rules do, in the working directory on the demo's data."""

from __future__ import annotations

from pathlib import Path

from maieutic.core import paths
from maieutic.plan.rules import RulePlan
from maieutic.preparation import stage as preparation_stage
from maieutic.preparation.fetch import fetch_dataset
from maieutic.preparation.items import make_items
from maieutic.preparation.labels import make_labels
from maieutic.preparation.pairs import make_pairs


def fetched(plan: RulePlan, dataset: str) -> Path:
    """Fetch a data set, and return its file."""
    source = Path(paths.SOURCE.of(dataset=dataset))
    fetch_dataset(job=preparation_stage.fetch_dataset_job(plan, dataset), demo_dir=Path("resources/demo"), out=source)
    return source


def items_of(plan: RulePlan, benchmark: str, task: str) -> Path:
    """Make the items of a task without pictures, and return their file."""
    items = Path(paths.ITEMS.of(benchmark=benchmark, task=task))
    source = fetched(plan, plan.card(benchmark, task).dataset)
    make_items(job=preparation_stage.make_items_job(plan, benchmark, task), source=source, pictures=[], out=items)
    return items


def labels_of(plan: RulePlan, release: str) -> Path:
    """Make a labelled set, and return its folder."""
    items = Path(paths.LABELLED_ITEMS.of(release=release))
    sources = [fetched(plan, dataset) for dataset in plan.label_datasets(release)]
    make_labels(job=preparation_stage.make_labels_job(plan, release), sources=sources, out=items)
    return items.parent


def pairs_of(plan: RulePlan, source: str) -> Path:
    """Make a set of preference pairs, and return its file."""
    pairs, counts = Path(paths.PAIRS.of(source=source)), Path(paths.PAIR_COUNTS.of(source=source))
    sources = [fetched(plan, dataset) for dataset in plan.pair_datasets(source)]
    make_pairs(job=preparation_stage.make_pairs_job(plan, source), sources=sources, out=pairs, counts=counts)
    return pairs
