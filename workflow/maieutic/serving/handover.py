"""Environment variables by which processes of a run find each other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

LOCKS = "MAIEUTIC_LOCKS"  # from a server's owner to its processes: file descriptors that hold the locks of its GPUs
RUN = "MAIEUTIC_RUN"  # from Snakemake to its jobs: see Run


def started(pid: int) -> str | None:
    """When a process started, in the kernel's ticks: tells it from a later one with its pid. None where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


class Run(NamedTuple):
    """The Snakemake process whose jobs share servers. linger: seconds that an idle server stays for the next job."""

    pid: int
    since: str
    linger: float

    @classmethod
    def here(cls, linger: float) -> Run:
        """This process."""
        return cls(os.getpid(), started(os.getpid()) or "", linger)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Run | None:
        """The run that an environment names; None where servers are not shared, or where the run is not to be seen."""
        try:
            pid, since, linger = environment.get(RUN, "").split(":")
            run = cls(int(pid), since, float(linger))
        except ValueError:
            return None
        return run if run.linger > 0 and run.is_alive() else None

    def variable(self) -> str:
        """The value of RUN."""
        return f"{self.pid}:{self.since}:{self.linger:g}"

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return bool(self.since) and started(self.pid) == self.since
