"""Checks of registries and run files before use, because Snakemake's own YAML reader accepts unsafe files.

Snakemake's reader resolves Python names, expands aliases without limit, keeps the last value of a repeated key without
a warning, and can evaluate expressions in a file. Registries are checked before they are read. Run files have already
been read when the rules are loaded, so an unsafe run file is refused before its settings are used.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from maieutic.core.errors import check_all
from maieutic.core.yaml_files import read_yaml
from maieutic.launch.snakemake_compat import Workflow, read_config_files

REGISTRIES = (Path("config/models.yaml"), Path("config/datasets.yaml"))


def check_config_files(workflow: Workflow) -> None:
    """Raise UserError unless all registries and run files can be read safely."""
    registries = [path for path in REGISTRIES if path.is_file()]
    check_all(partial(read_yaml, path) for path in dict.fromkeys([*registries, *read_config_files(workflow)]))
