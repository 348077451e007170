"""Tutors that need no server: trivial tutors, the best of which is a metric's floor, and the human reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maieutic.core.plugins import merged_plugin_tables
from maieutic.core.records import NO_REPLY, NO_REQUEST, Item, Reply, Turn, known_solution
from maieutic.replies.sentences import last_sentence

GENERIC_QUESTION = "Can you explain how you got your answer?"  # a question that fits any dialogue


def reveal_solution(item: Item) -> str | None:
    """Return a reply that states the reference solution, or None if the item has no solution ("N/A" in Bridge)."""
    solution = known_solution(str(item.reference.get("solution", item.reference["text"])).strip())
    return None if solution is None else f"The answer is: {solution}"


def human_reply(item: Item) -> str | list[str] | None:
    """Return an item's human reply, or None if the item has no human reply. A reply with several turns is a list."""
    replies = item.reference.get("replies")
    if replies:
        return [str(text) for text in replies]
    return str(item.reference["text"]) if str(item.reference["text"]).strip() else None


TUTORS: dict[str, Callable[[Item], str | list[str] | None]] = {
    "always-yes": lambda item: "Yes",
    "always-0": lambda item: "0",
    "always-ask": lambda item: GENERIC_QUESTION,
    "echo": last_sentence,
    "reveal": reveal_solution,
    "reference": human_reply,
    **merged_plugin_tables("baselines", "TUTORS"),
}


def baseline_reply(name: str, tutor: str, item: Item, turns: int) -> Reply:
    """Return a baseline tutor's reply with `turns` turns. A tutor with fewer texts repeats its last text.

    If the tutor has no text for the item, the reply has no turns and the error `NO_REPLY`, and is not judged.

    name: registry entry of the tutor; tutor: its key in `TUTORS`.
    """
    reply = TUTORS[tutor](item)
    if reply is None:
        return reply_without_request(name, item, [], NO_REPLY)
    texts = [reply] * turns if isinstance(reply, str) else [reply[min(turn, len(reply) - 1)] for turn in range(turns)]
    return reply_without_request(name, item, texts)


def reply_without_request(name: str, item: Item, texts: Sequence[str], error: str | None = None) -> Reply:
    """Return the reply of a tutor that calls no model, with one turn for each text. name: name of the tutor."""
    turns = [
        Turn(messages=NO_REQUEST, text=text, finish="stop", prompt_tokens=0, completion_tokens=0, seconds=0.0)
        for text in texts
    ]
    return Reply(id=item.id, task=item.task, tutor=name, key=NO_REQUEST, turns=turns, error=error)
