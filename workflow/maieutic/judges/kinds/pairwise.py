"""`pairwise`: which of two replies is better (MathTutorBench, Figure 6)."""

from __future__ import annotations

from collections.abc import Sequence

from maieutic.judges.kinds.base import Kind, Order

PLACES: dict[Order, dict[str, str]] = {"ab": {"A": "first", "B": "second"}, "ba": {"A": "second", "B": "first"}}


class Pairwise(Kind):
    """Two replies, of which one is named."""

    name = "pairwise"
    answers = ("json", "letter")
    needs_criteria = False
    paired = True
    of_labelled_pairs = True

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """The places."""
        return ["A", "B"]

    def in_own_terms(self, value: str, order: Order, about_tutor: bool) -> str:
        """`first` or `second`."""
        return PLACES[order].get(value, value)
