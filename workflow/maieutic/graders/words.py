"""Patterns for alternatives of words, written without regular expressions."""

from __future__ import annotations

import re

NOTATION = {" ": r"\s+", "(": "(?:", "_": r"\w+", "*": r"\w*", "#": r"\d+", "…": r"[^.;:\n]{0,60}"}


def words(text: str) -> str:
    """Return a pattern for alternatives of words, separated by "|".

    A blank stands for any whitespace, "_" for a word, "*" for any further letters, "#" for digits, "…" for up to 60
    characters of the same clause, and "?" makes the letter or the group in brackets before it optional:
    "not (at )?all|never".
    """
    return "".join(NOTATION.get(character, character) for character in text)


def phrases(text: str) -> re.Pattern[str]:
    """Return the compiled pattern for whole words and phrases in the notation of `words`. Case is ignored."""
    return re.compile(rf"\b(?:{words(text)})\b", re.IGNORECASE)


BLANKS = re.compile(r"[^\S\n]+")


def one_blank(text: str) -> str:
    """Return a text in which each run of blanks within a line is one blank."""
    return BLANKS.sub(" ", text)


def without(pattern: re.Pattern[str], text: str) -> str:
    """Return a text without the matches of a pattern, and with single blanks."""
    return one_blank(pattern.sub(" ", text))
