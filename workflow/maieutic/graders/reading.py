"""What a grader returns, and the clean-up that every robust parser begins with."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

MARKUP = re.compile(r"(?<!\d)\*+|\*+(?!\d)|[_`~]+|[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
KEPT = 200  # characters of the passage that a value was read from


class Reading(NamedTuple):
    """One value read from one reply. `value` and `correct` are None where nothing could be read."""

    value: float | int | str | bool | None
    correct: bool | None
    raw: str
    why_none: str | None = None
    criterion: str | None = None


def unread(raw: str, why: str, criterion: str | None = None) -> Reading:
    """No parse is no score."""
    return Reading(None, None, raw[:KEPT], why if raw.strip() else "empty reply", criterion)


def plain(text: str) -> str:
    """Text without Markdown marks, zero-width and direction marks, full-width forms folded to the usual ones."""
    return MARKUP.sub("", unicodedata.normalize("NFKC", text)).replace("\u2044", "/").strip()
