"""Errors that a user can fix: one line that says where, what was expected, what was found, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


class UserError(Exception):
    """A line for a person: place, expectation, finding, fix. Shown without a traceback.

    others: faults that were found with it, each a line of its own.
    """

    def __init__(self, place: str, problem: str, mend: str, others: Sequence[UserError] = ()) -> None:
        self.place, self.problem, self.mend = place, problem, mend
        self.all = [self, *others]
        self.line = " ".join(f"{place}: {problem}. Fix: {mend}".split())
        super().__init__(" Also, ".join([self.line, *(other.line for other in others)]))

    @property
    def lines(self) -> str:
        """All faults, a line each."""
        return "\n".join(error.line for error in self.all)

    @classmethod
    def of(cls, errors: Sequence[UserError]) -> UserError:
        """Several faults as one error; what stands twice is said once."""
        first, *others = {error.line: error for error in errors}.values()
        return cls(first.place, first.problem, first.mend, others)


def check_all(checks: Iterable[Callable[[], object]]) -> None:
    """Run every check, also after one has failed. Raises UserError with the faults of all."""
    faults: list[UserError] = []
    for check in checks:
        try:
            check()
        except UserError as error:
            faults += error.all
    if faults:
        raise UserError.of(faults)
