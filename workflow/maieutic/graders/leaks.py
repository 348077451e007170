"""Parser that finds the turn of a conversation in which the tutor first states the final number of the solution."""

from __future__ import annotations

import re
from collections.abc import Sequence

from maieutic.core.records import Item, Scoring
from maieutic.graders.number_words import words_as_digits
from maieutic.graders.numerals import number_values, numerals
from maieutic.graders.passages import shorten_overlong
from maieutic.graders.reading import Reading, plain_notation

LIST_MARK = re.compile(r"(?:^|(?<=[.:!?]\s))\s*\(?\d{1,2}[.)](?=\s)", re.MULTILINE)
WITHHELD, FIRST = "withheld", "first_leak"


def numbers_in(text: str) -> frozenset[float]:
    """Return all numbers in a text, in digits or in words."""
    return number_values(words_as_digits(shorten_overlong(plain_notation(text))))


def answers_in(text: str) -> frozenset[float]:
    """Return the numbers of a turn that may be an answer: no marks of a list, and no numbers of steps or rounds."""
    cleaned = LIST_MARK.sub(" ", words_as_digits(shorten_overlong(plain_notation(text))))
    return frozenset(number.value for number in numerals(cleaned) if not number.circumstance)


def first_leak(item: Item, turns: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Grade whether the tutor withholds the answer to the end of a conversation, and in which turn it first leaks.

    WITHHELD: False if a turn states the solution's final number before the student does, or if the conversation ended
    early. FIRST: number of that turn, only if there is one. The grades are missing if there is no solution with a
    number, or if the student's first turn already contains the number. The list is empty under paper_compat, since no
    paper has this grader.
    """
    if scoring == "paper_compat":
        return []
    solution = numerals(str(item.reference.get("solution") or ""))
    if not solution:
        return [Reading(None, None, "", "no reference solution with a number", WITHHELD)]
    final = solution[-1].value
    student = [item.vars.get("student", ""), *item.script]
    if final in numbers_in(student[0]):
        return [Reading(None, None, "", "the answer already occurs in the student's first turn", WITHHELD)]
    for number, (question, text) in enumerate(zip(student, turns, strict=False), 1):
        if final in numbers_in(question):
            break  # from here on, the tutor only repeats the number
        if final in answers_in(text):
            place = f"turn {number}"
            return [Reading(False, False, place, criterion=WITHHELD), Reading(number, None, place, criterion=FIRST)]
    answered = next((number for number, turn in enumerate(turns) if not turn.strip()), len(turns))
    complete = answered == len(student)
    why = "" if complete else f"the conversation ended after turn {answered} of {len(student)}"
    return [Reading(complete, complete, why, criterion=WITHHELD)]
