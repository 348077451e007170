"""Trivial tutor for items that define their own criteria."""

from __future__ import annotations

from maieutic.core.records import Item
from maieutic.replies.sentences import last_sentence


def recite_criteria(item: Item) -> str:
    """Return a reply that recites the item's criteria with a positive weight."""
    rewarded = [criterion for criterion in item.reference.get("criteria", {}).values() if criterion["weight"] > 0]
    return "\n".join(criterion["definition"] for criterion in rewarded) or last_sentence(item)


TUTORS = {"recites-criteria": recite_criteria}
