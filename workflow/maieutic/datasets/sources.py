"""The dataset registry's entries, and reading a source file into checked records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from maieutic.errors import UserError
from maieutic.files import sha256_of
from maieutic.models import SHA256, Entry

Source = dict[str, Any]
Edition = Literal["demo", "published"]


class Copy(Entry):
    """One file of a dataset: where it lies, and what must be true of it."""

    path: str = Field(description="Path below data_dir (published) or resources/demo (demo)")
    url: str | None = Field(None, description="Pinned address: a git commit or a hub revision is part of it")
    sha256: str | None = Field(None, pattern=SHA256, description="null: unknown, and the entry refuses to run")
    records: int | None = Field(None, ge=1, description="Exact number of records")


class Dataset(Entry):
    """One source file of a benchmark, in its publisher's own format."""

    title: str
    licence: str
    format: Literal["json", "jsonl"] = Field(description="json: one list; jsonl: one record a line")
    fields: list[str] = Field(description="Fields that every record must have")
    published: Copy
    demo: Copy | None = Field(None, description="Small file in the same format, written for this project")

    def copy_of(self, name: str, edition: Edition) -> Copy:
        """The file of one edition. Raises UserError where there is none or where it is not pinned."""
        place = f"datasets.{name}.{edition}"
        copy = self.demo if edition == "demo" else self.published
        if copy is None:
            raise UserError(place, "this dataset has no demo edition", "set edition: published")
        if copy.sha256 is None or copy.records is None:
            own = "it is your own file: set both (sha256sum, number of records), or leave its tasks out of run.tasks"
            mend = "set both from the publisher's page" if copy.url else own
            raise UserError(place, "sha256 or records is null: the file is not pinned", mend)
        return copy


def read_source(path: Path, form: str, shown: str | None = None) -> list[Source]:
    """Read a source file. Raises UserError with the line or offset of the first thing that is not a record."""
    shown = shown or str(path)
    mend = "fetch the file anew: it is truncated or damaged"
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(shown, f"not UTF-8 at byte {error.start}", mend) from None
    if form == "jsonl":
        return [
            record_of(line, f"{shown}:{number}", mend)
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
    try:
        records = json.loads(text)
    except ValueError as error:
        raise UserError(shown, f"expected a JSON list, found {error}", mend) from None
    if not isinstance(records, list):
        raise UserError(shown, f"expected a JSON list, found {type(records).__name__}", mend)
    return records


def record_of(line: str, place: str, mend: str) -> Source:
    """One line's record."""
    try:
        return json.loads(line)
    except ValueError as error:
        raise UserError(place, f"expected a JSON record, found {error}", mend) from None


def check_source(path: Path, dataset: Dataset, copy: Copy, shown: str) -> list[Source]:
    """Check a file against its registry entry: SHA-256, number of records, fields of every record."""
    found = sha256_of(path)
    # A damaged file says more about itself than its checksum does: read it first.
    records = read_source(path, dataset.format, shown)
    if len(records) != copy.records:
        raise UserError(shown, f"expected {copy.records} records, found {len(records)}", "fetch the file anew")
    for number, record in enumerate(records):
        if not isinstance(record, dict):
            raise UserError(
                f"{shown}, record {number}", f"expected a mapping, found {type(record).__name__}", "fetch anew"
            )
        if missing := [field for field in dataset.fields if field not in record]:
            raise UserError(
                f"{shown}, record {number}", f"field {', '.join(missing)} is missing", "fetch the pinned file anew"
            )
    if found != copy.sha256:
        raise UserError(
            shown, f"expected sha256 {copy.sha256}, found {found}", "fetch the pinned file anew; it was altered"
        )
    return records
