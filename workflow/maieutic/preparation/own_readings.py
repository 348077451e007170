"""Readings of the user's files before a run's first job, by the jobs that will read them, with discarded outputs."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from maieutic.core.files import MB, read_json_lines
from maieutic.core.user_tables import preview
from maieutic.datasets.sources import read_checked_source
from maieutic.plan.plan import Plan
from maieutic.preparation.items import make_items
from maieutic.preparation.labels import make_labels
from maieutic.preparation.own_files import label_files, preference_files, problems_file
from maieutic.preparation.pairs import make_pairs
from maieutic.preparation.stage import make_items_job, make_labels_job, make_pairs_job

MOST_MB = 20.0  # larger files are read by their jobs alone
PREVIEWED = ("items.jsonl", "replies.jsonl", "labels.jsonl", "pairs.jsonl")  # what is made of a file of the user's
Reading = tuple[str, Path, Callable[[Path], None]]  # key of the file, its path, and the reading, given a folder


def readings_of(plan: Plan) -> Iterator[Reading]:
    """Yield the readings of the labels, preferences and problems of the user's files that a run names."""
    for release, path in label_files(plan).items():
        yield f"labels.{release}", path, partial(read_labels, plan, release, path)
    for source, path in preference_files(plan).items():
        yield f"preferences.{source}", path, partial(read_pairs, plan, source, path)
    for loaded in plan.cards.values():
        card = loaded.card
        path_of_problems = None if card.images else problems_file(plan, card.dataset)
        if path_of_problems is not None:
            read = partial(read_items, plan, card.benchmark, card.task, path_of_problems)
            yield f"datasets.{card.dataset}", path_of_problems, read


def read_labels(plan: Plan, release: str, path: Path, folder: Path) -> None:
    """Make a labelled set from the user's file. Raises UserError for a faulty file."""
    make_labels(job=make_labels_job(plan, release), sources=[path], out=folder / "items.jsonl")


def read_pairs(plan: Plan, source: str, path: Path, folder: Path) -> None:
    """Make the pairs of the user's file. Raises UserError for a faulty file."""
    counts = folder / "counts.json"
    make_pairs(job=make_pairs_job(plan, source), sources=[path], out=folder / "pairs.jsonl", counts=counts)


def read_items(plan: Plan, benchmark: str, task: str, path: Path, folder: Path) -> None:
    """Make the items of the user's problems. Raises UserError for a file that differs from its registry entry."""
    name = plan.card(benchmark, task).dataset
    dataset = plan.datasets[name]
    copy, form = dataset.file_of(name, plan.edition), dataset.format_of(plan.edition)
    read_checked_source(path, dataset, copy, str(path), form, plan.config.limits)
    make_items(job=make_items_job(plan, benchmark, task), source=path, pictures=[], out=folder / "items.jsonl")


def checks_of_readings(plan: Plan) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield a check for each of the user's files that a run names, with the file's key."""
    for key, path, read in readings_of(plan):
        if path.is_file() and path.stat().st_size <= MOST_MB * MB:
            yield key, partial(discard, read)


def preview_of_own_files(plan: Plan) -> Iterator[str]:
    """Yield, for each of the user's files that a run names, the number and the first of the records made from it.

    Raises UserError for a faulty file.
    """
    for key, path, read in readings_of(plan):
        with tempfile.TemporaryDirectory(prefix="maieutic-") as folder, logging_disabled():
            read(Path(folder))
            for made in (file for name in PREVIEWED if (file := Path(folder, name)).is_file()):
                records = read_json_lines(made)
                yield f"{key}: {path}, read as {len(records):,} {made.stem}"
                yield from preview(map(filled_fields, records))


def filled_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that have a value. Fields of an object are named `object.field`."""
    fields = dict[str, Any]()
    for name, value in record.items():
        fields |= (
            {f"{name}.{part}": inner for part, inner in value.items()} if isinstance(value, dict) else {name: value}
        )
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


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
