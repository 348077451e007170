"""`win_tie_lose`: a tutor's reply against the reference, criterion by criterion (KMP-Bench, Figures 16 and 17)."""

from __future__ import annotations

from collections.abc import Sequence

from maieutic.core.records import Item, Reply
from maieutic.judges.kinds.base import Kind, Order
from maieutic.judges.kinds.pairwise import PLACES

COMPARISONS = "kmp_dialogue"  # the card of the paper, by which people compare too
WIN_TIE_LOSE = ("win", "tie", "lose")
COMPARED = ("tutor_response", "reference_response")


class WinTieLose(Kind):
    """Two replies, the tutor's and the reference: A, tie or B; or Win, Tie, Lose of the tutor's, wherever it stands."""

    name = "win_tie_lose"
    paired = True
    against_reference = True

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """The places and a tie, or the tutor's fate."""
        return ["Win", "Tie", "Lose"] if about_tutor else ["A", "tie", "B"]

    def desired(self, label: str | None) -> str | bool | None:
        """The tutor's reply wins."""
        return "win"

    def words(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The tutor's fate."""
        return WIN_TIE_LOSE

    def desired_word(self, label: str | None) -> str | None:
        """The tutor's reply wins."""
        return WIN_TIE_LOSE[0]

    def in_own_terms(self, value: str, order: Order, about_tutor: bool) -> str:
        """`win`, `tie` or `lose` of the tutor's reply, which is the first."""
        if about_tutor:
            return value.lower()
        named = PLACES[order].get(value, value)
        return {"first": "win", "second": "lose"}.get(named, named)

    def texts(self, item: Item, reply: Reply, about_tutor: bool) -> dict[str, str]:
        """The reply and the reference, by name or as the first and the second."""
        names = COMPARED if about_tutor else ("first", "second")
        return dict(zip(names, (reply.text, str(item.reference["text"])), strict=True))

    def variables(self, turns: int, about_tutor: bool) -> set[str]:
        """Both texts, by name or by place."""
        return {*COMPARED} if about_tutor else {"response_a", "response_b"}
