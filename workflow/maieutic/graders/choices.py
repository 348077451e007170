"""Read the options of a multiple-choice problem, and the option that a reply chooses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from maieutic.graders.passages import BOXED
from maieutic.graders.reading import plain

LETTERS = "ABCDEFGH"
# "(A) 5", "A) 5", "A. 5", "A: 5", at the start of a line or after a blank.
MARK = re.compile(r"(?:^|(?<=\s))(?:\(([A-H])\)|([A-H])[.):])[ \t]+(?=\S)", re.MULTILINE)
LATEX_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\s*\{([^{}]*)\}")
LETTER = r"\W{0,4}?(?:([A-H])(?![\w'\u2019])|\(([a-h])\))"  # a bare "a" is an article
STATED = re.compile(
    rf"\b(?i:answer(?:\s+is)?\s*[:=]?(?:\W{{1,4}}(?:option|choice))?|(?:option|choice)(?:\s+is)?)\b{LETTER}"
)
ALONE = re.compile(r"\W{0,4}([A-H])(?:\W{0,4}$|[.):]+\s.*$)")


def options_of(problem: str) -> dict[str, str]:
    """Return the options of a problem by their letters; empty for a problem without at least two lettered options.

    Of several runs of letters the last one that starts at A counts. An option ends where the next one starts, the last
    one at the end of its line.
    """
    options: dict[str, str] = {}
    marks = list(MARK.finditer(problem))
    for place, mark in enumerate(marks):
        letter = mark[1] or mark[2]
        if letter == "A":
            options = {}
        if letter != LETTERS[len(options)]:
            continue
        end = marks[place + 1].start() if place + 1 < len(marks) else len(problem)
        options[letter] = in_plain_words(problem[mark.end() : end].strip().split("\n")[0])
    return options if len(options) > 1 else {}


def is_choice(answer: str) -> bool:
    """Whether an answer is the letter of an option instead of a number."""
    return len(answer) == 1 and answer in LETTERS


def in_plain_words(text: str) -> str:
    """Return a text without LaTeX's text commands, dollar signs, case, and marks at its ends."""
    return " ".join(LATEX_TEXT.sub(r"\1", text).replace("$", "").casefold().split()).strip(" .,;:*()[]{}")


def option_in(text: str, options: Mapping[str, str]) -> str | None:
    """Return the letter that a short text consists of or starts with, or whose option it repeats; None for neither."""
    words = in_plain_words(text)
    if words.upper() in options:
        return words.upper()
    start = re.match(r"([a-h])[.):]", words)
    if start and start[1].upper() in options:
        return start[1].upper()
    same = [letter for letter, option in options.items() if option == words]
    return same[0] if len(same) == 1 else None


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
