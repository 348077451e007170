"""Aggregation of several annotators' labels of one reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from maieutic.core.records import Label


def cell_is_yes(value: object) -> bool:
    """Return True if a table cell means yes."""
    return str(value or "").strip().casefold() in {"yes", "true", "1"}


def aggregate_votes(votes: Sequence[Label]) -> str | None:
    """Return the aggregated label of one reply under one criterion, or None if the annotators are divided.

    A unanimous label is kept. Otherwise, the most frequent label counts: among the resolvers (annotators who settle
    disagreements) if there are any, or else among all annotators.
    """
    annotators = {vote.label for vote in votes if not vote.resolves}
    if len(annotators) == 1:
        return annotators.pop()
    counts = Counter(vote.label for vote in [vote for vote in votes if vote.resolves] or votes)
    best = [label for label, count in counts.items() if count == max(counts.values())]
    return best[0] if len(best) == 1 else None


def aggregate_labels(votes: Sequence[Label]) -> Label | None:
    """Return the annotators' aggregated label as a record without an annotator, or None if they are divided."""
    label = aggregate_votes(votes)
    if label is None:
        return None
    return votes[0].model_copy(update={"label": label, "annotator": None, "resolves": False})
