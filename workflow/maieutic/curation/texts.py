"""Texts as a curation compares and writes them: words in any script, numbered steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The words of a text in any script, without case."""
    return WORD.findall(text.casefold())


def numbered(steps: Sequence[str]) -> str:
    """Steps a line each, numbered as in Figure 11."""
    return "\n".join(f"Step {number}: {step}" for number, step in enumerate(steps, 1))
