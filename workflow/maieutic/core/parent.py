"""Processes that die with the one that started them. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal

PARENT = "MAIEUTIC_PARENT"  # pid of the process that starts this one
PR_SET_PDEATHSIG = 1


def tie_to_parent() -> None:
    """End this process, and each one that it forks, with its parent: also where the parent is killed or gone already.

    The kernel's signal fires when the *thread* that spawned a child ends, so children are started by a main thread.
    """
    die_with_parent()
    end_where_parent_is_gone()
    os.register_at_fork(after_in_child=die_with_parent)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent's spawning thread ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_where_parent_is_gone() -> None:
    """A process whose parent died before it could ask for the signal would live for ever.

    Each process names itself to those that it spawns, and the driver named itself to the first.
    """
    parent = os.environ.get(PARENT)
    if parent is not None and int(parent) not in {os.getppid(), os.getpid()}:
        os._exit(1)
    os.environ[PARENT] = str(os.getpid())
