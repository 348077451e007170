"""The dataset registry's entries, and reading a source file into checked records."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from maieutic.cards import CARDS
from maieutic.errors import UserError
from maieutic.files import sha256_of
from maieutic.models import COMMIT, SHA256, Entry

Source = dict[str, Any]
Edition = Literal["demo", "published"]
Form = Literal["json", "jsonl", "csv", "parquet"]
LONGEST_CELL = 1 << 24  # characters of a cell of a CSV


class Hub(Entry):
    """Files of a dataset on the hub."""

    repo: str = Field(description="Hub name, org/dataset")
    revision: str | None = Field(None, pattern=COMMIT, description="Commit; null: unknown, and refused")
    files: str = Field(description="Pattern of the Parquet files, in the order of their names")


class Pictures(Entry):
    """Where the pictures of a dataset's records are."""

    address: str = Field(description="Field with an address, or with a path beside the source file")
    embedded: str | None = Field(None, description="Parquet column that holds the picture itself; it goes first")
    where: dict[str, str] = Field({}, description="Which records have one: what these fields hold; empty: any may")

    def expected(self, record: Source) -> bool | None:
        """Whether a record has to have a picture; None: it may."""
        if not self.where:
            return None
        return all(part in str(record.get(field) or "") for field, part in self.where.items())


class Copy(Entry):
    """One file of a dataset: where it lies, and what must be true of it."""

    path: str = Field(description="Path below data_dir (published) or resources/demo (demo); Parquet: or a pattern")
    url: str | None = Field(None, description="Pinned address: a git commit or a hub revision is part of it")
    hub: Hub | None = Field(None, description="Instead of url: Parquet files at a commit, which stands for a checksum")
    sha256: str | None = Field(None, pattern=SHA256, description="null: unknown, and the entry refuses to run")
    records: int | None = Field(None, ge=1, description="Exact number of records")
    pictures: str | None = Field(
        None, pattern=SHA256, description="SHA-256 of the list of pictures; needed where some come from addresses"
    )

    @property
    def pinned(self) -> bool:
        """Whether a checksum, or a commit of the hub, says which bytes these are."""
        return self.sha256 is not None or (self.hub is not None and self.hub.revision is not None)


class Dataset(Entry):
    """One source file of a benchmark, in its publisher's own format."""

    title: str = Field(description="name in the report")
    licence: str = Field(description="of the data")
    format: Form = Field(description="json: one list; jsonl: one record a line; csv: with a head line; parquet")
    fields: list[str] = Field(description="Fields that every record must have")
    published: Copy = Field(description="the benchmark's own file")
    demo: Copy | None = Field(None, description="Small file, written for this project")
    demo_format: Form | None = Field(None, description="Of the demo's file, where it is another")
    pictures: Pictures | None = Field(None, description="Where the records' pictures are; null: they have none")

    @model_validator(mode="after")
    def hub_is_parquet(self) -> Dataset:
        if self.format != "parquet" and (self.published.hub or (self.pictures and self.pictures.embedded)):
            raise ValueError("'hub' and embedded pictures are for format: parquet")
        return self

    def form_of(self, edition: Edition) -> Form:
        """The format of one edition's file."""
        return (self.demo_format if edition == "demo" else None) or self.format

    def copy_of(self, name: str, edition: Edition) -> Copy:
        """The file of one edition. Raises UserError where there is none or where it is not pinned."""
        place = f"datasets.{name}.{edition}"
        copy = self.demo if edition == "demo" else self.published
        if copy is None:
            raise UserError(place, "this dataset has no demo edition", "set edition: published")
        if not copy.pinned or copy.records is None:
            if copy.hub:
                mend = "look up the commit on the dataset's hub page, and set hub.revision and records"
                raise UserError(place, f"{copy.hub.repo} has no pinned commit, or no number of records", mend)
            own = "it is your own file: set both (sha256sum, number of records), or leave its tasks out of run.tasks"
            mend = "set both from the publisher's page" if copy.url else own
            raise UserError(place, "sha256 or records is null: the file is not pinned", mend)
        return copy


def read_source(path: Path, form: str, shown: str | None = None) -> list[Source]:
    """Read a source file. Raises UserError with the line or offset of the first thing that is not a record."""
    shown = shown or str(path)
    mend = "fetch the file anew: it is truncated or damaged"
    if form == "parquet":
        return read_parquet(path, shown, mend)
    try:
        text = path.read_bytes().decode("utf-8")  # line ends inside a cell stay as they are
    except UnicodeDecodeError as error:
        raise UserError(shown, f"not UTF-8 at byte {error.start}", mend) from None
    if form == "csv":
        return read_csv(text, shown, mend)
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


def read_csv(text: str, shown: str, mend: str) -> list[Source]:
    """The lines below the head line. Raises UserError for one that has more or fewer cells."""
    before = csv.field_size_limit(LONGEST_CELL)
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    records: list[Source] = []
    try:
        for row in reader:
            if None in row or None in row.values():
                cells = f"{len(reader.fieldnames or [])} cells"
                raise UserError(f"{shown}:{reader.line_num}", f"expected {cells}, found more or fewer", mend)
            records.append(dict(row))
    except csv.Error as error:
        raise UserError(f"{shown}:{reader.line_num}", f"not CSV: {error}", mend) from None
    finally:
        csv.field_size_limit(before)
    return records


def read_parquet(path: Path, shown: str, mend: str) -> list[Source]:
    """The rows, without columns of bytes: pictures are read apart."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
        plain = [field.name for field in schema if not (pa.types.is_struct(field.type) or is_binary(field.type))]
        return pq.read_table(path, columns=plain).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise UserError(shown, f"not Parquet: {str(error).splitlines()[0][:200]}", mend) from None


def is_binary(kind: Any) -> bool:
    """Whether a column of this type holds bytes."""
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def record_of(line: str, place: str, mend: str) -> Source:
    """One line's record."""
    try:
        return json.loads(line)
    except ValueError as error:
        raise UserError(place, f"expected a JSON record, found {error}", mend) from None


def check_source(path: Path, dataset: Dataset, copy: Copy, shown: str, form: Form | None = None) -> list[Source]:
    """Check a file against its registry entry: SHA-256, number of records, fields of every record."""
    found = sha256_of(path)
    # A damaged file says more about itself than its checksum does: read it first.
    records = read_source(path, form or dataset.format, shown)
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
    if copy.sha256 is not None and found != copy.sha256:
        raise UserError(
            shown, f"expected sha256 {copy.sha256}, found {found}", "fetch the pinned file anew; it was altered"
        )
    return records


def demo_folder(shared: Path, path: str) -> Path:
    """The folder below which a file of the demo lies: the shared one, or that of a benchmark which brings its own."""
    own = [folder for folder in sorted(CARDS.glob("*/demo")) if (folder / path).exists()]
    return own[0] if own and not (shared / path).exists() else shared
