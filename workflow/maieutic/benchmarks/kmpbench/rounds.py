"""The final answer of every round of a conversation (KMP-Bench FQA)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maieutic.core.options import is_choice
from maieutic.core.records import Item, Scoring
from maieutic.graders.answers import TOLERANCE, final_number
from maieutic.graders.choices import compare_choice
from maieutic.graders.reading import Reading, unread

ROUNDS = ("question", "followup_1", "followup_2")  # the variables with the rounds' problems


def compared(gold: str, problem: str, text: str, scoring: Scoring, criterion: str) -> Reading:
    """Compare a reply's final answer with the gold one: a number, or the letter of one of the problem's options.

    paper_compat counts an answer that cannot be read as wrong: no published reader is known.
    """
    if is_choice(gold):
        return compare_choice(gold, problem, text, scoring, criterion)
    read = final_number(text)
    if read is None and scoring == "robust":
        return unread(text, "no number", criterion)
    if read is None:
        return Reading(None, False, "", "no number", criterion)
    right = math.isclose(read[0], float(gold), rel_tol=1e-9, abs_tol=TOLERANCE)
    return Reading(read[0], right, read[1], None, criterion)


def round_answers(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Each round's answer against its own reference; the later ones stand on the tutor's own earlier answers."""
    return [
        compared(gold, item.vars[problem], text, scoring, f"round_{number}")
        for number, (problem, gold, text) in enumerate(zip(ROUNDS, item.reference["answers"], texts, strict=True), 1)
    ]
