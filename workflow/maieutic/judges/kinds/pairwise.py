"""`pairwise`: which of two replies is better (MathTutorBench, Figure 6)."""

from __future__ import annotations

from collections.abc import Sequence

from maieutic.judges.kinds.base import Kind, Order

PLACES = {"ab": {"A": "first", "B": "second"}, "ba": {"A": "second", "B": "first"}}


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

    def desired(self, label: str | None) -> str | bool | None:
        """The criterion's desired label, if it has any."""
        return label

    def verdict(self, value: str) -> str | bool:
        """The place itself."""
        return value

    def in_own_terms(self, value: str, order: Order | None, about_tutor: bool) -> str:
        """`first` or `second`."""
        return PLACES[order or "ba"].get(value, value)
