"""After a SIGKILL of Snakemake: end the drivers that live on and hold their journals' locks."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import signal
import socket
import time
from pathlib import Path

log = logging.getLogger(__name__)
OWNER = re.compile(r"host (\S+) pid (\d+)")
WAIT_SECONDS = 40.0


def held_by(path: Path) -> tuple[str, int] | None:
    """Host and pid of the process that holds a lock file, or None where nobody does."""
    with open(path, encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            found = OWNER.search(handle.read())
            return (found[1], int(found[2])) if found else None
    return None


def end_orphans(results: Path) -> None:
    """Ask every driver that holds a journal of this results folder to stop, and wait until it has."""
    for path in sorted((results / "journal").glob("**/*.lock")):
        owner = held_by(path)
        if owner is None:
            continue
        host, pid = owner
        if host != socket.gethostname():
            log.warning("%s is held by pid %d on %s: cancel that job there (scancel)", path, pid, host)
            continue
        log.info("ending the driver with pid %d, which holds %s", pid, path)
        end(path, pid)


def end(path: Path, pid: int) -> None:
    """SIGTERM, then SIGKILL; its server dies with it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        until = time.monotonic() + WAIT_SECONDS
        while held_by(path) is not None and time.monotonic() < until:
            time.sleep(0.1)
        if held_by(path) is None:
            return
