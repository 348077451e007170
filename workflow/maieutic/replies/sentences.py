"""Replies of trivial tutors: the last sentence of an item, or the student's solution."""

from __future__ import annotations

import re

from maieutic.core.records import Item

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def last_sentence(item: Item) -> str:
    """Return the last sentence of the problem, else of the student's first turn, else of the dialogue."""
    text = (
        item.vars.get("question") or item.vars.get("student") or item.vars.get("dialog_history", "").rsplit(": ", 1)[-1]
    )
    sentences = [sentence.strip() for sentence in SENTENCE_END.split(text) if sentence.strip()]
    return sentences[-1] if sentences else text


def student_solution(item: Item) -> str:
    """Return the student's solution without corrections, or the last sentence if the item has no solution."""
    return item.vars.get("student_solution") or last_sentence(item)
