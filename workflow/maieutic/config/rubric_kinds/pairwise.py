"""`pairwise`: the better of two replies (MathTutorBench, Figure 6)."""

from __future__ import annotations

from collections.abc import Sequence

from maieutic.config.rubric_kinds.base import Order, RubricKind

REPLY_BY_POSITION: dict[Order, dict[str, str]] = {
    "ab": {"A": "first", "B": "second"},
    "ba": {"A": "second", "B": "first"},
}


class Pairwise(RubricKind):
    """Rubric kind for two replies, of which the judge names the better one."""

    name = "pairwise"
    answers = ("json", "letter")
    needs_criteria = False
    paired = True
    compares_labelled_pairs = True

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """Return the allowed answers: A and B, the positions of the replies."""
        return ["A", "B"]

    def resolve_position(self, value: str, order: Order, about_tutor: bool) -> str:
        """Return `first` or `second`: the reply that was shown at the position that the verdict names, A or B."""
        return REPLY_BY_POSITION[order].get(value, value)
