"""Text helpers of a curation: case folding of words in any script, and numbering of steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

WORD = re.compile(r"[^\W_]+")


def folded_words(text: str) -> list[str]:
    """Return the case-folded words of a text in any script."""
    return WORD.findall(text.casefold())


def numbered_steps(steps: Sequence[str]) -> str:
    """Return steps as text, with one numbered step per line, as in KMP-Bench's Figure 11."""
    return "\n".join(f"Step {number}: {step}" for number, step in enumerate(steps, 1))
