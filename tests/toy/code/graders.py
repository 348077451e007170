"""Whether a riddle is solved."""

from __future__ import annotations

from maieutic.core.records import Item, Scoring
from maieutic.graders.grader import Grader
from maieutic.graders.reading import Reading


def named(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Whether the thing is named, in either reading."""
    if not text.strip():
        return [Reading(None, None, text, "nothing was said")]
    right = item.reference["thing"].casefold() in text.casefold()
    return [Reading(right, right, text[:40])]


GRADERS = {"thing_named": Grader(named)}
