"""Idle servers give way: who waits for their devices or their memory says so, and they end.

Everything is said by locks on files, which the kernel drops when a process ends, however it ends: a waiting process
holds a shared lock on the file of what it wants, an idle server one on the file of idle servers. Processes of other
users can do the same.
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

log = logging.getLogger(__name__)
FOLDER = Path("/tmp")
POLL_SECONDS = 0.25
PATIENCE = 60.0  # seconds that a job waits for idle servers to end, before it starts all the same
TRIES, LOOK_SECONDS = 50, 0.01
UNLIMITED = 1 << 60
CGROUPS = (  # the limit of a container or of an allocation, and what of it is used: version 2, version 1
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def memory_wanted() -> Path:
    """The file of those who wait for memory."""
    return FOLDER / "maieutic.memory.wanted"


def idle_servers() -> Path:
    """The file of idle servers."""
    return FOLDER / "maieutic.idle"


def open_shared(path: Path) -> int:
    """A file descriptor of a file that any user of this machine may lock."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        handle = os.open(path, flags | os.O_CREAT, 0o444)
        with contextlib.suppress(PermissionError):  # somebody else was first
            os.fchmod(handle, 0o444)  # whatever our umask is
        return handle


@contextlib.contextmanager
def marked(*paths: Path) -> Iterator[None]:
    """Hold shared locks: say that we want something, or that we are idle."""
    with contextlib.ExitStack() as stack:
        for path in paths:
            handle = open_shared(path)
            stack.callback(os.close, handle)
            for _ in range(TRIES):
                try:
                    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    break
                except BlockingIOError:  # somebody looks at this moment
                    time.sleep(LOOK_SECONDS)
        yield


def is_marked(path: Path) -> bool:
    """Whether some process holds a shared lock."""
    handle = open_shared(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def number_in(path: Path) -> int:
    """The number that a file of the kernel holds; UNLIMITED where there is no such file, or no limit."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return UNLIMITED
    return int(text) if text.isdigit() else UNLIMITED


def memory_mb() -> tuple[int, int]:
    """The memory that is free for a new process, and all that there is, in MB: of the machine, or of its cgroup."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    free, total = (int(fields[name].split()[0]) >> 10 for name in ("MemAvailable", "MemTotal"))
    for limit, used in CGROUPS:
        most = number_in(limit)
        if most < UNLIMITED and most >> 20 < total:
            free, total = min(free, (most - number_in(used)) >> 20), most >> 20
    return max(free, 0), total


async def make_room(name: str, needed_mb: int | None = None) -> None:
    """Wait until a process may take so much memory, while idle servers give way; without any, do not wait.

    needed_mb: None for half of what the machine has.
    """
    began, said = time.monotonic(), False
    with contextlib.ExitStack() as stack:
        while time.monotonic() - began < PATIENCE:
            free, total = memory_mb()
            needed = min(total // 2 if needed_mb is None else needed_mb, total)
            if free >= needed or not is_marked(idle_servers()):
                return
            if not said:
                log.info("%s needs %d MB of memory, %d MB are free: idle servers end", name, needed, free)
                stack.enter_context(marked(memory_wanted()))
                said = True
            await asyncio.sleep(POLL_SECONDS)
