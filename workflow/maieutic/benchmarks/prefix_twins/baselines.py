"""Trivial tutors that call a prefix wrong by its length or its wording, without any arithmetic."""

from __future__ import annotations

from maieutic.core.records import Item


def verdict_by(guess: str, item: Item) -> str | None:
    """Return a verdict by one of the guesses in an item's reference; None for items without such a guess."""
    guessed = item.reference.get(guess)
    return None if guessed is None else "Yes" if guessed else "No"


TUTORS = {
    "by-length": lambda item: verdict_by("by_length", item),
    "by-style": lambda item: verdict_by("by_style", item),
}
