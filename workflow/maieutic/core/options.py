"""The lettered options of multiple-choice problems, in a problem's text and in short answers."""

from __future__ import annotations

import re
from collections.abc import Mapping

LETTERS = "ABCDEFGH"
# "(A) 5", "A) 5", "A. 5", "A: 5", at the start of a line or after a blank.
MARK = re.compile(r"(?:^|(?<=\s))(?:\(([A-H])\)|([A-H])[.):])[ \t]+(?=\S)", re.MULTILINE)
LATEX_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\s*\{([^{}]*)\}")


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
