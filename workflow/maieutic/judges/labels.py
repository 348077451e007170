"""The labelled replies that graders are checked on: how a set of the registry is read, and what is kept of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from maieutic.config.datasets import Source
from maieutic.config.people import TABLE, LabelSet
from maieutic.config.registry import unknown
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.plugins import merged
from maieutic.core.records import Item, Label, LabelSetAbout, Reply, Scales, read_records, write_records
from maieutic.datasets.sampling import ranked
from maieutic.datasets.sources import read_source
from maieutic.judges.label_table import columns_of, labelled_table, records_of, variables_of_table
from maieutic.judges.releases import LabelSource
from maieutic.judges.rubrics import LoadedRubric, read_rubric, scales_of

log = logging.getLogger(__name__)
LABEL_LOADERS: dict[str, LabelSource] = merged("releases", "RELEASES")


class Labels(NamedTuple):
    """The files of one labelled set."""

    items: dict[str, Item]
    replies: list[Reply]
    labels: list[Label]
    about: LabelSetAbout

    @property
    def scales(self) -> Scales:
        """What may be said under each criterion."""
        return self.about.scales

    @property
    def texts(self) -> dict[tuple[str, str], str]:
        """By item and tutor all that the tutor says."""
        return {(reply.id, reply.tutor): " ".join(turn.text for turn in reply.turns) for reply in self.replies}


def table_source(rubric: str, columns: Iterable[str], where: str) -> LabelSource:
    """How a table is read whose criteria and labels are those of a rubric card. where: its name in messages."""
    scales = scales_of(read_rubric(rubric).rubric)
    return LabelSource(partial(labelled_table, scales, where=where), scales, variables_of_table(columns), rubric=rubric)


def check_table(entry: LabelSet) -> None:
    """Raises UserError for all lines of a set's own file that cannot be labels, before any work starts."""
    if entry.file and entry.rubric:
        path = Path(entry.file)
        table_source(entry.rubric, (), f"{path}, ").load(records_of(path))


def label_source(name: str, entry: LabelSet, fields: Iterable[str]) -> LabelSource:
    """How a set of the registry is read. fields: those of its datasets. Raises UserError for an unknown loader."""
    if entry.loader == TABLE:
        assert entry.rubric is not None, "the entry is checked"
        return table_source(entry.rubric, columns_of(Path(entry.file)) if entry.file else fields, f"labels/{name}, ")
    if entry.loader not in LABEL_LOADERS:
        raise unknown(f"labels.{name}.loader", entry.loader, [TABLE, *LABEL_LOADERS], "the loaders of labels")
    return LABEL_LOADERS[entry.loader]


def fits(about: LabelSetAbout, loaded: LoadedRubric) -> bool:
    """Whether a judge can be checked on a set by a rubric: the set's own, or one of its criteria and labels."""
    if about.rubric is not None:
        return about.rubric in (loaded.name, loaded.like)
    criteria = loaded.rubric.criteria
    return (
        loaded.rubric.rules.own_labels
        and bool(criteria)
        and all(
            name in about.scales and about.scales[name].labels == tuple(criterion.labels)
            for name, criterion in criteria.items()
        )
    )


class MakeLabels(Job):
    """A labelled set, the loader and the forms of its source files; rubric: of a table, whose labels it has."""

    release: str
    loader: str
    forms: list[str]
    rubric: str | None = None


def make_labels(*, job: MakeLabels, sources: list[Path], out: Path) -> None:
    """Write items, replies, labels and statistics of a labelled set. out: the file of its items."""
    records = [read_source(path, form) for path, form in zip(sources, job.forms, strict=True)]
    if job.rubric:
        source = table_source(job.rubric, (), f"labels/{job.release}, ")
    else:
        source = LABEL_LOADERS[job.loader]
    write_labels(job.release, source, records, out.parent)


def write_labels(name: str, source: LabelSource, records: Sequence[list[Source]], out: Path) -> None:
    """Write items, replies, labels, the annotators' own, statistics and scales of a set into the folder `out`.

    records: of each of the set's datasets. Raises UserError naming the set for records of another form.
    """
    try:
        made = source.load(*records)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"labels/{name}", f"its sources cannot be read: {type(error).__name__}: {error}", "check their fields"
        ) from error
    if not made.labels and source.labelled:
        raise UserError(f"labels/{name}", "this set has no labels", "name a labelled release in run.labels")
    write_records(out / "items.jsonl", made.items)
    write_records(out / "replies.jsonl", made.replies)
    write_records(out / "labels.jsonl", made.labels)
    write_records(out / "annotations.jsonl", made.given)
    write_json(out / "about.json", source.about.model_dump(mode="json"))
    write_json(out / "statistics.json", source.statistics(made))
    log.info("%s: %d dialogues, %d replies, %d labels", name, len(made.items), len(made.replies), len(made.labels))


def read_about(folder: Path) -> LabelSetAbout:
    """What a labelled set is."""
    return LabelSetAbout.model_validate_json((folder / "about.json").read_text(encoding="utf-8"))


def read_labels(folder: Path) -> Labels:
    """One labelled set."""
    return Labels(
        {item.id: item for item in read_records(folder / "items.jsonl", Item)},
        read_records(folder / "replies.jsonl", Reply),
        read_records(folder / "labels.jsonl", Label),
        read_about(folder),
    )


def sampled(replies: Sequence[Reply], limit: int | None, seed: int) -> list[Reply]:
    """A random sample of replies in their order; a larger limit contains a smaller one's."""
    if limit is None or limit >= len(replies):
        return list(replies)
    chosen = set(ranked((f"{reply.id}/{reply.tutor}" for reply in replies), seed)[:limit])
    return [reply for reply in replies if f"{reply.id}/{reply.tutor}" in chosen]
