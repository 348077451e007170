"""The word lists of MRBench's own toolkit: aitutor-assessmentkit 0.1.8 (MIT), its evaluators without a language model.

Quoted as they are: a reply that holds one of the texts anywhere, in small letters, scores 1, else 0. The list for
revealing is the one for location there too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from maieutic.core.records import Item

IDENTIFIES = ("remember", "try", "think", "like", "look", "see", "take", "actually")
LOCATES = ("remember", "think", "actually", "mistake", "cost", "times")
ACTS = ("?",)
LISTS = {
    "Mistake_Identification": IDENTIFIES,
    "Mistake_Location": LOCATES,
    "Revealing_of_the_Answer": LOCATES,
    "Actionability": ACTS,
}
CHEERS = ("recheck", "good", "great")
FEWEST_WORDS, MOST_WORDS = 3, 40


def holds(texts: tuple[str, ...], item: Item, reply: str) -> bool:
    """Whether a reply holds one of some texts."""
    lower = reply.lower()
    return any(text in lower for text in texts)


def sounds_human(item: Item, reply: str) -> float:
    """The toolkit's rule for human-likeness: 0.5 for a bare cheer, for more than 40 words and for the word tutor."""
    words = len(reply.lower().strip().split())
    if holds(CHEERS, item, reply) and words <= FEWEST_WORDS:
        return 0.5
    return 0.5 if "tutor" in reply.lower() or words > MOST_WORDS else 1.0


MEASURES: dict[str, Callable[[Item, str], float]] = {
    **{name: partial(holds, texts) for name, texts in LISTS.items()},
    "humanlikeness": sounds_human,
}
