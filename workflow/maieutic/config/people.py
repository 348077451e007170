"""The registry's entries of what people have said: labels of replies, and preferences between two."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from maieutic.config.models import Entry, FilePath

TABLE = "table"  # the loader of files in our own format
PAIR_COLUMNS = (
    "history", "first", "second", "preference", "id", "question", "solution", "annotator", "resolves", "problem",
)  # fmt: skip
FORMS = r"^[^{}\n]*\.(jsonl|csv)$"  # braces are wildcards to Snakemake


class PeopleSet(Entry):
    """A set of labels or preferences: its own file, or what a loader makes of datasets of the registry."""

    title: str = Field(description="name in the report")
    licence: str = Field(description="of the data")
    file: FilePath | None = Field(None, pattern=FORMS, description="JSON lines or CSV of your own, instead of datasets")
    datasets: list[str] = Field([], description="source files, by their names in `datasets`")
    loader: str = Field(TABLE, description="what reads them: `table`, the columns of docs/people.md, or a benchmark's")

    @model_validator(mode="after")
    def one_source(self) -> PeopleSet:
        if (self.file is None) == (not self.datasets):
            raise ValueError("give a file, or the datasets that it is made of")
        if self.file and self.loader != TABLE:
            raise ValueError(f"a file of your own is read by loader: {TABLE}")
        return self


class LabelSet(PeopleSet):
    """Replies that people have labelled, which graders are checked on."""

    rubric: str | None = Field(
        None, description="with loader `table`: the rubric card whose criteria and labels these are"
    )
    default: bool = Field(True, description="whether it is used where `run.labels` is null and a judge's rubric fits")
    seen_by: str | None = Field(
        None, description="the source of training pairs that is made of these labels: who learnt from it is marked"
    )

    @model_validator(mode="after")
    def has_scales(self) -> LabelSet:
        if (self.rubric is None) == (self.loader == TABLE):
            raise ValueError(f"loader: {TABLE} needs a rubric, which says what the labels are, and no other takes one")
        return self


class PreferenceSet(PeopleSet):
    """Pairs of replies of which people prefer one, which judges, reward models and classifiers are checked on."""

    default: bool = Field(True, description="whether it is used where `run.preferences` is null")
    columns: dict[str, str] = Field(
        {}, description="with loader `table`: by our column (docs/people.md) the name that it has in this file"
    )
    values: dict[str, Literal["first", "second", "tie"]] = Field(
        {},
        description="with loader `table`: the meaning of each preference in the file: `first`, `second` or `tie`",
    )

    @model_validator(mode="after")
    def known_columns(self) -> PreferenceSet:
        if strange := [name for name in self.columns if name not in PAIR_COLUMNS]:
            raise ValueError(f"columns: {strange[0]} is no column of ours: {', '.join(PAIR_COLUMNS)}")
        if (self.columns or self.values) and self.loader != TABLE:
            raise ValueError(f"columns and values are those of loader: {TABLE}")
        return self
