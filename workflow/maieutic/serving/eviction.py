"""Eviction of idle servers: when a job requests their devices or memory, they shut down.

Requests and idle servers are marked by shared locks on files, which the kernel drops when a process ends, even if it is
killed. A waiting process locks the file of the resource that it needs. An idle server locks the file of idle servers.
The locks also work between the users of a machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

from maieutic.core.locks import lock, lock_exclusively

log = logging.getLogger(__name__)
FOLDER = Path("/tmp")
POLL_SECONDS = 0.25
EVICTION_SECONDS = 60.0  # maximum time that a job waits for idle servers to shut down before it starts anyway
LOCK_TRIES, LOOK_SECONDS = 50, 0.01
UNLIMITED = 1 << 60
CGROUPS = (  # files with the memory limit and the memory in use of a container or job: cgroup version 2, then 1
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def memory_request_file() -> Path:
    """Return the file that processes lock to request memory from idle servers."""
    return FOLDER / "maieutic.memory.wanted"


def idle_servers_file() -> Path:
    """Return the file that servers lock while they are idle."""
    return FOLDER / "maieutic.idle"


def open_shared(path: Path) -> int:
    """Open a file that any user of this machine may lock, and create it if missing. Return its file descriptor."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        handle = os.open(path, flags | os.O_CREAT, 0o444)
        with contextlib.suppress(PermissionError):  # another user created the file first
            os.fchmod(handle, 0o444)  # os.open applies this user's umask to the mode
        return handle


@contextlib.contextmanager
def hold_shared_locks(*paths: Path) -> Iterator[None]:
    """Lock files in shared mode while the context is open, to request a resource or to mark an idle server."""
    with contextlib.ExitStack() as stack:
        for path in paths:
            handle = open_shared(path)
            stack.callback(os.close, handle)
            for _ in range(LOCK_TRIES):
                try:
                    lock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    break
                except BlockingIOError:  # another process tests the lock at this moment
                    time.sleep(LOOK_SECONDS)
        yield


def has_shared_lock(path: Path) -> bool:
    """Return True if a process has locked the file in shared mode."""
    handle = open_shared(path)
    try:
        lock_exclusively(handle)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def read_kernel_number(path: Path) -> int:
    """Return the number in a cgroup file, or UNLIMITED if the file does not exist or contains no number."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return UNLIMITED
    return int(text) if text.isdigit() else UNLIMITED


def memory_mb() -> tuple[int, int]:
    """Return the free and the total memory in MB: of this machine, or of this cgroup if its limit is lower."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    free, total = (int(fields[name].split()[0]) >> 10 for name in ("MemAvailable", "MemTotal"))
    for limit, used in CGROUPS:
        most = read_kernel_number(limit)
        if most < UNLIMITED and most >> 20 < total:
            free, total = min(free, (most - read_kernel_number(used)) >> 20), most >> 20
    return max(free, 0), total


async def wait_for_memory(name: str, needed_mb: int | None = None) -> None:
    """Wait up to EVICTION_SECONDS until idle servers have freed enough memory. Return at once if no server is idle.

    name: name of the model in the log line; needed_mb: memory that the process needs, by default half of the total.
    """
    began, requested = time.monotonic(), False
    with contextlib.ExitStack() as stack:
        while time.monotonic() - began < EVICTION_SECONDS:
            free, total = memory_mb()
            needed = min(total // 2 if needed_mb is None else needed_mb, total)
            if free >= needed or not has_shared_lock(idle_servers_file()):
                return
            if not requested:
                log.info("%s needs %d MB of memory, but %d MB are free: idle servers shut down", name, needed, free)
                stack.enter_context(hold_shared_locks(memory_request_file()))
                requested = True
            await asyncio.sleep(POLL_SECONDS)
