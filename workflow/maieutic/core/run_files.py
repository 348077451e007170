"""Commands for messages, completed with the configuration files of the current run so that they can be copied."""

from __future__ import annotations

import os

RUN_FILES_VARIABLE = "MAIEUTIC_RUN_FILES"  # environment variable with the paths of the run files, quoted for a shell
DEFAULT_RUN_FILE = "my.yaml"  # run file in commands that are shown outside of a run


def with_run_files(command: str) -> str:
    """Return a command with `--configfile` and the files of the current run."""
    return f"{command} --configfile {os.environ.get(RUN_FILES_VARIABLE) or DEFAULT_RUN_FILE}"
