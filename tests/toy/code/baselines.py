"""Trivial tutor with the same answer to every riddle."""

from maieutic.core.records import Item


def candle(item: Item) -> str:
    """Answer that the thing is a candle."""
    return "It is the candle."


TUTORS = {"candle": candle}
