"""The lock of pins: which commits and checksums a run's names stood for when `maieutic pin` looked them up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from maieutic.config.faults import fault_of
from maieutic.config.models import COMMIT, SHA256, Entry, is_commit
from maieutic.core.documents import read_yaml

LOCK = Path("config/pins.lock.yaml")
NEWEST = "main"  # of a hub repository for which the registry asks nothing else


class ModelPin(Entry):
    """What a model's name on the hub stood for."""

    repo: str = Field(description="Hub name, org/model")
    wanted: str = Field(description="What the registry asks for: a branch or a tag")
    revision: str = Field(pattern=COMMIT, description="The commit that it was")
    source: str = Field(description="Where that was looked up")
    date: str = Field(description="When, UTC")


class DatasetPin(Entry):
    """What a dataset's address held."""

    address: str = Field(description="Address, or hub name with the files' pattern")
    wanted: str | None = Field(None, description="Of the hub: what the registry asks for")
    revision: str | None = Field(None, pattern=COMMIT, description="Of the hub: the commit that it was")
    sha256: str | None = Field(None, pattern=SHA256, description="Of one file: its checksum")
    records: int = Field(ge=1, description="Number of records")
    source: str = Field(description="Where that was looked up")
    date: str = Field(description="When, UTC")


class Pins(Entry):
    """All pins, by the names of the registries."""

    models: dict[str, ModelPin] = {}
    datasets: dict[str, DatasetPin] = {}


def read_pins(path: Path = LOCK) -> Pins:
    """The lock's pins; none without a file. Raises UserError for a file that is none."""
    if not path.is_file():
        return Pins()
    try:
        return Pins.model_validate(read_yaml(path, "mend it, or run maieutic pin anew") or {})
    except ValidationError as error:
        raise fault_of(error, Pins, str(path), "docs/pins.md") from None


class Wanted(NamedTuple):
    """What an entry asks for that needs a pin. commit: it names one already."""

    repo: str
    revision: str

    @property
    def commit(self) -> bool:
        """Whether a commit is named already."""
        return is_commit(self.revision)


def wanted_of(entry: Any) -> Wanted | None:
    """What a model's weights, or a dataset's hub files, ask for; None: nothing of the hub. entry: as YAML has it."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("repo"), str):
        return None
    return Wanted(entry["repo"], str(entry.get("revision") or NEWEST))


def pinned(raw: dict[str, Any], pins: Pins) -> dict[str, Any]:
    """A configuration with the lock's pins where its registries have none. A pin of another repository is none."""
    models, datasets = (raw.get(name) for name in ("models", "datasets"))
    filled = dict(raw)
    if isinstance(models, dict):
        filled["models"] = {name: pinned_model(entry, pins.models.get(str(name))) for name, entry in models.items()}
    if isinstance(datasets, dict):
        of_datasets = pins.datasets
        filled["datasets"] = {
            name: pinned_dataset(entry, of_datasets.get(str(name))) for name, entry in datasets.items()
        }
    return filled


def pinned_model(entry: Any, pin: ModelPin | None) -> Any:
    """A model's entry with its commit."""
    weights = entry.get("weights") if isinstance(entry, dict) else None
    wanted = wanted_of(weights)
    if pin is None or wanted is None or wanted.commit or (pin.repo, pin.wanted) != wanted:
        return entry
    return {**entry, "weights": {**weights, "revision": pin.revision}}  # type: ignore[dict-item]


def pinned_dataset(entry: Any, pin: DatasetPin | None) -> Any:
    """A dataset's entry with checksum, commit and count."""
    copy = entry.get("published") if isinstance(entry, dict) else None
    if pin is None or not isinstance(copy, dict) or address_of(copy) != pin.address:
        return entry
    given = {name: value for name, value in copy.items() if value is not None}
    if pin.sha256:
        return {**entry, "published": {**copy, "sha256": pin.sha256, "records": pin.records, **given}}
    hub, wanted = copy["hub"], wanted_of(copy["hub"])
    if wanted is None or (wanted.revision not in (pin.wanted, pin.revision)):
        return entry
    return {**entry, "published": {**copy, "records": pin.records, **given, "hub": {**hub, "revision": pin.revision}}}


def address_of(copy: Mapping[str, Any]) -> str | None:
    """What a dataset's pin is of: its address, or its hub repository with the files' pattern."""
    hub = copy.get("hub")
    return f"{hub.get('repo')}/{hub.get('files')}" if isinstance(hub, Mapping) else copy.get("url")
