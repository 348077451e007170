"""Replace personal details in transcripts by a stated set of patterns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

FEWEST_LETTERS = 2  # minimum length of a part of a name that is replaced by itself
# First names that are also common words. They are replaced only where case matches.
NAMES_AND_WORDS = (
    "an art april august bill bob chance dean do drew faith frank grace hope jack joy june ken lee mark max may min "
    "pat rain ray rob rose sue summer tom will ye"
)
COMMON_WORDS = frozenset(NAMES_AND_WORDS.split())


class Pattern(NamedTuple):
    """A pattern of personal details. sign: replacement; what: description for messages and the page."""

    sign: str
    what: str
    regex: re.Pattern[str]


# Applied in this order, so that a number in an address or a phone number is not replaced on its own.
PATTERNS = (
    Pattern("[MAIL]", "mail addresses", re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")),
    Pattern("[LINK]", "web addresses", re.compile(r"\b(?:https?://|www\.)\S+", re.IGNORECASE)),
    Pattern(
        "[ADDRESS]",
        "street addresses",
        re.compile(
            r"\b\d{1,5}[a-z]?[ ,]+(?:[A-Z][\w.'-]{1,30} ){1,4}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr"
            r"|Boulevard|Blvd|Court|Ct|Square|Sq|Place|Pl|Way|Terrace)\b\.?"
            r"|\b[A-Z\u00c4\u00d6\u00dc][\w\u00e4\u00f6\u00fc\u00df-]{1,40}(?:stra\u00dfe|strasse|str\.|weg|platz|allee)"
            r" ?\d{1,4}[a-z]?\b"
        ),
    ),
    Pattern(
        "[PHONE]",
        "phone numbers",
        re.compile(
            r"(?<![\w.])\+\d{1,3}(?:[ .()/-]{0,2}\d){6,13}(?!\w)"
            r"|(?<![\w.])\(\d{2,5}\) ?\d{2,4}(?:[ .-]?\d{2,4}){1,3}(?!\w)"
            r"|(?<![\w.-])\d{3}[ .-]\d{3}[ .-]\d{4}(?!\w)"
            r"|(?<![\w.,])(?<!\d )0[1-9]\d{0,3}[ /-]\d{2,4}[ -]\d{2,5}(?:[ -]\d{2,4})?(?!\w)"
            r"|(?<![\w.,])0[1-9]\d{1,3}/\d{4,8}(?!\w)"
        ),
    ),
    Pattern(
        "[NUMBER]",
        "numbers of ten or more digits",
        re.compile(r"(?<![\w.,])(?:\d{10,}|\d{4}(?:[ -]\d{4}){2,4})(?!\w)(?![.,]\d)"),
    ),
)
NAME_SIGN = "[NAME]"


class Redactor:
    """Redacts texts and counts the replacements. names: names of people, replaced as whole words."""

    def __init__(self, names: Iterable[str]) -> None:
        self.counts: Counter[str] = Counter()
        self.names = name_pattern(list(names))

    def text(self, text: str) -> str:
        """Return a text with signs in place of personal details."""
        for pattern in PATTERNS:
            text, number = pattern.regex.subn(pattern.sign, text)
            self.counts[pattern.what] += number
        if self.names is not None:
            text, number = self.names.subn(NAME_SIGN, text)
            self.counts["names from the name columns"] += number
        return text


def name_pattern(names: Sequence[str]) -> re.Pattern[str] | None:
    """Return the pattern of names and of their parts, the longest first; None without names.

    Case is ignored, because students often write names in lower case, except for names that are also common words.
    """
    words = {part for name in names for part in (name.strip(), *name.split()) if len(part) >= FEWEST_LETTERS}
    if not words:
        return None
    ordered = sorted(words, key=lambda word: (-len(word), word))
    parts = (re.escape(word) if word.casefold() in COMMON_WORDS else f"(?i:{re.escape(word)})" for word in ordered)
    return re.compile(r"(?<!\w)(?:" + "|".join(parts) + r")(?!\w)")
