"""What trivial tutors say of any item: its last sentence, or what the student wrote."""

from __future__ import annotations

import re

from maieutic.core.records import Item

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def last_sentence(item: Item) -> str:
    """The problem's last sentence, or the dialogue's where there is no problem."""
    text = item.vars.get("question") or item.vars.get("dialog_history", "").rsplit(": ", 1)[-1]
    sentences = [sentence.strip() for sentence in SENTENCE_END.split(text) if sentence.strip()]
    return sentences[-1] if sentences else text


def student_solution(item: Item) -> str:
    """What the student wrote, uncorrected."""
    return item.vars.get("student_solution") or last_sentence(item)
