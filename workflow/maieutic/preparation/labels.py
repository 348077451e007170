"""Command that writes the files of a labelled set."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from maieutic.config.datasets import SourceRecord
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import write_records
from maieutic.datasets.labelled_sets import LABEL_LOADERS, table_source
from maieutic.datasets.releases import LabelSource
from maieutic.datasets.sources import read_source

log = logging.getLogger(__name__)


class MakeLabels(Job):
    """Job that writes a labelled set. forms: formats of the source files; rubric: rubric card of a user's table."""

    release: str
    loader: str
    forms: list[str]
    rubric: str | None = None


def make_labels(*, job: MakeLabels, sources: list[Path], out: Path) -> None:
    """Write the files of a labelled set. out: path of its items; all other files are written to the same folder."""
    records = [read_source(path, form) for path, form in zip(sources, job.forms, strict=True)]
    if job.rubric:
        source = table_source(job.rubric, (), f"labels/{job.release}, ")
    else:
        source = LABEL_LOADERS[job.loader]
    write_labels(job.release, source, records, out.parent)


def write_labels(name: str, source: LabelSource, records: Sequence[list[SourceRecord]], out: Path) -> None:
    """Write a set's items, replies, labels, single annotations, statistics and scales to the folder `out`.

    records: one list of records for each dataset of the set. Raises UserError if the loader cannot read the records.
    """
    try:
        labelled = source.load(*records)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        problem = f"the sources of the set cannot be read: {type(error).__name__}: {error}"
        raise UserError(f"labels/{name}", problem, "correct the fields of these sources") from error
    if not labelled.labels and source.labelled:
        raise UserError(
            f"labels/{name}", "this set has no labels", "add labels to its sources, or remove it from run.labels"
        )
    write_records(out / "items.jsonl", labelled.items)
    write_records(out / "replies.jsonl", labelled.replies)
    write_records(out / "labels.jsonl", labelled.labels)
    write_records(out / "annotations.jsonl", labelled.annotations)
    write_json(out / "about.json", source.about.model_dump(mode="json"))
    write_json(out / "statistics.json", source.statistics(labelled))
    numbers = len(labelled.items), len(labelled.replies), len(labelled.labels)
    log.info("%s: %d dialogues, %d replies, %d labels", name, *numbers)
