"""Decide which value a reply states, from everything in it that speaks for one (docs/reading-answers.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Generic, Literal, NamedTuple, TypeVar

from maieutic.graders.reading import MAX_PASSAGE_CHARACTERS

Value = TypeVar("Value", bool, int, float)
# Reasons why a reply has no value: the tutor gave no single answer, or the reader did not understand (NOT_UNDERSTOOD).
Reason = Literal[
    "empty", "cut", "declined", "no statement", "contradictory", "withdrawn", "ambiguous number", "unknown kind"
]


NOT_UNDERSTOOD: tuple[Reason, ...] = ("ambiguous number", "unknown kind")


def is_doubt(why_none: str | None) -> bool:
    """Return True if the reader did not understand a reply, although a value may stand there."""
    return why_none is not None and why_none.startswith(NOT_UNDERSTOOD)


class Rank(IntEnum):
    """Kinds of evidence, the strongest first."""

    FIELD = 1  # a mark that names the asked slot: "First error step: 3"
    MARK = 2  # a general final mark: "Final answer: 3"
    LINE = 3  # the whole reply, or a line of its own, that is only the value
    CONCLUSION = 4  # the last sentence about the whole: "So the solution is incorrect."
    OPENING = 5  # the label of the first sentence, with its reason: "Step 3: it adds"
    STATEMENT = 6  # statements about parts: "Step 3 is wrong."


class Evidence(NamedTuple, Generic[Value]):
    """Passage of a reply that speaks for a value.

    value: None if the passage is undecided in itself ("2 or 3"). opens: True for a passage in the first line.
    """

    rank: Rank
    value: Value | None
    passage: str
    opens: bool = False


class Decision(NamedTuple, Generic[Value]):
    """Value of a reply with the passage that states it, or the reason why it has no value."""

    value: Value | None
    passage: str
    reason: Reason | None = None


FINAL = re.compile(r"\b(?:final|correct(?:ed)?|revised)\b", re.IGNORECASE)  # "Final answer: 6" after "Answer: 5"
EQUALS = (Rank.LINE, Rank.CONCLUSION, Rank.OPENING)  # a line counts among these if it opens the reply


def decide(evidence: Sequence[Evidence[Value]]) -> Decision[Value]:
    """Return the value of the strongest evidence; the value is None if pieces of equal strength disagree.

    A first line, a conclusion and an opening are equally strong.
    """
    if not evidence:
        return Decision(None, "", "no statement")
    rank = min(piece.rank for piece in evidence)
    strongest = [piece for piece in evidence if piece.rank == rank]
    if rank in (Rank.FIELD, Rank.MARK):
        strongest = [piece for piece in strongest if FINAL.search(piece.passage)] or strongest
    if rank in EQUALS and all(piece.opens for piece in strongest if rank == Rank.LINE):
        strongest = [piece for piece in evidence if piece.rank in EQUALS]
    if len({piece.value for piece in strongest}) == 1 and strongest[-1].value is not None:
        return Decision(strongest[-1].value, strongest[-1].passage)
    return Decision(None, " ... ".join(dict.fromkeys(piece.passage for piece in strongest)), "contradictory")


def decide_cut(evidence: Sequence[Evidence[Value]], text: str) -> Decision[Value]:
    """Return the value of a reply that breaks off: the value of a mark, a line or a conclusion before the break."""
    stated = [piece for piece in evidence if piece.rank <= Rank.CONCLUSION]
    return decide(stated) if stated else Decision(None, text[-MAX_PASSAGE_CHARACTERS:], "cut")
