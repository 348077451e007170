"""Graders of one-word and one-number answers: yes or no, and the step of the first mistake."""

from __future__ import annotations

import re

from maieutic.core.records import Item, Scoring
from maieutic.graders.reading import MAX_PASSAGE_CHARACTERS, Reading, unread_reply
from maieutic.graders.steps import read_step, steps_shown
from maieutic.graders.yes_no import read_yes_no


def released_yes_no(text: str) -> bool:
    """Parse a reply as the released code does: False if it has `no` (even in `know`) but not `yes`, otherwise True."""
    lowered = text.strip().lower()
    return "yes" in lowered or "no" not in lowered


def grade_yes_no(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Grade solution correctness (MathTutorBench task 3). "Yes" means that the student's solution is incorrect."""
    gold = bool(item.reference["incorrect"])
    if scoring == "paper_compat":
        value = released_yes_no(text)
        return [Reading(value, value == gold, "yes" if value else "no")]
    verdict = read_yes_no(text, steps_shown(item.vars))
    if verdict.value is None:
        return [unread_reply(text, str(verdict.reason), passage=verdict.passage)]
    return [Reading(verdict.value, verdict.value == gold, verdict.passage[:MAX_PASSAGE_CHARACTERS])]


def released_step(text: str) -> int:
    """Return the first integer of a reply, or 0 without one, as the released code does.

    Raises ValueError if the integer has more than 4,300 digits.
    """
    match = re.search(r"\d+", text)
    return int(match.group()) if match else 0


def grade_step(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Grade mistake location (MathTutorBench task 4). The answer is the first wrong step, or 0 for no mistake."""
    gold = int(item.reference["step"])
    if scoring == "paper_compat":
        try:
            value = released_step(text)
        except ValueError:
            return [Reading(None, None, "", "the released code fails: a number of more than 4,300 digits")]
        return [Reading(value, value == gold, str(value)[:MAX_PASSAGE_CHARACTERS])]
    answer = read_step(text, steps_shown(item.vars))
    if answer.value is None:
        return [unread_reply(text, str(answer.reason), passage=answer.passage)]
    return [Reading(answer.value, answer.value == gold, answer.passage[:MAX_PASSAGE_CHARACTERS])]
