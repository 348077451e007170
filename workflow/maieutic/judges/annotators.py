"""Several people on one reply: what they say together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from maieutic.core.records import Label


def yes(value: object) -> bool:
    """Whether a cell says yes."""
    return str(value or "").strip().casefold() in {"yes", "true", "1"}


def joined(votes: Sequence[Label]) -> str | None:
    """What people say of one reply under one criterion; None if divided.

    What all say stands; where they differ, the resolver's word, else that of most of them.
    """
    annotators = {vote.label for vote in votes if not vote.resolves}
    if len(annotators) == 1:
        return annotators.pop()
    counts = Counter(vote.label for vote in [vote for vote in votes if vote.resolves] or votes)
    best = [name for name, count in counts.items() if count == max(counts.values())]
    return best[0] if len(best) == 1 else None


def agreed(votes: Sequence[Label]) -> Label | None:
    """What people say together as one label of nobody's; None where they are divided."""
    label = joined(votes)
    if label is None:
        return None
    return votes[0].model_copy(update={"label": label, "annotator": None, "resolves": False})
