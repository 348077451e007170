"""`maieutic pin`: what the names of a run stand for on the network, written into a lock that people can review."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from maieutic.config.datasets import Copy, Dataset
from maieutic.config.faults import fault_of
from maieutic.config.pins import LOCK, NEWEST, DatasetPin, ModelPin, Pins, address_of, pinned, read_pins, wanted_of
from maieutic.config.settings import read_config
from maieutic.core.documents import read_yaml
from maieutic.core.errors import UserError
from maieutic.core.files import sha256_of, whole_file
from maieutic.datasets.downloads import READ_SECONDS, download
from maieutic.datasets.hub import commit_of, fetch_parquet
from maieutic.datasets.sources import read_source
from maieutic.plan.texts import REGISTRIES

log = logging.getLogger(__name__)
HEAD = "# Written by `maieutic pin`: what the registries' names stood for, and when. Review it, and keep it in git.\n"
P = TypeVar("P", ModelPin, DatasetPin)


def pin(*, configfile: list[Path] | None = None, update: list[str] | None = None, lock: Path = LOCK) -> None:
    """Look up commits, checksums and record counts of all that a run uses, and write them into the lock.

    configfile: run files, as of snakemake; without one everything that the registries hold. A pin that is there stays,
    and what has changed since is said; update: names whose pin is made anew. Offline nothing is changed. Raises
    UserError naming all that could not be looked up, after what could be is written.
    """
    raw = configuration(configfile or [])
    pins = read_pins(lock)
    names = used(pinned(raw, pins)) if configfile else everything(raw)
    config_models, config_datasets = raw["models"], raw["datasets"]
    again = set(update or ())
    if strange := sorted(again - {*names.models, *names.datasets}):
        raise UserError("--update", f"not used here: {', '.join(strange)}", "name models or datasets of the run")
    faults: list[UserError] = []
    models = dict(pins.models)
    for name in names.models:
        renew(models, name, again, faults, partial(pin_of_model, name, config_models[name]))
    datasets = dict(pins.datasets)
    for name in names.datasets:
        renew(datasets, name, again, faults, partial(pin_of_dataset, name, config_datasets[name]))
    if (models, datasets) != (pins.models, pins.datasets):
        write_lock(lock, Pins(models=models, datasets=datasets))
    fresh = len({**models, **datasets}.keys() - {*pins.models, *pins.datasets})
    log.info("%s: %d pins, %d of them new", lock, len(models) + len(datasets), fresh)
    if faults:
        raise UserError.of(faults)


def renew(
    pins: dict[str, P], name: str, again: set[str], faults: list[UserError], look_up: Callable[[], P | None]
) -> None:
    """Put an entry's pin among the pins, where there is none of what it asks for, or where it is to be made anew."""
    try:
        found = look_up()
    except UserError as error:
        faults += error.all
        return
    if found is None:
        return
    known = pins.get(name)
    if known is None or name in again or asks(known) != asks(found):
        pins[name] = found
        log.info("%s: %s", name, holds(found))
    elif holds(known) != holds(found):
        log.warning("%s is now %s; its pin stays %s (--update %s)", name, holds(found), holds(known), name)


def asks(known: ModelPin | DatasetPin) -> tuple[str | None, ...]:
    """What a pin is of."""
    return (known.repo, known.wanted) if isinstance(known, ModelPin) else (known.address, known.wanted)


def holds(known: ModelPin | DatasetPin) -> str:
    """What a pin says."""
    return known.revision if isinstance(known, ModelPin) else str(known.sha256 or known.revision)


# what a run uses ------------------------------------------------------------------------------------------------------


class Names(NamedTuple):
    """Entries of the registries."""

    models: list[str]
    datasets: list[str]


def configuration(files: Sequence[Path]) -> dict[str, Any]:
    """The configuration that Snakemake makes of the registries and of run files."""
    from snakemake.utils import update_config  # type: ignore[import-untyped]

    raw: dict[str, Any] = {}
    for path in (*REGISTRIES, *files):
        content = read_yaml(path, "mend the path or the file")
        if not isinstance(content, dict | None):
            found = f"a {'list' if isinstance(content, list) else type(content).__name__}"
            raise UserError(str(path), f"expected keys at the top, found {found}", "write `run:` and its keys")
        update_config(raw, content or {})
    return raw


def used(raw: dict[str, Any]) -> Names:
    """What a run uses, of the hub or at an address."""
    from maieutic.plan.rules import extended

    plan = extended()(read_config(raw))
    datasets = plan.used_datasets if plan.edition == "published" else []
    return Names(plan.used_models, datasets)


def everything(raw: dict[str, Any]) -> Names:
    """All entries of the registries."""
    return Names(list(raw["models"]), list(raw["datasets"]))


# looking up -----------------------------------------------------------------------------------------------------------


def pin_of_model(name: str, entry: Mapping[str, Any]) -> ModelPin | None:
    """The commit of a model on the hub; None for weights that are elsewhere, or that name a commit."""
    wanted = wanted_of(entry.get("weights"))
    if wanted is None or wanted.commit:
        return None
    commit = commit_of("models", wanted.repo, wanted.revision, f"models.{name}")
    return ModelPin(repo=wanted.repo, wanted=wanted.revision, date=today(), **commit)


def pin_of_dataset(name: str, entry: Mapping[str, Any]) -> DatasetPin | None:
    """Commit or checksum, and number of records, of a dataset's file; None for one that is pinned or has no address."""
    place = f"datasets.{name}"
    try:
        dataset = Dataset.model_validate(entry)
    except ValidationError as error:
        raise fault_of(error, Dataset, place, "config/README.md") from None
    copy = dataset.published
    if (copy.pinned and copy.records is not None) or address_of(entry["published"]) is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        if copy.hub is None:
            download(str(copy.url), path, READ_SECONDS)
            check_blob(path, copy, place)
            told: dict[str, Any] = {"sha256": sha256_of(path), "source": str(copy.url), "date": today()}
        else:
            wanted = copy.hub.revision or NEWEST
            told = {"wanted": wanted, "date": today(), **commit_of("datasets", copy.hub.repo, wanted, place)}
            parts, published = Path(folder) / "parts", f"{place}.published"
            fetch_parquet(copy.hub.repo, told["revision"], copy.hub.files, parts, path, published, READ_SECONDS)
        records = read_source(path, dataset.format, str(copy.url or copy.hub))
    if copy.records is not None and len(records) != copy.records:
        found = f"expected {copy.records} records, found {len(records)}"
        raise UserError(f"{place}.published.records", found, "mend the address or the number in the registry")
    return DatasetPin(address=str(address_of(entry["published"])), records=len(records), **told)


def check_blob(path: Path, copy: Copy, place: str) -> None:
    """A file is that of a git blob id. Raises UserError for another."""
    if copy.blob is None:
        return
    content = path.read_bytes()
    found = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    if found != copy.blob:
        raise UserError(
            f"{place}.published.blob", f"expected {copy.blob}, found {found}", "the address holds another file"
        )


def today() -> str:
    """The date, UTC."""
    return datetime.now(UTC).date().isoformat()


def write_lock(path: Path, pins: Pins) -> None:
    """Write the lock, sorted."""
    import yaml

    content = {
        kind: {name: entry.model_dump(exclude_none=True) for name, entry in sorted(entries.items())}
        for kind, entries in (("datasets", pins.datasets), ("models", pins.models))
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as handle:
        handle.write(HEAD)
        yaml.safe_dump(content, handle, sort_keys=False, allow_unicode=True, width=120)
