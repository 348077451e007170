"""What a grader returns, and the clean-up that every robust parser begins with."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

MARKUP = re.compile(r"(?<!\d)\*+|\*+(?!\d)|[_`~]+|[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
VULGAR_FRACTION = re.compile(r"[\u00bc-\u00be\u2150-\u215e\u2189]")
SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
SUPERSCRIPT = re.compile(f"(\u207b?)([{SUPERSCRIPTS}]+)")
UNIT_POWER = re.compile(r"(?<=[A-Za-z])\s?\^\s?\{?[-\u2212]?\d{1,2}\}?")
# A list mark: the dash of a further line, or of the first one with words after its number ("- 7" is minus seven); or a
# pause: a dash between blanks after a word.
LIST_DASH = re.compile(
    r"(?<=\n)([ \t]{0,20})[-\u2013\u2014\u2022][ \t]+"
    r"|\A[ \t]{0,20}[-\u2013\u2014\u2022][ \t]+(?=\S{1,20}[ \t]+[A-Za-z])"
    r"|(?<=[A-Za-z])[ \t]{1,20}[-\u2013\u2014][ \t]+(?=\S)"
)
KEPT = 200  # characters of the passage that a value was read from


class Reading(NamedTuple):
    """One value read from one reply. `value` and `correct` are None where nothing could be read."""

    value: float | int | str | bool | None
    correct: bool | None
    raw: str
    why_none: str | None = None
    criterion: str | None = None
    refused: bool = False


def unread(raw: str, why: str, criterion: str | None = None) -> Reading:
    """No parse is no score."""
    return Reading(None, None, raw[:KEPT], why if raw.strip() else "empty reply", criterion)


def plain(text: str) -> str:
    """Text without Markdown marks, zero-width and direction marks, full-width forms folded to the usual ones.

    Powers and fractions of one sign become several: 3½ is 3 1/2, 10² is 10^2; the exponent of a unit (cm², m^2) goes.
    """
    text = VULGAR_FRACTION.sub(r" \g<0>", text)
    text = SUPERSCRIPT.sub(
        lambda match: "^" + "-" * len(match[1]) + "".join(str(SUPERSCRIPTS.index(sign)) for sign in match[2]), text
    )
    text = MARKUP.sub(
        "", unicodedata.normalize("NFKC", LIST_DASH.sub(lambda match: (match[1] or "") + " ", text))
    ).replace("\u2044", "/")
    return UNIT_POWER.sub("", text).strip()
