"""Errors that a user can fix. The message of each is one line: place, problem and fix."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence

from maieutic.core.visible import terminal_line

# Place of the error of a job whose requests travel in batches. It is no failure: a later call of the run answers them.
PENDING_PLACE = "batches"
LONGEST_WORD = 300  # maximum length of a word in a message, in characters; a long path still fits
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}  # a full or unwritable disk


def cut_word(word: str) -> str:
    """Return a word of a message, cut off after LONGEST_WORD characters."""
    return word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}\u2026"


class UserError(Exception):
    """Error that a user can fix, shown as one line without a traceback.

    others: further errors found by the same check, each shown on its own line.
    """

    def __init__(self, place: str, problem: str, fix: str, others: Sequence[UserError] = ()) -> None:
        self.place, self.problem, self.fix = place, problem, fix
        self.all = [self, *others]
        # A library's message may end with a full stop. Remove it, since another one follows; keep an ellipsis.
        clause = problem if problem.endswith("..") else problem.removesuffix(".")
        stop = "" if clause.endswith("?") else "."
        self.line = terminal_line(" ".join(map(cut_word, f"{place}: {clause}{stop} Fix: {fix}".split())))
        super().__init__(" Also, ".join([self.line, *(other.line for other in others)]))

    @property
    def lines(self) -> str:
        """Messages of all errors, one per line."""
        return "\n".join(error.line for error in self.all)

    @classmethod
    def of(cls, errors: Sequence[UserError]) -> UserError:
        """Return one error that combines several. Errors with equal messages appear once."""
        first, *others = {each.line: each for error in errors for each in error.all}.values()
        combined = cls(first.place, first.problem, first.fix, others)
        combined.all = [first, *others]  # keep the original objects: `check_in_turn` depends on their class
        return combined


class Unpinned(UserError):
    """Error for a data set or model without a pin. All such errors are reported together; one command fixes them."""


def raise_all(faults: Sequence[UserError]) -> None:
    """Raise UserError with all faults; do nothing for an empty list."""
    if faults:
        raise UserError.of(faults)


def check_all(checks: Iterable[Callable[[], object]]) -> None:
    """Run every check, even after one fails. Raises UserError with the errors of all checks."""
    raise_all(collect_faults(checks))


def check_in_turn(*groups: Iterable[Callable[[], object]]) -> None:
    """Run groups of checks in turn, and stop after the first group with an error other than a missing pin.

    Raises UserError with all errors of the groups that were run.
    """
    faults: list[UserError] = []
    for checks in groups:
        faults += collect_faults(checks)
        if not all(isinstance(fault, Unpinned) for fault in faults):
            break
    raise_all(faults)


def collect_faults(checks: Iterable[Callable[[], object]]) -> list[UserError]:
    """Run every check and return all errors raised."""
    faults: list[UserError] = []
    for check in checks:
        try:
            check()
        except UserError as error:
            faults += error.all
    return faults


def as_user_error(error: BaseException) -> BaseException:
    """Return a UserError in place of an OSError for a full or unwritable disk; return any other error unchanged."""
    if not isinstance(error, OSError) or error.errno not in DISK_ERRORS:
        return error
    fix = "free disk space or correct the permissions, then run again: finished work is kept"
    return UserError(str(error.filename or "results"), str(error.strerror), fix)


RUN_FILES_VARIABLE = "MAIEUTIC_RUN_FILES"  # environment variable with the paths of the run files, quoted for a shell
DEFAULT_RUN_FILE = "my.yaml"  # run file in commands that are shown outside of a run


def with_run_files(command: str) -> str:
    """Return a command with `--configfile` and the files of the current run."""
    return f"{command} --configfile {os.environ.get(RUN_FILES_VARIABLE) or DEFAULT_RUN_FILE}"
