"""Processes that end together with their parent process. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal

PARENT_VARIABLE = "MAIEUTIC_PARENT"  # pid of the parent process
PR_SET_PDEATHSIG = 1


def tie_to_parent() -> None:
    """End this process and its forks when the parent process ends, even if it is killed or has already ended.

    The kernel's signal is sent when the *thread* that spawned a child ends, so children are started by a main thread.
    """
    die_with_parent()
    exit_without_parent()
    os.register_at_fork(after_in_child=die_with_parent)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that spawned it, in the parent process, ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def exit_without_parent() -> None:
    """Exit if the parent process ended before `die_with_parent` took effect, since no signal would then arrive.

    Each process publishes its pid to its children in the environment, starting with the driver.
    """
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is not None and int(parent) not in {os.getppid(), os.getpid()}:
        os._exit(1)
    os.environ[PARENT_VARIABLE] = str(os.getpid())
