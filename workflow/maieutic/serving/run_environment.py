"""Environment variables that connect the processes of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Environment variable of a server's processes: comma-separated file descriptors of the locks on the server's GPUs
LOCKS_VARIABLE = "MAIEUTIC_LOCKS"
RUN_VARIABLE = "MAIEUTIC_RUN"  # set by Snakemake for its jobs; the format is that of SnakemakeRun.variable


def process_start_ticks(pid: int) -> str | None:
    """Return a process's start time in clock ticks, or None if it has ended. Unlike a pid, it is never reused."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


class SnakemakeRun(NamedTuple):
    """Snakemake process whose jobs share servers.

    start_ticks: start time of the process in clock ticks; linger: idle timeout of the servers in seconds.
    """

    pid: int
    start_ticks: str
    linger: float

    @classmethod
    def here(cls, linger: float) -> SnakemakeRun:
        """Return the run whose Snakemake process is this process."""
        return cls(os.getpid(), process_start_ticks(os.getpid()) or "", linger)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> SnakemakeRun | None:
        """Return the run that RUN_VARIABLE names, or None if servers are not shared or the run's process has ended."""
        try:
            pid, since, linger = environment.get(RUN_VARIABLE, "").split(":")
            run = cls(int(pid), since, float(linger))
        except ValueError:
            return None
        return run if run.linger > 0 and run.is_alive() else None

    def variable(self) -> str:
        """Return this run's value for the environment variable RUN_VARIABLE."""
        return f"{self.pid}:{self.start_ticks}:{self.linger:g}"

    def is_alive(self) -> bool:
        """Return True if the run's process is still running."""
        return bool(self.start_ticks) and process_start_ticks(self.pid) == self.start_ticks
