"""After a SIGKILL of Snakemake: end the drivers and SLURM jobs that live on and hold their journals' locks."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

log = logging.getLogger(__name__)
OWNER = re.compile(r"host (?P<host>\S+) pid (?P<pid>\d+)(?: slurm job (?P<job>\d+))?")
WAIT_SECONDS = 40.0
KEEPER = b"maieutic.serving.keeper"


class Owner(NamedTuple):
    """Who holds a journal."""

    host: str
    pid: int
    job: str | None


def held_by(path: Path) -> Owner | None:
    """The process that holds a lock file, or None where nobody does."""
    with open(path, encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            match = OWNER.search(handle.read())
            return Owner(match["host"], int(match["pid"]), match["job"]) if match else None
    return None


def cancel_submitted(folder: Path) -> None:
    """Cancel what a killed Snakemake left in SLURM's queue for this folder: a rerun would submit it again."""
    if shutil.which("squeue") is None:
        return
    listed = subprocess.run(
        ["squeue", "--me", "--noheader", "--format=%i|%Z|%k"], capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        log.warning("squeue: %s", listed.stderr.strip())
    for line in listed.stdout.splitlines():
        job, place, comment = line.split("|", 2)
        if Path(place).resolve() == folder.resolve() and comment.startswith("rule_"):
            log.info("cancelling SLURM job %s (%s)", job, comment)
            subprocess.run(["scancel", job], check=False)


def keepers_of(folder: Path) -> list[int]:
    """The keepers of servers that this user's runs in a folder have started on this machine."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if KEEPER in words and (process / "cwd").resolve() == folder.resolve():
                pids.append(int(process.name))
    return pids


def end_keepers(folder: Path) -> None:
    """End servers that outlived their run: SIGTERM, then SIGKILL; their processes die with them."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in keepers_of(folder):
            log.info("ending a server, kept by pid %d", pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        until = time.monotonic() + WAIT_SECONDS
        while keepers_of(folder) and time.monotonic() < until:
            time.sleep(0.1)


def recover(results: Path) -> None:
    """Ask every driver that holds a journal of this results folder to stop, and wait until it has."""
    cancel_submitted(results.parent)
    for path in sorted((results / "journal").glob("**/*.lock")):
        owner = held_by(path)
        if owner is None:
            continue
        if owner.host == socket.gethostname():
            log.info("ending the driver with pid %d, which holds %s", owner.pid, path)
            end(path, owner.pid)
        elif owner.job and shutil.which("scancel"):
            log.info("cancelling SLURM job %s, which holds %s", owner.job, path)
            cancel(path, owner.job)
        else:
            log.warning("%s is held by pid %d on %s: end it there", path, owner.pid, owner.host)
    end_keepers(results.parent)


def cancel(path: Path, job: str) -> None:
    """Cancel a SLURM job and wait until its journal is free."""
    done = subprocess.run(["scancel", job], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        log.warning("scancel %s: %s", job, done.stderr.strip())
    elif not released(path):
        log.warning("SLURM job %s still holds %s: look at squeue, then run this again", job, path)


def released(path: Path) -> bool:
    """Whether a lock is free, after waiting for it."""
    until = time.monotonic() + WAIT_SECONDS
    while held_by(path) is not None and time.monotonic() < until:
        time.sleep(0.1)
    return held_by(path) is None


def end(path: Path, pid: int) -> None:
    """SIGTERM, then SIGKILL; its server dies with it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if released(path):
            return
