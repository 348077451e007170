"""Read the option of a multiple-choice problem that a reply chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from maieutic.core.options import LATEX_TEXT, option_in, options_of
from maieutic.core.records import Scoring
from maieutic.graders.passages import BOXED
from maieutic.graders.reading import Reading, plain, unread

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


def compare_choice(gold: str, problem: str, text: str, scoring: Scoring, criterion: str | None = None) -> Reading:
    """Compare the option that a reply chooses with the gold one. gold: the letter of one of the problem's options.

    paper_compat counts a reply without a readable option as wrong.
    """
    letter = chosen_option(text, options_of(problem))
    if letter is None and scoring == "robust":
        return unread(text, "no option", criterion)
    if letter is None:
        return Reading(None, False, "", "no option", criterion)
    return Reading(letter, letter == gold, letter, None, criterion)
