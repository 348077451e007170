"""Schema of the entries of the dataset registry."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, model_validator

from maieutic.config.models import COMMIT, PIN_COMMAND_FIX, PIN_FIX, REVISION, SHA256, FilePath, StrictModel, is_commit
from maieutic.core.errors import Unpinned, UserError
from maieutic.core.secrets import SECRET_FIELD

SourceRecord = dict[str, Any]
Edition = Literal["demo", "published"]
FileFormat = Literal["json", "jsonl", "csv", "parquet"]


def checked_address(address: str) -> str:
    """Return the address. Raises ValueError if it contains a user, a password or a key, or is not http(s)."""
    parts = urlsplit(address)
    if parts.username or parts.password or any(SECRET_FIELD.search(name) for name, _ in parse_qsl(parts.query, True)):
        raise ValueError("expected an address without a user, password or key, since addresses are saved with results")
    if parts.scheme not in {"http", "https"}:
        raise ValueError("expected an address that begins with https:// or http://")
    return address


class Hub(StrictModel):
    """Parquet files of a dataset on the Hugging Face hub."""

    repo: str = Field(description="Repository on the Hugging Face hub, as org/dataset.")
    revision: str | None = Field(
        None,
        pattern=REVISION,
        description="Commit; or a branch or tag, whose commit `maieutic pin` looks up; `null`: the newest commit.",
    )
    files: str = Field(description="Pattern of the Parquet files, which are read in the order of their names.")


class PictureFields(StrictModel):
    """Names of the record fields that locate a dataset's pictures."""

    address: str = Field(description="Field with the picture's web address, or with its path beside the source file.")
    embedded: str | None = Field(
        None, description="Parquet column with the picture itself, used before `address`; `null`: no such column."
    )
    where: dict[str, str] = Field(
        {},
        description=(
            "Fields of records with a picture, each with a text that the field must contain; `{}`: any record may "
            "have a picture."
        ),
    )

    def expected(self, record: SourceRecord) -> bool | None:
        """Return True if the record must have a picture, False if it must not, None if both are possible."""
        if not self.where:
            return None
        return all(part in str(record.get(field) or "") for field, part in self.where.items())


class DatasetFile(StrictModel):
    """One file of a dataset: path, source, and the checksum and number of records against which it is checked."""

    path: FilePath = Field(
        description=("Path within `data_dir` (published) or `resources/demo` (demo). For Parquet, it may be a pattern.")
    )
    url: Annotated[str, AfterValidator(checked_address)] | None = Field(
        None, description="Web address of the file. It must contain a git commit or a hub revision."
    )
    hub: Hub | None = Field(
        None, description="Hub repository with Parquet files, instead of `url`. Its commit replaces the checksum."
    )
    sha256: str | None = Field(
        None, pattern=SHA256, description="SHA-256 of the file; `null`: unpinned, so runs refuse the dataset."
    )
    blob: str | None = Field(
        None,
        pattern=COMMIT,
        description="Git blob id of the file. `maieutic pin` checks it and then looks up `sha256` and `records`.",
    )
    records: int | None = Field(
        None, ge=1, description="Exact number of records; `null`: unpinned, so runs refuse the dataset."
    )
    curated: str | None = Field(
        None,
        description=(
            "Dataset that this run generates, used instead of a file: `NAME/skills` or `NAME/dialogues`, "
            "where NAME is an entry of `curations`."
        ),
    )
    pictures: str | None = Field(
        None,
        pattern=SHA256,
        description="SHA-256 of the list of the dataset's pictures, required if any picture has a web address.",
    )

    @property
    def pinned(self) -> bool:
        """True if the file's content is fixed: by a checksum, by a hub commit, or because this run generates it."""
        return bool(self.sha256 or self.curated or (self.hub and is_commit(self.hub.revision)))


class Dataset(StrictModel):
    """One dataset of a benchmark, with its published file in the publisher's format, and its demo file if any."""

    title: str = Field(description="Name of the dataset in the report.")
    licence: str = Field(description="Licence of the data.")
    format: FileFormat = Field(
        description="`json` (one list), `jsonl` (one record per line), `csv` (with a header line) or `parquet`."
    )
    fields: list[str] = Field(description="Fields that every record must have.")
    published: DatasetFile = Field(description="File that the benchmark published.")
    demo: DatasetFile | None = Field(None, description="Small file written for this project; `null`: no demo edition.")
    demo_format: FileFormat | None = Field(None, description="Format of the demo file; `null`: the same as `format`.")
    pictures: PictureFields | None = Field(None, description="Location of the records' pictures; `null`: no pictures.")

    @model_validator(mode="after")
    def hub_is_parquet(self) -> Dataset:
        if self.format != "parquet" and (self.published.hub or (self.pictures and self.pictures.embedded)):
            raise ValueError("'hub' and embedded pictures require format: parquet")
        return self

    def format_of(self, edition: Edition) -> FileFormat:
        """Return the format of the dataset's file in one edition."""
        return (self.demo_format if edition == "demo" else None) or self.format

    def file_of(self, name: str, edition: Edition) -> DatasetFile:
        """Return the dataset's file in one edition. Raises UserError if the file does not exist or is not pinned.

        name: name of the dataset in the registry, for the error message.
        """
        place = f"datasets.{name}.{edition}"
        copy = self.demo if edition == "demo" else self.published
        if copy is None:
            raise UserError(place, "this dataset has no demo edition", "set edition: published")
        if not copy.pinned or (copy.records is None and not copy.curated):
            if copy.hub:
                raise Unpinned(place, f"{copy.hub.repo} has no pinned commit, or no number of records", PIN_FIX)
            own_file = (
                "set sha256 (`sha256sum FILE`) and records for your own file, "
                "or remove the dataset's tasks from run.tasks"
            )
            fix = PIN_COMMAND_FIX if copy.url else own_file
            raise Unpinned(place, "sha256 or records is null: the file is not pinned", fix)
        return copy
