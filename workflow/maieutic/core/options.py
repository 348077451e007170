"""Lettered options of multiple-choice problems: parsers of problem texts and of short answers."""

from __future__ import annotations

import re
from collections.abc import Mapping

LETTERS = "ABCDEFGH"
# Mark of an option, as in "(A) 5", "A) 5", "A. 5" or "A: 5", at the start of a line or after a blank.
MARK = re.compile(r"(?:^|(?<=\s))(?:\(([A-H])\)|([A-H])[.):])[ \t]+(?=\S)", re.MULTILINE)
LATEX_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\s*\{([^{}]*)\}")


def options_of(problem: str) -> dict[str, str]:
    """Return the text of each option of a problem by letter; empty for fewer than two lettered options.

    If the problem has several lists of options, the last list that starts at A counts. An option ends where the next
    one starts, or at the end of its line.
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
        options[letter] = plain_option_text(problem[mark.end() : end].strip().split("\n")[0])
    return options if len(options) > 1 else {}


def is_option_letter(answer: str) -> bool:
    """Return True if an answer is an option's letter rather than a number."""
    return len(answer) == 1 and answer in LETTERS


def plain_option_text(text: str) -> str:
    """Return a text in lower case, without LaTeX text commands, dollar signs and punctuation at either end."""
    return " ".join(LATEX_TEXT.sub(r"\1", text).replace("$", "").casefold().split()).strip(" .,;:*()[]{}")


def match_option(text: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the option that a short text names by letter or repeats in full; None if no option fits."""
    words = plain_option_text(text)
    if words.upper() in options:
        return words.upper()
    start = re.match(r"([a-h])[.):]", words)
    if start and start[1].upper() in options:
        return start[1].upper()
    same = [letter for letter, option in options.items() if option == words]
    return same[0] if len(same) == 1 else None
