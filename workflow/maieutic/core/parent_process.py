"""Functions that end a process together with its parent process, or with the Snakemake that started it. Linux only."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import signal
from contextlib import suppress
from pathlib import Path

PARENT_VARIABLE = "MAIEUTIC_PARENT"  # environment variable with the pid of the parent process
PR_SET_PDEATHSIG = 1


def tie_to_parent() -> None:
    """Make this process and its forks end when the parent process ends, even if the parent is killed.

    If the parent has already ended, this process exits at once. The kernel sends its signal when the *thread* that
    spawned a child ends, so a parent must start its children from the main thread.
    """
    die_with_parent()
    exit_without_parent()
    os.register_at_fork(after_in_child=die_with_parent)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the parent's thread that spawned it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def exit_without_parent() -> None:
    """Exit if the parent process ended before `die_with_parent` took effect, since no signal would then arrive.

    Each process, beginning with the driver, passes its pid to its children in the environment variable PARENT_VARIABLE.
    """
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is not None and int(parent) not in {os.getppid(), os.getpid()}:
        os._exit(1)
    os.environ[PARENT_VARIABLE] = str(os.getpid())


def snakemake_processes() -> list[int]:
    """Open the Snakemake processes that started this job, directly or not, and return their file descriptors.

    Snakemake starts a job in a shell, which outlives it. A descriptor becomes readable when its process ends.
    """
    pid, opened = os.getppid(), list[int]()
    with suppress(OSError, ValueError, IndexError):  # a process has ended, or belongs to another user
        while pid > 1:
            folder = Path(f"/proc/{pid}")
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if any(Path(os.fsdecode(word)).name == "snakemake" for word in words[:3]):
                opened.append(os.pidfd_open(pid))
            pid = int((folder / "stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()[1])
    return opened


NEW_OBJECTS = 100_000  # number of new objects after which they are scanned
NEW_OBJECTS_OF_A_PLAN = 1_000_000  # the same in Snakemake, whose plan of ten thousand jobs has millions of objects
OLDER_THRESHOLDS = (50, 1000)


def collect_garbage_rarely(new_objects: int = NEW_OBJECTS) -> None:
    """Collect reference cycles a hundred times less often than by default, and not at all when the process exits.

    Records and the jobs of a plan are hundreds of thousands of small objects that live until the process ends.
    Repeated scans of them took more than half of the time to build a report and a tenth of the time to build a large
    plan. The scan at exit took a seventh of the time of a cheap job.

    new_objects: number of new objects after which they are scanned.
    """
    gc.set_threshold(new_objects, *OLDER_THRESHOLDS)
    gc.enable()
    atexit.register(gc.freeze)
