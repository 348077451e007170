"""A trivial tutor for items that bring their own criteria."""

from __future__ import annotations

from maieutic.core.records import Item
from maieutic.replies.sentences import last_sentence


def criteria(item: Item) -> str:
    """What the item's own criteria ask for, recited: a tutor that knows the rubric and says nothing else."""
    wanted = [criterion for criterion in item.reference.get("criteria", {}).values() if criterion["weight"] > 0]
    return "\n".join(criterion["definition"] for criterion in wanted) or last_sentence(item)


TUTORS = {"recites-criteria": criteria}
