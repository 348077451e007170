"""`maieutic pin`: look up commits and checksums of models and datasets, and write them to a lock file for review."""

from __future__ import annotations

import fnmatch
import hashlib
import logging
import re
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from maieutic.config.datasets import Dataset, DatasetFile
from maieutic.config.faults import validation_fault
from maieutic.config.models import PIN_COMMAND_FIX, PIN_FIX
from maieutic.config.pins import (
    DEFAULT_REVISION,
    LOCK,
    DatasetPin,
    ModelPin,
    Pins,
    fill_pins,
    hub_source_of,
    pin_address,
    read_pins,
)
from maieutic.config.settings import read_config
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all, raise_all
from maieutic.core.files import atomic_file, sha256_of
from maieutic.datasets.downloads import READ_SECONDS, download_file
from maieutic.datasets.hub import fetch_json, fetch_parquet, hub_address, hub_commit
from maieutic.datasets.sources import local_copy, read_source
from maieutic.launch.config_files import merged_configuration

log = logging.getLogger(__name__)
LOCK_HEADER = (
    "# Written by `maieutic pin`: commits and checksums of registry entries, dated. Review it and keep it in git.\n"
)
SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.")
P = TypeVar("P", ModelPin, DatasetPin)


def pin(
    *,
    configfile: list[Path] | None = None,
    update: list[str] | None = None,
    check: bool = False,
    lock: Path = LOCK,
) -> None:
    """Look up the commits, checksums and record counts of a run's models and datasets, and write them to the lock file.

    Without a network, nothing is changed. With `check`, nothing is written; files with a web address are downloaded and
    compared with their checksums.

    Args:
        configfile: run files, as for snakemake; if omitted, all entries of the registries are pinned
        update: names to pin anew; other pins are kept, with a warning if they are out of date
        check: only ask whether every pin exists, complete and open to you
        lock: path of the lock file

    Raises:
        UserError: names every failed look-up, after the results of the successful ones are written
    """
    raw = merged_configuration(configfile or [])
    pins = read_pins(lock)
    names = used_entries(fill_pins(raw, pins)) if configfile else all_entries(raw)
    if check:
        check_pins(fill_pins(raw, pins), names)
        return
    config_models, config_datasets = raw["models"], raw["datasets"]
    again = set(update or ())
    if strange := sorted(again - {*names.models, *names.datasets}):
        problem = f"not among the models and datasets of the run: {', '.join(strange)}"
        raise UserError("--update", problem, "pass names of models or datasets that the run uses")
    faults: list[UserError] = []
    models = dict(pins.models)
    for name in names.models:
        update_pin(models, name, again, faults, partial(pin_of_model, name, config_models[name]))
    datasets = dict(pins.datasets)
    for name in names.datasets:
        update_pin(
            datasets,
            name,
            again,
            faults,
            partial(pin_of_dataset, name, config_datasets[name], raw.get("data_dir"), bool(configfile)),
        )
    if (models, datasets) != (pins.models, pins.datasets):
        write_lock(lock, Pins(models=models, datasets=datasets))
    fresh = len({**models, **datasets}.keys() - {*pins.models, *pins.datasets})
    log.info("%s: %d pins, %d new", lock, len(models) + len(datasets), fresh)
    raise_all(faults)


def update_pin(
    pins: dict[str, P], name: str, again: set[str], faults: list[UserError], look_up: Callable[[], P | None]
) -> None:
    """Look up an entry's pin, and store it if the entry is to be pinned anew or has no pin for its current revision.

    pins: pins by name of the entry, updated by this function; again: names to pin anew; faults: list to which errors
    are added; look_up: function that returns the new pin, None if the entry needs no pin.
    """
    try:
        fresh = look_up()
    except UserError as error:
        faults += error.all
        return
    if fresh is None:
        return
    known = pins.get(name)
    if known is None or name in again or pin_target(known) != pin_target(fresh):
        pins[name] = fresh
        log.info("%s: %s", name, pinned_version(fresh))
    elif pinned_version(known) != pinned_version(fresh):
        log.warning(
            "%s is now %s; its pin remains %s. Fix: pass --update %s",
            name,
            pinned_version(fresh),
            pinned_version(known),
            name,
        )


def pin_target(known: ModelPin | DatasetPin) -> tuple[str | None, ...]:
    """Return what a pin was set for: repository or address, and the revision in the registry at that time."""
    return (known.repo, known.wanted) if isinstance(known, ModelPin) else (known.address, known.wanted)


