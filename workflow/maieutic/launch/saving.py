"""Job that saves the effective configuration and the provenance of a run next to its results."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from maieutic.core.files import atomic_file, write_json
from maieutic.core.jobs import Job
from maieutic.core.machine import this_machine


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
