"""Find where a reply goes on with turns that are not the tutor's: marks of a chat template, or the next question."""

from __future__ import annotations

import re
from collections.abc import Callable

from maieutic.graders.words import words

# Marks with which chat templates end a turn or begin one.
TEMPLATE_MARK = re.compile(
    r"<\|(?:im_end|im_start|eot_id|user|assistant|endoftext|start_header_id|end_of_turn)\|>"
    r"|</?(?:end_of_turn|start_of_turn)>|</s>|\[/?INST\]"
)
SPEAKER_LINE = re.compile(
    (
        r"^[^\w\n]{0,6}(?:"
        + words("human|user|student|teacher|tutor|question|problem|assistant|instruction|q")
        + r")(?:(?:\s+\d+)?\W{0,3}:|\s+\d+\.(?=\s))"
    ),
    re.IGNORECASE | re.MULTILINE,
)
FINAL_MARK = re.compile(
    r"####|\bfinal\s+\w+\s*:|\banswer\s*(?::|is\b)|^\W*a:|\\boxed|\bstep[^:\n]{0,10}:|(?:^|[.]\s)(?:so|therefore|thus)\b",
    re.IGNORECASE | re.MULTILINE,
)


def own_turn(text: str, states_value: Callable[[str], bool]) -> str:
    """Return a reply without the turns that the model invented after its answer.

    A mark of a chat template ends the reply if a value stands before it. A line of a speaker ("Student:") does so only
    if a second one or a new final mark follows, because tutors write such lines too. states_value: function that
    returns True if a text states a value.
    """
    speakers = list(SPEAKER_LINE.finditer(text))
    soft = [
        line.start()
        for place, line in enumerate(speakers)
        if place + 1 < len(speakers) or FINAL_MARK.search(text, line.end()) or TEMPLATE_MARK.search(text, line.end())
    ]
    hard = [
        mark.start() for mark in TEMPLATE_MARK.finditer(text) if mark[0] != "</s>" or "<s>" not in text[: mark.start()]
    ]
    for end in sorted({*soft, *hard})[:MOST_ENDS]:
        if text[:end].strip() and states_value(text[:end]):
            return text[:end]
    return text


def has_foreign_turn(text: str) -> bool:
    """Return True if a reply goes on after a mark of a chat template, or with two lines of speakers or more."""
    marks = [
        mark
        for mark in TEMPLATE_MARK.finditer(text)
        if text[: mark.start()].strip() and re.search(r"\w", text[mark.end() :])
    ]
    return bool(marks) or sum(1 for line in SPEAKER_LINE.finditer(text) if text[: line.start()].strip()) > 1


MOST_ENDS = 8  # maximum number of places that are tried as the end of the tutor's turn