def pinned_version(known: ModelPin | DatasetPin) -> str:
    """Return the commit or checksum of a pin."""
    return known.revision if isinstance(known, ModelPin) else str(known.sha256 or known.revision)


# used entries ---------------------------------------------------------------------------------------------------------


class EntryNames(NamedTuple):
    """Names of registry entries to pin."""

    models: list[str]
    datasets: list[str]


def used_entries(raw: dict[str, Any]) -> EntryNames:
    """Return the models and the downloaded datasets of a run. The demo edition downloads no datasets."""
    from maieutic.run_plan import extended_plan_class

    raw = {**raw, "available_only": False, "run": {**raw["run"], "strict": True}}  # also what a run would leave out
    plan = extended_plan_class()(read_config(raw))
    datasets = plan.used_datasets if plan.edition == "published" else []
    return EntryNames(plan.used_models, datasets)


def all_entries(raw: dict[str, Any]) -> EntryNames:
    """Return the names of all registry entries."""
    return EntryNames(list(raw["models"]), list(raw["datasets"]))


# look-ups -------------------------------------------------------------------------------------------------------------


def pin_of_model(name: str, entry: Mapping[str, Any]) -> ModelPin | None:
    """Look up a model's commit on the hub and return its pin.

    Returns None if the weights are stored elsewhere, or if the entry already names a commit.
    """
    weights = hub_source_of(entry.get("weights"))
    if weights is None or weights.is_pinned:
        return None
    commit = hub_commit("models", weights.repo, weights.revision, f"models.{name}")
    return ModelPin(repo=weights.repo, wanted=weights.revision, date=utc_date(), **commit)


def pin_of_dataset(
    name: str, entry: Mapping[str, Any], data_dir: str | None = None, must_exist: bool = False
) -> DatasetPin | None:
    """Look up a dataset's commit or checksum and its number of records, and return its pin.

    data_dir: folder of local files; must_exist: raise UserError if a dataset without an address has no file on this
    machine. Returns None for such a dataset otherwise, and if the registry entry already contains these.
    """
    place = f"datasets.{name}"
    try:
        dataset = Dataset.model_validate(entry)
    except ValidationError as error:
        raise validation_fault(error, Dataset, place, "config/README.md") from None
    copy = dataset.published
    if (copy.pinned and copy.records is not None) or pin_address(entry["published"]) is None:
        return None
    fields: dict[str, Any]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        if copy.hub is None and copy.url is None:
            if (local := local_copy(copy, "published", Path(data_dir) if data_dir else None, paths.DEMO_DATA)) is None:
                if must_exist:
                    problem = f"found no file {copy.path} in this folder" + (f" or in {data_dir}" if data_dir else "")
                    raise UserError(f"{place}.published.path", problem, "correct the path, or set data_dir")
                return None
            path, fields = local, {"sha256": sha256_of(local), "source": str(local), "date": utc_date()}
        elif copy.hub is None:
            download_file(str(copy.url), path, READ_SECONDS)
            check_blob(path, copy, place)
            fields = {"sha256": sha256_of(path), "source": str(copy.url), "date": utc_date()}
        else:
            revision = copy.hub.revision or DEFAULT_REVISION
            fields = {"wanted": revision, "date": utc_date(), **hub_commit("datasets", copy.hub.repo, revision, place)}
            parts, published = Path(folder) / "parts", f"{place}.published"
            fetch_parquet(copy.hub.repo, fields["revision"], copy.hub.files, parts, path, published, READ_SECONDS)
        records = read_source(path, dataset.format, str(copy.url or copy.hub or path))
    if copy.records is not None and len(records) != copy.records:
        problem = f"expected {copy.records} records, found {len(records)}"
        raise UserError(f"{place}.published.records", problem, "correct the address or the number in the registry")
    return DatasetPin(address=str(pin_address(entry["published"])), records=len(records), **fields)


def check_blob(path: Path, copy: DatasetFile, place: str) -> None:
    """Raise UserError if a file does not have the git blob id in its registry entry, if that has one.

    place: key of the entry in the message.
    """
    if copy.blob is None:
        return
    content = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    if blob != copy.blob:
        problem = f"expected {copy.blob}, found {blob}"
        raise UserError(f"{place}.published.blob", problem, "correct the address or the blob id in the registry")


# checks ---------------------------------------------------------------------------------------------------------------


