"""Errors that a user can fix: one line that says where, what was expected, what was found, and what to do."""

from __future__ import annotations


class UserError(Exception):
    """One line for a person: place, expectation, finding, fix. Shown without a traceback."""

    def __init__(self, place: str, problem: str, mend: str) -> None:
        self.place, self.problem, self.mend = place, problem, mend
        one_line = " ".join(f"{place}: {problem}. Fix: {mend}".split())
        super().__init__(one_line)
