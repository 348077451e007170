"""The final answer of every round of a conversation (KMP-Bench FQA)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maieutic.core.records import Item, Scoring
from maieutic.graders.answers import TOLERANCE, final_number
from maieutic.graders.reading import Reading, unread


def compared(gold: float, text: str, scoring: Scoring, criterion: str) -> Reading:
    """One reply's final answer. paper_compat counts what cannot be read as wrong: no published reader is known."""
    read = final_number(text)
    if read is None and scoring == "robust":
        return unread(text, "no number", criterion)
    if read is None:
        return Reading(None, False, "", "no number", criterion)
    return Reading(read[0], math.isclose(read[0], gold, rel_tol=1e-9, abs_tol=TOLERANCE), read[1], None, criterion)


def round_answers(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Each round's answer against its own reference; the later ones stand on the tutor's own earlier answers."""
    return [
        compared(float(gold), text, scoring, f"round_{number}")
        for number, (gold, text) in enumerate(zip(item.reference["answers"], texts, strict=True), 1)
    ]