def check_pins(raw: Mapping[str, Any], names: EntryNames) -> None:
    """Print a line for each pin that the hub confirms. Raises UserError with all that it does not.

    raw: the configuration with pins filled in. A model's commit must have safetensors and every shard of them, and be
    open to this user; a dataset's commit must have its Parquet files; any other file must have its checksum.
    """
    kinds = (("models", names.models, confirmed_model), ("datasets", names.datasets, confirmed_dataset))

    def check_pin(kind: str, name: str, confirmed: Callable[[str, Any], str | None]) -> None:
        if content := confirmed(f"{kind}.{name}", raw[kind][name]):
            log.info("%s.%s: %s", kind, name, content)

    check_all(partial(check_pin, kind, name, confirmed) for kind, entries, confirmed in kinds for name in entries)


def confirmed_model(place: str, entry: Mapping[str, Any]) -> str | None:
    """Return the content of a model's commit as text, None if its weights are not on the hub. place: for messages."""
    weights = hub_source_of(entry.get("weights"))
    if weights is None:
        return None
    if not weights.is_pinned:
        raise UserError(f"{place}.weights.revision", f"{weights.repo} has no pinned commit", PIN_FIX)
    content = fetch_json(f"{hub_address()}/api/models/{weights.repo}/revision/{weights.revision}", place)
    files = [str(file.get("rfilename")) for file in content.get("siblings", [])]
    tensors = complete_shards([name for name in files if name.endswith(".safetensors")])
    if not tensors:
        problem = f"{weights.repo}@{weights.revision} has no complete set of safetensors"
        raise UserError(f"{place}.weights.revision", problem, "set a commit that has all shards")
    gated = bool(content.get("gated"))
    if gated:  # the hub lists the files of a gated repository to everybody
        fetch_json(f"{hub_address()}/{weights.repo}/resolve/{weights.revision}/config.json", place)
    return f"{weights.repo}@{weights.revision[:12]} has {len(tensors)} safetensors{', gated: access granted' * gated}"


def confirmed_dataset(place: str, entry: Mapping[str, Any]) -> str | None:
    """Return the content of a dataset's pin as text, None for a file of the user's or of this run."""
    copy = Dataset.model_validate(entry).published
    if not copy.is_file or (copy.hub is None and copy.url is None):
        return None
    if not copy.pinned:
        raise UserError(f"{place}.published", "the dataset has no pinned commit or checksum", PIN_COMMAND_FIX)
    if copy.hub is not None:
        source = f"{copy.hub.repo}@{copy.hub.revision}"
        tree = fetch_json(
            f"{hub_address()}/api/datasets/{copy.hub.repo}/tree/{copy.hub.revision}?recursive=true", place
        )
        if not (parts := complete_shards(fnmatch.filter([str(file.get("path")) for file in tree], copy.hub.files))):
            problem = f"{source} has no complete set of {copy.hub.files}"
            raise UserError(f"{place}.published.hub", problem, "set a commit that has all files")
        return f"{source} has {len(parts)} Parquet files"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        download_file(str(copy.url), path, READ_SECONDS)
        check_blob(path, copy, place)
        if (checksum := sha256_of(path)) != copy.sha256:
            problem = f"expected SHA-256 {copy.sha256}, found {checksum} at {copy.url}"
            raise UserError(f"{place}.published.sha256", problem, "correct the address or the checksum")
    return f"{copy.url} has its checksum"


def complete_shards(files: list[str]) -> list[str]:
    """Return the files if none of their numbered shards (`NAME-00001-of-00004.SUFFIX`) is missing, else nothing."""
    totals: dict[tuple[str, str], set[str]] = {}
    for name in files:
        if match := SHARD.search(name):
            totals.setdefault((name[: match.start()], match[2]), set()).add(match[1])
    return files if all(len(numbers) == int(total) for (_, total), numbers in totals.items()) else []


def utc_date() -> str:
    """Return the current date in UTC."""
    return datetime.now(UTC).date().isoformat()


def write_lock(path: Path, pins: Pins) -> None:
    """Write pins to a lock file, sorted by name."""
    import yaml

    content = {
        kind: {name: entry.model_dump(exclude_none=True) for name, entry in sorted(entries.items())}
        for kind, entries in (("datasets", pins.datasets), ("models", pins.models))
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as handle:
        handle.write(LOCK_HEADER)
        yaml.safe_dump(content, handle, sort_keys=False, allow_unicode=True, width=120)
