"""Parser of replies to riddles."""

from __future__ import annotations

from maieutic.core.records import Item, Scoring
from maieutic.graders.grader import Grader
from maieutic.graders.reading import Reading


def named(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Grade a reply as correct if it contains the thing's name, in both scorings."""
    if not text.strip():
        return [Reading(None, None, text, "empty reply")]
    right = item.reference["thing"].casefold() in text.casefold()
    return [Reading(right, right, text[:40])]


GRADERS = {"thing_named": Grader(named)}
