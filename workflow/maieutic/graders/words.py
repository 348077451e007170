"""Patterns for alternatives of words, written without regular expressions."""

from __future__ import annotations

NOTATION = {" ": r"\s+", "(": "(?:", "_": r"\w+", "*": r"\w*"}


def words(text: str) -> str:
    """Return a pattern for alternatives of words, separated by "|".

    A blank stands for any whitespace, "_" for a word, "*" for any further letters, and "?" makes the letter or the
    group in brackets before it optional: "not (at )?all|never".
    """
    return "".join(NOTATION.get(character, character) for character in text)
