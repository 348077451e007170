"""The dataset registry's entries."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, Field, model_validator

from maieutic.config.models import COMMIT, LOOK_UP, PIN, REVISION, SHA256, Entry, FilePath, is_commit
from maieutic.core.errors import Unpinned, UserError
from maieutic.core.secrets import FIELD

Source = dict[str, Any]
Edition = Literal["demo", "published"]
Form = Literal["json", "jsonl", "csv", "parquet"]


def without_secrets(address: str) -> str:
    """The address. Raises ValueError for one with a user, a password or a key in it."""
    parts = urlsplit(address)
    if parts.username or parts.password or any(FIELD.search(name) for name, _ in parse_qsl(parts.query, True)):
        raise ValueError("an address has no user, password or key in it: it is saved with the results")
    if parts.scheme not in {"http", "https"}:
        raise ValueError("an address begins with https:// or http://")
    return address


class Hub(Entry):
    """Files of a dataset on the hub."""

    repo: str = Field(description="Hub name, org/dataset")
    revision: str | None = Field(
        None, pattern=REVISION, description="Commit, or a branch or tag for `maieutic pin`; null: the newest"
    )
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

    path: FilePath = Field(
        description="Path below data_dir (published) or resources/demo (demo); Parquet: or a pattern"
    )
    url: Annotated[str, AfterValidator(without_secrets)] | None = Field(
        None, description="Pinned address: a git commit or a hub revision is part of it"
    )
    hub: Hub | None = Field(None, description="Instead of url: Parquet files at a commit, which stands for a checksum")
    sha256: str | None = Field(None, pattern=SHA256, description="null: unknown, and the entry refuses to run")
    blob: str | None = Field(
        None, pattern=COMMIT, description="Git blob id of the file: `maieutic pin` checks it, and finds the rest"
    )
    records: int | None = Field(None, ge=1, description="Exact number of records")
    curated: str | None = Field(
        None, description="Instead of all these: a set that this run makes, `NAME/skills` or `NAME/dialogues`"
    )
    pictures: str | None = Field(
        None, pattern=SHA256, description="SHA-256 of the list of pictures; needed where some come from addresses"
    )

    @property
    def pinned(self) -> bool:
        """Whether a checksum, or a commit of the hub, says which bytes these are."""
        return bool(self.sha256 or self.curated or (self.hub and is_commit(self.hub.revision)))


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
        if not copy.pinned or (copy.records is None and not copy.curated):
            if copy.hub:
                raise Unpinned(place, f"{copy.hub.repo} has no pinned commit, or no number of records", PIN)
            own = "it is your own file: set both (sha256sum, number of records), or leave its tasks out of run.tasks"
            mend = LOOK_UP if copy.url else own
            raise Unpinned(place, "sha256 or records is null: the file is not pinned", mend)
        return copy
