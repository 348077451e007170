"""Read the option of a multiple-choice problem that a reply chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from maieutic.core.options import LATEX_TEXT, option_in
from maieutic.graders.passages import BOXED
from maieutic.graders.reading import plain

LETTER = r"\W{0,4}?(?:([A-H])(?![\w'\u2019])|\(([a-h])\))"  # a bare "a" is an article
STATED = re.compile(
    rf"\b(?i:answer(?:\s+is)?\s*[:=]?(?:\W{{1,4}}(?:option|choice))?|(?:option|choice)(?:\s+is)?)\b{LETTER}"
)
ALONE = re.compile(r"\W{0,4}([A-H])(?:\W{0,4}$|[.):]+\s.*$)")


def chosen_option(text: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the option that a reply chooses; None where it chooses none that exists.

    The last box decides; without a box the last "the answer is B" or "option B", without that a last line that is or
    starts with a letter. options: of the problem, by letter.
    """
    text = LATEX_TEXT.sub(r"\1", plain(text))
    boxes = BOXED.findall(text)
    if boxes:
        return option_in(boxes[-1], options)
    stated = STATED.findall(text)
    if stated:
        letter = "".join(stated[-1]).upper()
        return letter if letter in options else None
    lines = [line for line in text.splitlines() if line.strip()]
    alone = ALONE.match(lines[-1]) if lines else None
    return alone[1] if alone and alone[1] in options else None
