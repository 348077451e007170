"""Parser that compares the final answer of each round of a conversation with its reference (KMP-Bench FQA)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maieutic.core.options import is_option_letter
from maieutic.core.records import Item, Scoring
from maieutic.graders.answers import TOLERANCE, read_answer, why_unread
from maieutic.graders.choices import grade_choice
from maieutic.graders.reading import Reading, unread_reply

ROUNDS = ("question", "followup_1", "followup_2")  # item variables that contain the problem of each round


def compare_final_answer(gold: str, problem: str, text: str, scoring: Scoring, criterion: str) -> Reading:
    """Compare a reply's final answer with the gold answer, which is either a number or an option's letter.

    paper_compat counts an unreadable answer as wrong. This is an assumption, because the paper publishes no parser.
    """
    if is_option_letter(gold):
        return grade_choice(gold, problem, text, scoring, criterion)
    final = read_answer(text, problem)
    if final.value is None and scoring == "robust":
        return unread_reply(text, why_unread(str(final.why_none)), criterion, final.text)
    if final.value is None:
        return Reading(None, False, "", "no number", criterion)
    right = math.isclose(final.value, float(gold), rel_tol=1e-9, abs_tol=TOLERANCE)
    return Reading(final.value, right, final.text, None, criterion)


def grade_rounds(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Compare the answer of each round with its reference. Later rounds build on the tutor's own earlier answers."""
    return [
        compare_final_answer(gold, item.vars[problem], text, scoring, f"round_{number}")
        for number, (problem, gold, text) in enumerate(zip(ROUNDS, item.reference["answers"], texts, strict=True), 1)
    ]
