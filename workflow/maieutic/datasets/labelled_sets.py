"""Labelled replies for validating graders: loaders of the registry's sets, and the files written for each set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from maieutic.config.models import JudgeModel
from maieutic.config.people import TABLE_LOADER, LabelSet
from maieutic.config.registry import unknown_name
from maieutic.config.rubrics import LoadedRubric, annotation_scales, read_rubric
from maieutic.core.plugins import merged_plugin_tables
from maieutic.core.records import Item, Label, LabelSetDescription, Reply, Scales, read_records
from maieutic.datasets.label_table import label_table_columns, labelled_table, table_records, table_variables
from maieutic.datasets.releases import LabelSource
from maieutic.datasets.sampling import ranked_by_seed

LABEL_LOADERS: dict[str, LabelSource] = merged_plugin_tables("releases", "RELEASES")


class LabelledData(NamedTuple):
    """Contents of the files of one labelled set."""

    items: dict[str, Item]
    replies: list[Reply]
    labels: list[Label]
    about: LabelSetDescription

    @property
    def scales(self) -> Scales:
        """Scale of each criterion."""
        return self.about.scales

    @property
    def texts(self) -> dict[tuple[str, str], str]:
        """All turns of each reply as one text, by item and tutor."""
        return {(reply.id, reply.tutor): " ".join(turn.text for turn in reply.turns) for reply in self.replies}


def table_source(rubric: str, columns: Iterable[str], where: str) -> LabelSource:
    """Return the loader of a table whose labels follow a rubric card. where: text before record numbers in messages."""
    scales = annotation_scales(read_rubric(rubric).rubric)
    return LabelSource(partial(labelled_table, scales, where=where), scales, table_variables(columns), rubric=rubric)


def check_table(entry: LabelSet) -> None:
    """Raise UserError that names all invalid lines in the user's file of a set, if the set has such a file."""
    if entry.file and entry.rubric:
        path = Path(entry.file)
        table_source(entry.rubric, (), f"{path}, ").load(table_records(path))


def label_source(name: str, entry: LabelSet, fields: Iterable[str]) -> LabelSource:
    """Return the loader of a registered set. fields: fields of its datasets. Raises UserError for an unknown loader."""
    if entry.loader == TABLE_LOADER:
        assert entry.rubric is not None, "a set with the table loader has a rubric"
        return table_source(
            entry.rubric, label_table_columns(Path(entry.file)) if entry.file else fields, f"labels/{name}, "
        )
    if entry.loader not in LABEL_LOADERS:
        raise unknown_name(
            f"labels.{name}.loader", entry.loader, [TABLE_LOADER, *LABEL_LOADERS], "the loaders of labels"
        )
    return LABEL_LOADERS[entry.loader]


def rubric_fits_labels(about: LabelSetDescription, loaded: LoadedRubric) -> bool:
    """Return True if a rubric can be used to validate a judge on a set, since it uses the set's criteria and labels."""
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


def read_set_description(folder: Path) -> LabelSetDescription:
    """Return the description of a labelled set. folder: folder of the set's files."""
    return LabelSetDescription.model_validate_json((folder / "about.json").read_text(encoding="utf-8"))


def read_labelled_data(folder: Path) -> LabelledData:
    """Return the contents of one labelled set. folder: folder of the set's files."""
    return LabelledData(
        {item.id: item for item in read_records(folder / "items.jsonl", Item)},
        read_records(folder / "replies.jsonl", Reply),
        read_records(folder / "labels.jsonl", Label),
        read_set_description(folder),
    )


def sample_replies(replies: Sequence[Reply], limit: int | None, seed: int) -> list[Reply]:
    """Return a random sample of replies in their original order. A larger sample contains every smaller one."""
    if limit is None or limit >= len(replies):
        return list(replies)
    chosen = set(ranked_by_seed((f"{reply.id}/{reply.tutor}" for reply in replies), seed)[:limit])
    return [reply for reply in replies if f"{reply.id}/{reply.tutor}" in chosen]


def rubric_for_labels(judge: JudgeModel, about: LabelSetDescription) -> LoadedRubric | None:
    """Return the first of a judge's rubrics that fits the labels of a set, or None."""
    return next((loaded for name in judge.rubrics if rubric_fits_labels(about, loaded := read_rubric(name))), None)
