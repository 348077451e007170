"""`turns`: labels for every turn of the tutor in a conversation, in one answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from maieutic.config.rubric_kinds.labels import LabelsKind
from maieutic.core.records import Item, Reply

RESPONSE = "response_{}"


class Turns(LabelsKind):
    """Rubric kind for a whole conversation. The judge sees all turns in order, and labels each turn of the tutor.

    The prompt shows `conversation`, a list of turns with the fields `student` and `tutor`.
    """

    name = "turns"
    answers: ClassVar[tuple[str, ...]] = ("json",)
    by_turn = True
    tags = False

    def criterion_schema(self, label: dict[str, Any], reasons: bool) -> dict[str, Any]:
        """Return the schema of one turn's verdict, with a reason if `reasons`, as for kinds other than labels."""
        return super(LabelsKind, self).criterion_schema(label, reasons)

    def texts(self, item: Item, reply: Reply, about_tutor: bool) -> dict[str, str]:
        """Return the text of each turn, also for a conversation of a single turn."""
        return {RESPONSE.format(number): turn.text for number, turn in enumerate(reply.turns, 1)}

    def variables(self, turns: int, about_tutor: bool) -> set[str]:
        """Return an empty set, because the loader of a scripted task offers `conversation`."""
        return set()

    def conversation(self, student_turns: Sequence[str], blocks: dict[str, str]) -> dict[str, Any]:
        """Return the prompt variable `conversation`. blocks: the tutor's turns between delimiters, by name."""
        tutor_turns = [blocks[RESPONSE.format(number)] for number in range(1, len(blocks) + 1)]
        pairs = zip(student_turns, tutor_turns, strict=False)  # a conversation may have ended before its script
        return {"conversation": [{"student": student, "tutor": tutor} for student, tutor in pairs]}
