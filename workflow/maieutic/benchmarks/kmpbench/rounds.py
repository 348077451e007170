"""The final answer of every round of a conversation (KMP-Bench FQA)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maieutic.core.options import is_choice, options_of
from maieutic.core.records import Item, Scoring
from maieutic.graders.answers import TOLERANCE, final_number
from maieutic.graders.choices import chosen_option
from maieutic.graders.reading import Reading, unread

ROUNDS = ("question", "followup_1", "followup_2")  # the variables with the rounds' problems


def compared(gold: str, problem: str, text: str, scoring: Scoring, criterion: str) -> Reading:
    """Compare a reply's final answer with the gold one: a number, or the letter of one of the problem's options.

    paper_compat counts an answer that cannot be read as wrong: no published reader is known.
    """
    if is_choice(gold):
        letter = chosen_option(text, options_of(problem))
        if letter is not None:
            return Reading(letter, letter == gold, letter, None, criterion)
    elif read := final_number(text):
        right = math.isclose(read[0], float(gold), rel_tol=1e-9, abs_tol=TOLERANCE)
        return Reading(read[0], right, read[1], None, criterion)
    why_none = "no option" if is_choice(gold) else "no number"
    if scoring == "robust":
        return unread(text, why_none, criterion)
    return Reading(None, False, "", why_none, criterion)


def round_answers(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Each round's answer against its own reference; the later ones stand on the tutor's own earlier answers."""
    return [
        compared(gold, item.vars[problem], text, scoring, f"round_{number}")
        for number, (problem, gold, text) in enumerate(zip(ROUNDS, item.reference["answers"], texts, strict=True), 1)
    ]
