"""The run files of this run, for commands that messages print: they work as they are printed."""

from __future__ import annotations

import os

VARIABLE = "MAIEUTIC_RUN_FILES"  # quoted for a shell
USUAL = "my.yaml"  # where no run is going on


def of_run(command: str) -> str:
    """Return a command with the run files of this run."""
    return f"{command} --configfile {os.environ.get(VARIABLE) or USUAL}"
