"""Saved configurations of the runs in a results folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maieutic.core import paths
from maieutic.core.yaml_files import read_yaml
from maieutic.serving.batches import NO_NAME


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
