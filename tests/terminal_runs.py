"""Runs on a pseudo-terminal, and the lines that they leave on its screen."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

from running import command, environment


def run_on_terminal(folder: Path, config: Path, *more: str) -> tuple[int, str]:
    """Return the exit status and all output of a run on a terminal of 110 columns."""
    master, slave = pty.openpty()
    env = {**with_plugin(folder), "TERM": "xterm", "COLUMNS": "110", "LINES": "40"}
    with subprocess.Popen(
        command(config, *more), cwd=folder, stdin=slave, stdout=slave, stderr=slave, env=env
    ) as process:
        os.close(slave)
        output = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the process has closed its side
                break
            if not part:
                break
            output += part
    os.close(master)
    return process.returncode, output.decode()


def with_plugin(folder: Path) -> dict[str, str]:
    """Return environment variables with which Snakemake finds the logger plugin of a checkout."""
    return {**environment(), "PYTHONPATH": str(folder / "workflow/plugin")}


def lasting(output: str) -> list[str]:
    """Return the lines that stay on the screen. A frame that is replaced is erased line by line before the next text."""
    screen, row = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\r?\n|\r|[^\x1b\r\n]+", output):
        if part.startswith("\x1b["):
            number = int(re.sub(r"\D", "", part) or 1)
            if part.endswith("A"):
                row = max(row - number, 0)
            elif part.endswith("K"):
                screen[row] = ""
        elif "\n" in part:
            row += 1
            screen += [""] * (row - len(screen) + 1)
        elif part != "\r":
            screen[row] += part
    return [line.rstrip() for line in screen if line.strip()]
