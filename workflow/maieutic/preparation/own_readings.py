"""Readings of the user's files before a run's first job, by the jobs that will read them, with discarded outputs."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from maieutic.core import paths
from maieutic.core.files import MB
from maieutic.datasets.sources import local_copy, read_checked_source
from maieutic.plan.plan import Plan
from maieutic.preparation.items import make_items
from maieutic.preparation.labels import make_labels
from maieutic.preparation.pairs import make_pairs
from maieutic.preparation.stage import make_items_job, make_labels_job, make_pairs_job

MOST_MB = 20.0  # larger files are read by their jobs alone
Reading = tuple[str, Path, Callable[[Path], None]]  # key of the file, its path, and the reading, given a folder


def readings_of(plan: Plan) -> Iterator[Reading]:
    """Yield the readings of the labels, preferences and problems of the user's files that a run names."""
    for release in plan.releases:
        if (file := plan.label_sets[release].file) is not None:
            yield f"labels.{release}", Path(file), partial(read_labels, plan, release)
    for source in plan.preferences:
        entry = plan.config.preferences.get(source)
        if entry is not None and entry.file is not None:
            yield f"preferences.{source}", Path(entry.file), partial(read_pairs, plan, source)
    for loaded in plan.cards.values() if plan.edition == "published" else ():
        card = loaded.card
        copy = plan.datasets[card.dataset].file_of(card.dataset, plan.edition)
        folder = Path(plan.config.data_dir) if plan.config.data_dir else None
        if copy.url is None and copy.hub is None and copy.is_file and not card.images:
            path = local_copy(copy, plan.edition, folder, paths.DEMO_DATA)
            if path is not None:
                yield f"datasets.{card.dataset}", path, partial(read_items, plan, card.benchmark, card.task, path)


def read_labels(plan: Plan, release: str, folder: Path) -> None:
    """Make a labelled set from the user's file. Raises UserError for a faulty file."""
    file = plan.label_sets[release].file
    assert file is not None
    make_labels(job=make_labels_job(plan, release), sources=[Path(file)], out=folder / "items.jsonl")


def read_pairs(plan: Plan, source: str, folder: Path) -> None:
    """Make the pairs of the user's file. Raises UserError for a faulty file."""
    file = plan.config.preferences[source].file
    assert file is not None
    counts = folder / "counts.json"
    make_pairs(job=make_pairs_job(plan, source), sources=[Path(file)], out=folder / "pairs.jsonl", counts=counts)


def read_items(plan: Plan, benchmark: str, task: str, path: Path, folder: Path) -> None:
    """Make the items of the user's problems. Raises UserError for a file that differs from its registry entry."""
    dataset = plan.datasets[plan.card(benchmark, task).dataset]
    copy, form = dataset.file_of(dataset.title, plan.edition), dataset.format_of(plan.edition)
    read_checked_source(path, dataset, copy, str(path), form, plan.config.limits)
    make_items(job=make_items_job(plan, benchmark, task), source=path, pictures=[], out=folder / "items.jsonl")


def checks_of_readings(plan: Plan) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield a check for each of the user's files that a run names, with the file's key."""
    for key, path, read in readings_of(plan):
        if path.is_file() and path.stat().st_size <= MOST_MB * MB:
            yield key, partial(discard, read)


def discard(read: Callable[[Path], None]) -> None:
    """Read a file into a temporary folder, without log lines."""
    with tempfile.TemporaryDirectory(prefix="maieutic-") as folder, logging_disabled():
        read(Path(folder))


@contextmanager
def logging_disabled() -> Iterator[None]:
    """Suppress logging, because each job logs its findings when the run executes it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
