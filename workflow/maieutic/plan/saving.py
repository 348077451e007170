"""The effective configuration beside the results, and what a run was made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maieutic.core.files import whole_file, write_json
from maieutic.core.jobs import Job
from maieutic.core.machine import this_machine


class SaveConfig(Job):
    """A checked configuration, cut down to what the run uses, and the record of code, checksums and versions."""

    config: dict[str, Any]
    provenance: dict[str, Any]


def save_config(*, job: SaveConfig, out: Path, provenance: Path) -> None:
    """Write the effective configuration as YAML, and the record of what the run was made of, and where, as JSON."""
    import yaml

    with whole_file(out) as handle:
        yaml.safe_dump(json.loads(json.dumps(job.config)), handle, sort_keys=False, allow_unicode=True)
    write_json(provenance, {**job.provenance, "machine": this_machine().model_dump()})
