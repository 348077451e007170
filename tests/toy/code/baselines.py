"""A tutor that says the same of every riddle."""

from maieutic.core.records import Item


def candle(item: Item) -> str:
    """The same answer to every riddle: the candle."""
    return "It is the candle."


TUTORS = {"candle": candle}
