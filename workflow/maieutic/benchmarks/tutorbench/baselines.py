"""Trivial tutor for items with their own criteria."""

from __future__ import annotations

from maieutic.core.records import Item
from maieutic.replies.sentences import last_sentence


def recite_criteria(item: Item) -> str:
    """Return the item's criteria with a positive weight, as the reply of a tutor that knows only the rubric."""
    rewarded = [criterion for criterion in item.reference.get("criteria", {}).values() if criterion["weight"] > 0]
    return "\n".join(criterion["definition"] for criterion in rewarded) or last_sentence(item)


TUTORS = {"recites-criteria": recite_criteria}
