"""Recovery after a SIGKILL of Snakemake: end the drivers and SLURM jobs that still run and lock their journals."""

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

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.locks import is_other_owner_here, lock

log = logging.getLogger(__name__)
OWNER = re.compile(r"host (?P<host>\S+) pid (?P<pid>\d+)(?: slurm job (?P<job>\d+))?")
WAIT_SECONDS = 40.0
MANAGER_MODULE = b"maieutic.serving.lease_manager"


class Owner(NamedTuple):
    """Process that has locked a journal. job: number of its SLURM job, or None."""

    host: str
    pid: int
    job: str | None


def holder_of(path: Path) -> str | None:
    """Return the text in a locked file, which names its owner; None if the file is not locked.

    On a file system without locks, the owner that the file names may have ended; the file is then not locked.
    """
    with open(path, encoding="utf-8") as handle:
        try:
            has_locks = lock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return handle.read().strip()
        text = handle.read().strip()
        return text if not has_locks and is_other_owner_here(text) else None


def lock_owner(path: Path) -> Owner | None:
    """Return the process that has locked a file, or None if the file is not locked or does not name the process."""
    match = OWNER.search(holder_of(path) or "")
    return Owner(match["host"], int(match["pid"]), match["job"]) if match else None


def cancel_queued_jobs(folder: Path) -> None:
    """Cancel the jobs that a killed Snakemake left in the SLURM queue, because a rerun would submit them again.

    folder: folder in which Snakemake ran.
    """
    if shutil.which("squeue") is None:
        return
    queue = subprocess.run(
        ["squeue", "--me", "--noheader", "--format=%i|%Z|%k"], capture_output=True, text=True, check=False
    )
    if queue.returncode != 0:
        log.warning("squeue: %s", queue.stderr.strip())
    for line in queue.stdout.splitlines():
        job, work_dir, comment = line.split("|", 2)
        if Path(work_dir).resolve() == folder.resolve() and comment.startswith("rule_"):
            log.info("cancelling SLURM job %s (%s)", job, comment)
            subprocess.run(["scancel", job], check=False)


def manager_pids(folder: Path) -> list[int]:
    """Return the process ids of the lease managers that runs in a folder have started on this machine."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if MANAGER_MODULE in words and (process / "cwd").resolve() == folder.resolve():
                pids.append(int(process.name))
    return pids


def end_managers(folder: Path) -> None:
    """End the servers that outlived a run in a folder, by SIGTERM and then SIGKILL to their lease managers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in manager_pids(folder):
            log.info("ending a server with its lease manager, pid %d", pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        until = time.monotonic() + WAIT_SECONDS
        while manager_pids(folder) and time.monotonic() < until:
            time.sleep(0.1)


def recover(results: Path = Path(paths.ROOT)) -> None:
    """End the drivers, SLURM jobs and servers that a killed Snakemake left running, and unlock the folder.

    Args:
        results: folder of the results

    Raises:
        UserError: if a run is in progress
    """
    run_lock = results / Path(paths.RUN_LOCK).name
    if run_lock.is_file() and (holder := holder_of(run_lock)) is not None:
        problem = f"a run is in progress ({holder.splitlines()[0] if holder else 'another process'})"
        raise UserError("maieutic recover", problem, "wait until it ends, or end it with Ctrl-C in its terminal")
    cancel_queued_jobs(results.parent)
    for path in sorted((results / "journal").glob("**/*.lock")):
        owner = lock_owner(path)
        if owner is None:
            continue
        if owner.host == socket.gethostname():
            log.info("ending the driver with pid %d, which holds the lock on %s", owner.pid, path)
            end_driver(path, owner.pid)
        elif owner.job and shutil.which("scancel"):
            log.info("cancelling SLURM job %s, which holds the lock on %s", owner.job, path)
            cancel_slurm_job(path, owner.job)
        else:
            log.warning("%s is locked by pid %d on %s: end that process there", path, owner.pid, owner.host)
    end_managers(results.parent)
    unlock_folder(results)


def unlock_folder(results: Path) -> None:
    """Remove Snakemake's locks on the folder of the results."""
    for file in (results.parent / ".snakemake/locks").glob("*.lock"):
        log.info("removing the lock %s", file)
        file.unlink(missing_ok=True)


def cancel_slurm_job(path: Path, job: str) -> None:
    """Cancel a SLURM job and wait until its journal is unlocked. path: lock file of the journal."""
    done = subprocess.run(["scancel", job], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        log.warning("scancel %s: %s", job, done.stderr.strip())
    elif not wait_until_unlocked(path):
        log.warning("SLURM job %s still locks %s: check squeue, then run `make recover` again", job, path)


def wait_until_unlocked(path: Path) -> bool:
    """Wait until a file is unlocked. Return False if it is still locked after WAIT_SECONDS."""
    until = time.monotonic() + WAIT_SECONDS
    while lock_owner(path) is not None and time.monotonic() < until:
        time.sleep(0.1)
    return lock_owner(path) is None


def end_driver(path: Path, pid: int) -> None:
    """End a driver, and so its server, by SIGTERM and then SIGKILL. path: lock file of the driver's journal."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if wait_until_unlocked(path):
            return
