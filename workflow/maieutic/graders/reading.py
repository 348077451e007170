"""Result type of the graders, and the clean-up of replies with which every parser of the robust scoring begins."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

MARKUP = re.compile(r"(?<!\d)\*+|\*+(?!\d)|[_`~]+|[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
VULGAR_FRACTION = re.compile(r"[¼-¾⅐-⅞↉]")
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
SUPERSCRIPT = re.compile(f"(⁻?)([{SUPERSCRIPTS}]+)")
UNIT_POWER = re.compile(r"(?<=[A-Za-z])\s?\^\s?\{?[-\u2212]?\d{1,2}\}?")
# A dash that is not a minus sign. At the start of a line it marks a list item, but at the start of the whole text only
# if a second word follows ("- 7" alone is minus seven). After a word and between spaces it is a pause.
LIST_DASH = re.compile(
    r"(?<=\n)([ \t]{0,20})[-\u2013\u2014•][ \t]+"
    r"|\A[ \t]{0,20}[-\u2013\u2014•][ \t]+(?=\S{1,20}[ \t]+[A-Za-z])"
    r"|(?<=[A-Za-z])[ \t]{1,20}[-\u2013\u2014][ \t]+(?=\S)"
)
# Patterns that ignore case match these letters as "i", which no dictionary of words contains.
DOTTED_I = str.maketrans({"İ": "I", "ı": "i"})
MAX_PASSAGE_CHARACTERS = 200  # maximum number of characters that are kept of the passage from which a value was read


class Reading(NamedTuple):
    """One value read from one reply, with the passage from which it was read (`raw`).

    If no value could be read, `value` is None, and `correct` is None, or False if the scoring counts unreadable replies
    as wrong.
    """

    value: float | int | str | bool | None
    correct: bool | None
    raw: str
    why_none: str | None = None
    criterion: str | None = None
    refused: bool = False


def unread_reply(raw: str, why: str, criterion: str | None = None, passage: str = "") -> Reading:
    """Return the reading of a reply in which no value can be read.

    why: reason, replaced by "empty reply" for a blank text; passage: passage in doubt, or "" if the whole reply is.
    """
    return Reading(
        None, None, (passage or raw)[:MAX_PASSAGE_CHARACTERS], why if raw.strip() else "empty reply", criterion
    )


def plain_notation(text: str) -> str:
    """Return a text in NFKC form, without Markdown marks, list dashes and invisible characters.

    Superscripts and one-character fractions are written out: 3½ is 3 1/2, 10² is 10^2. The exponents of units (cm²,
    m^2) are removed.
    """
    text = VULGAR_FRACTION.sub(r" \g<0>", text.translate(DOTTED_I))
    text = SUPERSCRIPT.sub(
        lambda match: "^" + "-" * len(match[1]) + "".join(str(SUPERSCRIPTS.index(sign)) for sign in match[2]), text
    )
    text = MARKUP.sub(
        "", unicodedata.normalize("NFKC", LIST_DASH.sub(lambda match: (match[1] or "") + " ", text))
    ).replace("⁄", "/")
    return UNIT_POWER.sub("", text).strip()
