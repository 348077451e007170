"""Locks on files, and what happens on a file system without locks, such as NFS without its lock service.

There, a lock is the name of its owner in the file. It protects against a second owner on the same machine.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path
from typing import IO

# Errors of a file system that has no locks
NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


def lock(handle: int | IO, operation: int) -> bool:
    """Lock an open file. Returns False if its file system has no locks.

    operation: as for `fcntl.flock`. Raises BlockingIOError if another process holds the lock and LOCK_NB is set.
    """
    try:
        fcntl.flock(handle, operation)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return False
        raise
    return True


def lock_exclusively(handle: int | IO, wait: bool = False) -> bool:
    """Lock an open file for this process alone. Returns False if its file system has no locks.

    wait: True to wait for the lock. Raises BlockingIOError if another process holds it.
    """
    return lock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def has_locks(folder: Path) -> bool:
    """Return True if the file system of a folder has locks."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".lock-test-{socket.gethostname()}-{os.getpid()}"
    try:
        with open(path, "w", encoding="utf-8") as handle:
            return lock_exclusively(handle)
    finally:
        path.unlink(missing_ok=True)


def owner_line() -> str:
    """Return the name of this process in a lock: host, process number and, within SLURM, the job."""
    job = f" slurm job {os.environ['SLURM_JOB_ID']}" if "SLURM_JOB_ID" in os.environ else ""
    return f"host {socket.gethostname()} pid {os.getpid()}{job}"


def process_here(owner: str) -> int | None:
    """Return the process number of an owner that a lock names; None if it belongs to another machine."""
    words = owner.split()
    if len(words) < 4 or words[0] != "host" or words[1] != socket.gethostname() or not words[3].isdigit():
        return None
    return int(words[3])


def is_other_owner_here(owner: str) -> bool:
    """Return True if the owner that a lock names is another process of this machine that is still running."""
    pid = process_here(owner)
    return pid is not None and pid != os.getpid() and Path(f"/proc/{pid}").exists()


def has_ended_here(owner: str) -> bool:
    """Return True if the owner that a lock names is this process, or a process of this machine that has ended."""
    pid = process_here(owner)
    return pid is not None and (pid == os.getpid() or not Path(f"/proc/{pid}").exists())
