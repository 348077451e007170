"""Rules based on word lists, used as baselines for graders."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from maieutic.core.records import Item

WORD = re.compile(r"[a-z0-9]{3,}")


class Heuristic(NamedTuple):
    """A rule for one criterion.

    matches: function that returns True if a reply has the first label of the scale; otherwise: index of the label of
    all other replies.
    """

    matches: Callable[[Item, str], bool]
    otherwise: int = -1


def word_set(text: str) -> set[str]:
    """Return the casefolded words and numbers in a text that have at least three characters."""
    return set(WORD.findall(text.casefold()))
