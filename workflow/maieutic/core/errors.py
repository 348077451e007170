"""Errors that a user can fix: one line that says where, what was expected, what was found, and what to do."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence

LONGEST_WORD = 300  # characters: as a path may have
CLOSED_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}  # full, or not to be written to


def cut_word(word: str) -> str:
    """A word of a message, without its end where nobody would read so far."""
    return word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}\u2026"


class UserError(Exception):
    """A line for a person: place, expectation, finding, fix. Shown without a traceback.

    others: faults that were found with it, each a line of its own.
    """

    def __init__(self, place: str, problem: str, mend: str, others: Sequence[UserError] = ()) -> None:
        self.place, self.problem, self.mend = place, problem, mend
        self.all = [self, *others]
        # What a library says may end its sentence itself; three dots are no end.
        said = problem if problem.endswith("..") else problem.removesuffix(".")
        self.line = " ".join(map(cut_word, f"{place}: {said}. Fix: {mend}".split()))
        super().__init__(" Also, ".join([self.line, *(other.line for other in others)]))

    @property
    def lines(self) -> str:
        """All faults, a line each."""
        return "\n".join(error.line for error in self.all)

    @classmethod
    def of(cls, errors: Sequence[UserError]) -> UserError:
        """Several faults as one error; what stands twice is said once."""
        first, *others = {error.line: error for error in errors}.values()
        every = cls(first.place, first.problem, first.mend, others)
        every.all = [first, *others]  # as they are: some say what kind of fault they are
        return every


class Unpinned(UserError):
    """What a run uses is not pinned: all such faults are said at once, since one command mends them."""


def check_all(checks: Iterable[Callable[[], object]]) -> None:
    """Run every check, also after one has failed. Raises UserError with the faults of all."""
    if faults := faults_of(checks):
        raise UserError.of(faults)


def check_in_turn(*groups: Iterable[Callable[[], object]]) -> None:
    """Run groups of checks, each after those before it have found nothing but missing pins. Raises UserError."""
    faults: list[UserError] = []
    for checks in groups:
        faults += faults_of(checks)
        if not all(isinstance(fault, Unpinned) for fault in faults):
            break
    if faults:
        raise UserError.of(faults)


def faults_of(checks: Iterable[Callable[[], object]]) -> list[UserError]:
    """What some checks find."""
    faults: list[UserError] = []
    for check in checks:
        try:
            check()
        except UserError as error:
            faults += error.all
    return faults


def mendable(error: BaseException) -> BaseException:
    """A UserError in place of an OSError that a user can mend: a disk is full or read-only. Any other is given back."""
    if not isinstance(error, OSError) or error.errno not in CLOSED_DISK:
        return error
    fix = "make room or mend the permissions, then run again: what was finished is kept"
    return UserError(str(error.filename or "results"), str(error.strerror), fix)
