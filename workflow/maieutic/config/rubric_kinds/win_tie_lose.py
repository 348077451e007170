"""`win_tie_lose`: a tutor's reply compared with the reference under each criterion (KMP-Bench, Figures 16 and 17)."""

from __future__ import annotations

from collections.abc import Sequence

from maieutic.config.rubric_kinds.base import Order, RubricKind
from maieutic.config.rubric_kinds.pairwise import REPLY_BY_POSITION
from maieutic.core.records import Item, Reply

WIN_TIE_LOSE = ("win", "tie", "lose")
COMPARED_VARIABLES = ("tutor_response", "reference_response")


class WinTieLose(RubricKind):
    """Rubric kind that compares a reply with the reference. Answers are A, tie or B, or Win, Tie or Lose."""

    name = "win_tie_lose"
    paired = True
    against_reference = True

    def values(self, labels: Sequence[str], about_tutor: bool) -> list[str]:
        """Return the allowed answers: A, tie and B, or Win, Tie and Lose if they are about the tutor's reply."""
        return ["Win", "Tie", "Lose"] if about_tutor else ["A", "tie", "B"]

    def desired(self, label: str | None) -> str | bool | None:
        """Return `win`, since a good reply is better than the reference."""
        return "win"

    def annotator_labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Return the annotators' labels: win, tie and lose."""
        return WIN_TIE_LOSE

    def desired_label(self, label: str | None) -> str | None:
        """Return the label of a good reply: win."""
        return WIN_TIE_LOSE[0]

    def resolve_position(self, value: str, order: Order, about_tutor: bool) -> str:
        """Return `win`, `tie` or `lose` for the tutor's reply, which is the first of the two texts."""
        if about_tutor:
            return value.lower()
        place = REPLY_BY_POSITION[order].get(value, value)
        return {"first": "win", "second": "lose"}.get(place, place)

    def texts(self, item: Item, reply: Reply, about_tutor: bool) -> dict[str, str]:
        """Return the texts of the reply and the reference, by role if `about_tutor`, or as `first` and `second`."""
        names = COMPARED_VARIABLES if about_tutor else ("first", "second")
        return dict(zip(names, (reply.text, str(item.reference["text"])), strict=True))

    def variables(self, turns: int, about_tutor: bool) -> set[str]:
        """Return the prompt variables for both texts, named by role if `about_tutor`, otherwise by position."""
        return {*COMPARED_VARIABLES} if about_tutor else {"response_a", "response_b"}
