"""Lock on the results folder, which a run and every command that writes into it hold.

Snakemake's own lock is not enough: it lies in a checkout, but checkouts can share results by a symlink.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.locks import has_ended_here, lock_exclusively, owner_line
from maieutic.core.terminal import say

WITHOUT_LOCKS = "this file system has no locks: do not start another run on these results from another machine"
LOCK_FILES: list[IO[str]] = []  # open lock files, kept until this process ends


class Locked(Exception):
    """Error for results that another process has locked.

    owner: its name; folder: its checkout; command: its command, "" for a run; may_have_ended: True on a file system
    without locks.
    """

    def __init__(self, owner: str, folder: str, command: str = "", may_have_ended: bool = False) -> None:
        super().__init__(owner, folder)
        self.owner, self.folder, self.command, self.may_have_ended = owner, folder, command, may_have_ended


def take_lock(handle: IO[str], command: str = "") -> None:
    """Lock the results by their open lock file, and write the owner into it. Raises Locked if another process has them.

    command: the command that takes the lock, "" for a run. On a file system without locks the owner in the file is the
    lock, which is printed.
    """
    try:
        is_locked = lock_exclusively(handle)
    except BlockingIOError:
        raise Locked(*owner_of(handle)) from None
    if not is_locked:
        owner, folder, other = owner_of(handle)
        if owner and not has_ended_here(owner):
            raise Locked(owner, folder, other, may_have_ended=True)
        say(f"{Path(handle.name).parent}: {WITHOUT_LOCKS}", error=True)
    handle.truncate(0)
    handle.write(f"{owner_line()} in {Path.cwd()}\n{command}\n")
    handle.flush()


def owner_of(handle: IO[str]) -> tuple[str, str, str]:
    """Return the owner that a lock file names, the folder of its checkout, and its command; "" for a free lock."""
    handle.seek(0)
    line, _, command = handle.read().strip().partition("\n")
    owner, _, folder = line.partition(" in ")
    return owner, folder, command


def lock_results(lock: Path = Path(paths.RUN_LOCK)) -> None:
    """Lock the results until this process ends. Raises UserError if a run of another checkout has locked them."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    handle = open(lock, "a+", encoding="utf-8")  # noqa: SIM115 - kept open until the process ends
    try:
        take_lock(handle)
    except Locked as error:
        handle.close()
        # Two runs of the same checkout are left to Snakemake, which locks them itself unless --nolock is set.
        if error.folder == str(Path.cwd()) and not error.may_have_ended and not error.command:
            return
        user = f"`maieutic {error.command}`" if error.command else "another run"
        problem = f"{user} uses these results ({error.owner}, in {error.folder})"
        fix = "wait until it ends, or link another results folder into this checkout"
        fix = f"wait until it ends; if it has ended already, delete {lock}" if error.may_have_ended else fix
        raise UserError(str(lock.resolve().parent), problem, fix) from None
    atexit.register(handle.truncate, 0)
    LOCK_FILES.append(handle)


@contextmanager
def locked_results(command: str) -> Iterator[None]:
    """Lock the results while a command changes them. Raises UserError if a run uses them."""
    lock = Path(paths.RUN_LOCK)
    if not lock.parent.is_dir():
        yield
        return
    with open(lock, "a+", encoding="utf-8") as handle:
        try:
            take_lock(handle, command)
        except Locked as error:
            problem = f"a run uses {lock.parent.resolve()} ({error.owner})"
            raise UserError(f"maieutic {command}", problem, "wait until it ends, then repeat the command") from None
        try:
            yield
        finally:
            handle.truncate(0)
