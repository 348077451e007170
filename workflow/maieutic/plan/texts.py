"""The texts of a configuration, before any of it is used: Snakemake's own reader takes more than one needs.

It resolves Python names, repeats aliases without end, lets a later key win in silence, and runs the expressions of a
file that asks for it. Registries are checked before they are read; a run file has been read when the rules are, and is
refused before anything is done with it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from maieutic.core.documents import read_yaml
from maieutic.core.errors import check_all

REGISTRIES = (Path("config/models.yaml"), Path("config/datasets.yaml"))


def check_texts(workflow: Any) -> None:
    """Raise UserError for all registries and run files that cannot be read safely. workflow: Snakemake's."""
    given = [Path(str(path)) for path in workflow.config_settings.configfiles or ()]
    here = [path for path in REGISTRIES if path.is_file()]
    check_all(partial(read_yaml, path) for path in dict.fromkeys([*here, *given]))
