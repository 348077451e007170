"""Types of the parsers that grade replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from maieutic.core.records import Item, Scoring
from maieutic.graders.reading import Reading


class GoldReplies(NamedTuple):
    """Replies for testing a grader on an item, each as its turns: one right reply, and several wrong ones."""

    right: list[str]
    wrong: list[list[str]]


class Grader(NamedTuple):
    """A function that reads a reply: its last turn (`read`), or every turn of a conversation (`read_all`).

    gold: the field of an item's reference that holds the gold label; describing: it describes a reply, so that what it
    leaves open (no solution to reveal) does not apply. What any other parser cannot read is an answer that the tutor
    did not give.

    gold_replies: replies with an item's gold answer and with wrong ones, with which `maieutic check-graders` tests the
    grader; None where the rule has no gold answer; version: raised whenever the grader reads some reply otherwise.
    """

    read: Callable[[Item, str, Scoring], list[Reading]] | None = None
    read_all: Callable[[Item, Sequence[str], Scoring], list[Reading]] | None = None
    gold: str | None = None
    describing: bool = False
    gold_replies: Callable[[Item], GoldReplies] | None = None
    version: int = 1
