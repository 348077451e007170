"""Word lists of MRBench's toolkit (aitutor-assessmentkit 0.1.8, MIT), from its evaluators without a language model.

The lists are quoted unchanged. A reply scores 1 if its lower-cased text contains a phrase of the list, else 0. As in
the toolkit, the list for mistake location is also used to detect that the answer is revealed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from maieutic.core.records import Item

IDENTIFIES = ("remember", "try", "think", "like", "look", "see", "take", "actually")
LOCATES = ("remember", "think", "actually", "mistake", "cost", "times")
ACTS = ("?",)
TOOLKIT_WORDS = {
    "Mistake_Identification": IDENTIFIES,
    "Mistake_Location": LOCATES,
    "Revealing_of_the_Answer": LOCATES,
    "Actionability": ACTS,
}
CHEERS = ("recheck", "good", "great")
FEWEST_WORDS, MOST_WORDS = 3, 40


def contains_any(texts: tuple[str, ...], item: Item, reply: str) -> bool:
    """Return True if a reply contains one of the texts, ignoring case."""
    lower = reply.lower()
    return any(text in lower for text in texts)


def sounds_human(item: Item, reply: str) -> float:
    """Score human-likeness by the toolkit's rule.

    A reply that is only a cheer, contains "tutor" or has more than 40 words scores 0.5; other replies score 1.
    """
    words = len(reply.lower().strip().split())
    if contains_any(CHEERS, item, reply) and words <= FEWEST_WORDS:
        return 0.5
    return 0.5 if "tutor" in reply.lower() or words > MOST_WORDS else 1.0


MEASURES: dict[str, Callable[[Item, str], float]] = {
    **{name: partial(contains_any, texts) for name, texts in TOOLKIT_WORDS.items()},
    "humanlikeness": sounds_human,
}
