"""Schema of the registry entries for human labels and human preferences."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from maieutic.config.models import FilePath, StrictModel

TABLE_LOADER = "table"  # loader of files with the columns that docs/people.md defines
PAIR_COLUMNS = (
    "history", "first", "second", "preference", "id", "question", "solution", "annotator", "resolves", "problem",
)  # fmt: skip
TABLE_FILE = r"^[^{}\n]*\.(jsonl|csv)$"  # braces are excluded: Snakemake reads them as wildcards


class PeopleSet(StrictModel):
    """A set of human labels or preferences, read from a file or from datasets of the registry."""

    title: str = Field(description="Name of the set in the report.")
    licence: str = Field(description="Licence of the data.")
    file: FilePath | None = Field(
        None,
        pattern=TABLE_FILE,
        description="JSON lines or CSV file that contains the set. Set either `file` or `datasets`.",
    )
    datasets: list[str] = Field(
        [], description="Datasets in the dataset registry that contain the set. Set either `datasets` or `file`."
    )
    loader: str = Field(
        TABLE_LOADER,
        description="Loader of the set: `table` (a file with the columns of docs/people.md) or a benchmark's loader.",
    )

    @model_validator(mode="after")
    def one_source(self) -> PeopleSet:
        if (self.file is None) == (not self.datasets):
            raise ValueError("expected either 'file' or 'datasets'")
        if self.file and self.loader != TABLE_LOADER:
            raise ValueError(f"'file' requires loader: {TABLE_LOADER}")
        return self


class LabelSet(PeopleSet):
    """A set of replies labelled by people, on which graders are validated."""

    rubric: str | None = Field(
        None, description="For loader `table`: rubric card that defines the criteria and labels in the file."
    )
    default: bool = Field(
        True, description="Use this set if `run.labels` is null and the rubric of a judge fits the set."
    )
    seen_by: str | None = Field(
        None,
        description=(
            "Source of training pairs that was made from these labels. The report marks graders trained on that source."
        ),
    )

    @model_validator(mode="after")
    def has_scales(self) -> LabelSet:
        if (self.rubric is None) == (self.loader == TABLE_LOADER):
            raise ValueError(
                f"loader: {TABLE_LOADER} requires 'rubric', which defines the labels; all other loaders refuse 'rubric'"
            )
        return self


class PreferenceSet(PeopleSet):
    """A set of pairs of replies compared by people, on which judges, reward models and classifiers are validated."""

    default: bool = Field(True, description="Use this set if `run.preferences` is null.")
    columns: dict[str, str] = Field(
        {}, description="For loader `table`: columns that docs/people.md defines, each mapped to its name in the file."
    )
    values: dict[str, Literal["first", "second", "tie"]] = Field(
        {},
        description=(
            "For loader `table`: the values of a preference in the file, each mapped to `first`, `second` or `tie`."
        ),
    )

    @model_validator(mode="after")
    def known_columns(self) -> PreferenceSet:
        if strange := [name for name in self.columns if name not in PAIR_COLUMNS]:
            raise ValueError(f"columns: expected one of {', '.join(PAIR_COLUMNS)}, found {strange[0]}")
        if (self.columns or self.values) and self.loader != TABLE_LOADER:
            raise ValueError(f"columns and values require loader: {TABLE_LOADER}")
        return self
