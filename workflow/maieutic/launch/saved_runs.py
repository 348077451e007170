"""Configurations of the runs in a results folder: the job that saves one, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from maieutic.core import paths
from maieutic.core.files import atomic_file, write_json
from maieutic.core.jobs import Job
from maieutic.core.machine import this_machine
from maieutic.core.yaml_files import read_yaml
from maieutic.serving.batches import NO_NAME


class SaveConfig(Job):
    """Job that saves a checked configuration, reduced to what the run uses, and the run's provenance."""

    config: dict[str, Any]
    provenance: dict[str, Any]


def save_config(*, job: SaveConfig, out: Path, provenance: Path) -> None:
    """Write the effective configuration as YAML, and the run's provenance and machine as JSON."""
    import yaml

    with atomic_file(out) as handle:
        yaml.safe_dump(json.loads(json.dumps(job.config)), handle, sort_keys=False, allow_unicode=True)
    today = datetime.now(UTC).date().isoformat()
    write_json(provenance, {**job.provenance, "machine": this_machine().model_dump(), "date": today})


def saved_configs(results: Path) -> Iterator[Path]:
    """Yield the saved configuration file of each run in a results folder."""
    return (path for folder in paths.REPORT_FOLDERS for path in results.glob(f"{folder}/config.yaml"))


def saved_config(config: Path) -> dict[str, Any]:
    """Return the saved configuration of a run. Raises UserError if the file cannot be read."""
    return read_yaml(config, "delete the file: the next run writes it again") or {}


def saved_run(config: Path) -> dict[str, Any]:
    """Return the `run` section of a saved configuration. Raises UserError if the file cannot be read."""
    return saved_config(config).get("run", {})


def name_of_run(place: str) -> str:
    """Return the name of a run of this folder. place: this name, or the run's own folder; the name wins."""
    names = {
        config.parent.resolve(): str(saved_run(config).get("name") or NO_NAME)
        for config in saved_configs(Path(paths.ROOT))
    }
    return place if place in names.values() else names.get(Path(place).resolve(), place)
