"""Verdicts of one word or one number: yes or no, the step of the first mistake."""

from __future__ import annotations

import re

from maieutic.core.records import Item, Scoring
from maieutic.graders.reading import KEPT, Reading, unread
from maieutic.graders.steps import read_step
from maieutic.graders.yes_no import read_yes_no


def released_yes_no(text: str) -> bool:
    """Q5: `yes` anywhere, else `no` anywhere (also in `know`), else True."""
    lowered = text.strip().lower()
    return "yes" in lowered or "no" not in lowered


def yes_no(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Solution correctness (MathTutorBench task 3): Yes means that the student's solution is incorrect."""
    gold = bool(item.reference["incorrect"])
    if scoring == "paper_compat":
        value = released_yes_no(text)
        return [Reading(value, value == gold, "yes" if value else "no")]
    read = read_yes_no(text)
    return [Reading(read[0], read[0] == gold, read[1]) if read else unread(text, "no single yes or no")]


def released_step(text: str) -> int:
    """Q4: the first integer anywhere, else 0. Raises ValueError where `int`, and so the released code, does."""
    match = re.search(r"\d+", text)
    return int(match.group()) if match else 0


def step(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Mistake location (MathTutorBench task 4): the first wrong step, 0 for none."""
    gold = int(item.reference["step"])
    if scoring == "paper_compat":
        try:
            value = released_step(text)
        except ValueError:
            return [Reading(None, None, "", "the released code fails: a number of more than 4,300 digits")]
        return [Reading(value, value == gold, str(value)[:KEPT])]
    read = read_step(text)
    return [Reading(read[0], read[0] == gold, read[1]) if read else unread(text, "no single step number")]
