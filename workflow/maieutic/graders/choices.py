"""Read which option of a multiple-choice problem a reply chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from maieutic.core.options import LATEX_TEXT, match_option, options_of
from maieutic.core.records import Scoring
from maieutic.graders.passages import BOXED
from maieutic.graders.reading import Reading, plain_notation, unread_reply

# Lower-case letters count only in brackets, because a bare "a" is usually an article.
LETTER = r"\W{0,4}?(?:([A-H])(?![\w'\u2019])|\(([a-h])\))"
STATED_OPTION = re.compile(
    rf"\b(?i:answer(?:\s+is)?\s*[:=]?(?:\W{{1,4}}(?:option|choice))?|(?:option|choice)(?:\s+is)?)\b{LETTER}"
)
OPTION_LINE = re.compile(r"\W{0,4}([A-H])(?:\W{0,4}$|[.):]+\s.*$)")


def chosen_option(text: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the option that a reply chooses, or None if it chooses none of the problem's options.

    The last LaTeX box decides; without a box, the last "the answer is B" or "option B"; without either, the last line
    if it is a letter or starts with one. options: texts of the problem's options by letter.
    """
    text = LATEX_TEXT.sub(r"\1", plain_notation(text))
    boxes = BOXED.findall(text)
    if boxes:
        return match_option(boxes[-1], options)
    stated = STATED_OPTION.findall(text)
    if stated:
        letter = "".join(stated[-1]).upper()
        return letter if letter in options else None
    lines = [line for line in text.splitlines() if line.strip()]
    alone = OPTION_LINE.match(lines[-1]) if lines else None
    return alone[1] if alone and alone[1] in options else None


def grade_choice(gold: str, problem: str, text: str, scoring: Scoring, criterion: str | None = None) -> Reading:
    """Grade a reply by whether it chooses the gold option. Under paper_compat an unreadable reply is wrong.

    gold: letter of one of the problem's options; problem: text that contains the options; criterion: name of the grade.
    """
    letter = chosen_option(text, options_of(problem))
    if letter is None and scoring == "robust":
        return unread_reply(text, "no option", criterion)
    if letter is None:
        return Reading(None, False, "", "no option", criterion)
    return Reading(letter, letter == gold, letter, None, criterion)
