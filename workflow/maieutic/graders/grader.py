"""Types of the parsers that grade replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from maieutic.core.records import Item, Scoring
from maieutic.graders.reading import Reading


class GoldReplies(NamedTuple):
    """Replies that test a grader on one item, each a list of turns: one right reply and several wrong ones."""

    right: list[str]
    wrong: list[list[str]]


class Grader(NamedTuple):
    """A parser of replies, which reads the last turn (`read`) or every turn of a conversation (`read_all`).

    gold_field: key of the gold label in the item's reference, None if the grades include no gold label. descriptive:
    True if the grader describes a reply instead of checking its answer. A missing value then means "not applicable" (no
    solution to reveal); for any other grader, a reply without a readable answer counts as unanswered.

    gold_replies: function that returns, for an item, the right and wrong replies by which `maieutic check-graders`
    tests the grader; None if the task has no gold answer. version: number to increase whenever the grader reads any
    reply differently.
    """

    read: Callable[[Item, str, Scoring], list[Reading]] | None = None
    read_all: Callable[[Item, Sequence[str], Scoring], list[Reading]] | None = None
    gold_field: str | None = None
    descriptive: bool = False
    gold_replies: Callable[[Item], GoldReplies] | None = None
    version: int = 1
