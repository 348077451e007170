"""What a floor of graders says of a reply by a list of words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from maieutic.core.records import Item

WORD = re.compile(r"[a-z0-9]{3,}")


class Heuristic(NamedTuple):
    """Whether a reply gets the first label of a criterion's scale; otherwise: the place of the label instead."""

    holds: Callable[[Item, str], bool]
    otherwise: int = -1


def words(text: str) -> set[str]:
    """The words and numbers of a text."""
    return set(WORD.findall(text.casefold()))
