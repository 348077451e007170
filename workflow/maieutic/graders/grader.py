"""Types of the parsers that grade replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from maieutic.core.records import Item, Scoring
from maieutic.graders.reading import Reading


class GoldReplies(NamedTuple):
    """Replies that test a grader on one item: a right reply and one or more wrong ones. Each is a list of turns."""

    right: list[str]
    wrong: list[list[str]]


class Grader(NamedTuple):
    """Parser of replies.

    read: function that reads the last turn of a reply. read_all: function that reads every turn of a conversation; a
    grader has one of the two. gold_field: key of the gold label in the item's reference, or None if the grades
    include no gold label. descriptive: True if the grader describes a reply instead of checking its answer. A missing
    value then means "not applicable" (for example, there is no solution to reveal). For any other grader, it means
    that the reply has no readable answer. reads_passage: True if the value is stated in one passage of the reply, which
    the report then highlights.

    question: what a model is asked that reads the replies which the grader does not understand (`run.reader`), or None.

    gold_replies: function that returns the right and wrong replies to an item, with which `maieutic check-graders`
    tests the grader, or None if the task has no gold answer. version: number that must be increased whenever the
    grader reads any reply differently.
    """

    read: Callable[[Item, str, Scoring], list[Reading]] | None = None
    read_all: Callable[[Item, Sequence[str], Scoring], list[Reading]] | None = None
    gold_field: str | None = None
    descriptive: bool = False
    reads_passage: bool = False
    gold_replies: Callable[[Item], GoldReplies] | None = None
    question: str | None = None
    version: int = 1
