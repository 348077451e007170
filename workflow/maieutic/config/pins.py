"""Lock file of pins: commits and checksums that `maieutic pin` looked up for entries of the registries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from maieutic.config.faults import validation_fault
from maieutic.config.models import COMMIT, SHA256, StrictModel, is_commit
from maieutic.core.yaml_files import read_yaml

LOCK = Path("config/pins.lock.yaml")
DEFAULT_REVISION = "main"  # revision of a hub repository if its registry entry names none


class ModelPin(StrictModel):
    """Pinned commit of a model's repository on the hub."""

    repo: str = Field(description="Repository on the Hugging Face hub, as org/model.")
    wanted: str = Field(description="Branch or tag that the model registry names.")
    revision: str = Field(pattern=COMMIT, description="Commit of the branch or tag in `wanted`.")
    source: str = Field(description="Address at which the commit was looked up.")
    date: str = Field(description="Date of the look-up, UTC.")


class DatasetPin(StrictModel):
    """Pinned checksum or commit of a dataset, and its number of records."""

    address: str = Field(
        description="Web address of the file, hub repository with the pattern of its files, or path of your own file."
    )
    wanted: str | None = Field(None, description="Branch or tag that the dataset registry names, for hub datasets.")
    revision: str | None = Field(None, pattern=COMMIT, description="Commit of `wanted`, for hub datasets.")
    sha256: str | None = Field(None, pattern=SHA256, description="SHA-256 of the file, for datasets with one file.")
    records: int = Field(ge=1, description="Number of records in the dataset.")
    source: str = Field(description="Address at which the checksum or commit was looked up.")
    date: str = Field(description="Date of the look-up, UTC.")


class Pins(StrictModel):
    """All pins of a lock file, by name of the registry entry."""

    models: dict[str, ModelPin] = {}
    datasets: dict[str, DatasetPin] = {}


def read_pins(path: Path = LOCK) -> Pins:
    """Return the pins of a lock file, or no pins if the file does not exist. Raises UserError for an invalid file."""
    if not path.is_file():
        return Pins()
    try:
        return Pins.model_validate(read_yaml(path, "correct the file, or delete it and run `maieutic pin` again") or {})
    except ValidationError as error:
        raise validation_fault(error, Pins, str(path), "docs/pins.md") from None


class HubSource(NamedTuple):
    """Hub repository and revision of a registry entry."""

    repo: str
    revision: str

    @property
    def is_pinned(self) -> bool:
        """True if the revision is a commit, so that no pin is needed."""
        return is_commit(self.revision)


def hub_source_of(entry: Any) -> HubSource | None:
    """Return the hub repository and revision that a YAML mapping names, or None if it names no repository."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("repo"), str):
        return None
    return HubSource(entry["repo"], str(entry.get("revision") or DEFAULT_REVISION))


def fill_pins(raw: dict[str, Any], pins: Pins) -> dict[str, Any]:
    """Return a configuration with missing commits, checksums and numbers of records filled in from the lock file.

    raw: the configuration before validation. A pin is ignored if the registry now names another repository, address,
    branch or tag than the one that was pinned.
    """
    models, datasets = (raw.get(name) for name in ("models", "datasets"))
    filled = dict(raw)
    if isinstance(models, dict):
        filled["models"] = {name: fill_model_pin(entry, pins.models.get(str(name))) for name, entry in models.items()}
    if isinstance(datasets, dict):
        dataset_pins = pins.datasets
        filled["datasets"] = {
            name: fill_dataset_pin(entry, dataset_pins.get(str(name))) for name, entry in datasets.items()
        }
    return filled


def fill_model_pin(entry: Any, pin: ModelPin | None) -> Any:
    """Return a model's registry entry with the pinned commit, or unchanged if the pin does not apply."""
    weights = entry.get("weights") if isinstance(entry, dict) else None
    source = hub_source_of(weights)
    if pin is None or source is None or source.is_pinned or (pin.repo, pin.wanted) != source:
        return entry
    return {**entry, "weights": {**weights, "revision": pin.revision}}  # type: ignore[dict-item]


def fill_dataset_pin(entry: Any, pin: DatasetPin | None) -> Any:
    """Return a dataset's registry entry with the pinned values, or unchanged if the pin does not apply."""
    copy = entry.get("published") if isinstance(entry, dict) else None
    if pin is None or not isinstance(copy, dict) or pin_address(copy) != pin.address:
        return entry
    settings = {name: value for name, value in copy.items() if value is not None}
    if pin.sha256:
        return {**entry, "published": {**copy, "sha256": pin.sha256, "records": pin.records, **settings}}
    hub, source = copy["hub"], hub_source_of(copy["hub"])
    if source is None or (source.revision not in (pin.wanted, pin.revision)):
        return entry
    pinned_hub = {**hub, "revision": pin.revision}
    return {**entry, "published": {**copy, "records": pin.records, **settings, "hub": pinned_hub}}


def pin_address(copy: Mapping[str, Any]) -> str | None:
    """Return the address that a dataset's pin must match; None for a dataset that this run generates.

    It is the URL, the hub repository with the pattern of files, or the path of a user's own file.
    """
    if copy.get("curated"):
        return None
    hub = copy.get("hub")
    return f"{hub.get('repo')}/{hub.get('files')}" if isinstance(hub, Mapping) else copy.get("url") or copy.get("path")
