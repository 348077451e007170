"""Tutors that need no server: the best of the trivial ones is a metric's floor, the human reference its ceiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maieutic.core.plugins import merged
from maieutic.core.records import NO_REPLY, NOBODY_ASKED, Item, Reply, Turn, known_solution
from maieutic.replies.sentences import last_sentence

ASK = "Can you explain how you got your answer?"  # a question that fits every dialogue and none in particular


def reveal(item: Item) -> str | None:
    """Return the reference solution, or None for an item whose data have none (Bridge: "N/A")."""
    solution = known_solution(str(item.reference.get("solution", item.reference["text"])).strip())
    return None if solution is None else f"The answer is: {solution}"


def reference(item: Item) -> str | list[str] | None:
    """Return the human reply, of each turn in a conversation of several; None for an item without one."""
    replies = item.reference.get("replies")
    if replies:
        return [str(text) for text in replies]
    return str(item.reference["text"]) if str(item.reference["text"]).strip() else None


TUTORS: dict[str, Callable[[Item], str | list[str] | None]] = {
    "always-yes": lambda item: "Yes",
    "always-0": lambda item: "0",
    "always-ask": lambda item: ASK,
    "echo": last_sentence,
    "reveal": reveal,
    "reference": reference,
    **merged("baselines", "TUTORS"),
}


OF_A_REPLY = {"reference", "reveal"}  # tutors that have no reply to an item without a human one or a solution


def baseline_reply(name: str, tutor: str, item: Item, turns: int) -> Reply:
    """Return a trivial tutor's reply of so many turns, its last text repeated where it has fewer.

    An item for which it has no text is missing (error `NO_REPLY`), and no judge is asked about it.
    """
    reply = TUTORS[tutor](item)
    if reply is None:
        return reply_of(name, item, [], NO_REPLY)
    texts = [reply] * turns if isinstance(reply, str) else [reply[min(turn, len(reply) - 1)] for turn in range(turns)]
    return reply_of(name, item, texts)


def reply_of(name: str, item: Item, texts: Sequence[str], error: str | None = None) -> Reply:
    """Return the reply with these texts as its turns, for which no model was asked. name: the tutor's."""
    turns = [
        Turn(messages=NOBODY_ASKED, text=text, finish="stop", prompt_tokens=0, completion_tokens=0, seconds=0.0)
        for text in texts
    ]
    return Reply(id=item.id, task=item.task, tutor=name, key=NOBODY_ASKED, turns=turns, error=error)
