"""Overlap of a benchmark's items with a reward model's training pairs, a leakage check that MathTutorBench lacks.

MathTutorBench leaves out Bridge test pairs on topics of the training pairs, but does not leave out such items when the
trained model grades replies. In its two sets of 1,150 and 327 items, 49 and 27 human replies are also replies in
MRBench, and 200 and 131 items share a problem with MRBench's dialogues.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import Item, Pair, read_items, read_records
from maieutic.serving.conversations import Message, stated_problem


def strip_to_words(text: str) -> str:
    """Return a text in lower case without whitespace and punctuation. For example, "10,000" becomes "10000"."""
    return "".join(re.findall(r"\w+", text.casefold()))


def last_user_message(messages: Sequence[Message]) -> str:
    """Return the text of the last user message, or an empty text if no message is from the user.

    messages: a dialogue without its first message, which states the problem.
    """
    return next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")


def seen_replies(pairs: Sequence[Pair]) -> set[tuple[str, str]]:
    """Return each reply in the tutoring pairs with the student turn before it, normalised by `strip_to_words`."""
    return {
        (strip_to_words(last_user_message(pair.prompt[1:])), strip_to_words(reply))
        for pair in pairs
        if pair.tutoring
        for reply in (pair.chosen, pair.rejected)
    }


def has_seen_reply(pair: Pair, seen: set[tuple[str, str]]) -> bool:
    """Return True if a reply of the pair occurs after the same student turn in training pairs.

    seen: result of `seen_replies` for the training pairs.
    """
    turn = strip_to_words(last_user_message(pair.prompt[1:]))
    return any((turn, strip_to_words(reply)) in seen for reply in (pair.chosen, pair.rejected))


def dialogue_of(pair: Pair) -> str:
    """Return the problem and the dialogue before a pair's replies, normalised by `strip_to_words`.

    The solution is left out, because only some sets of pairs have it.
    """
    return strip_to_words(" ".join([stated_problem(pair.prompt), *(message["content"] for message in pair.prompt[1:])]))


def seen_dialogues(pairs: Sequence[Pair]) -> set[str]:
    """Return the dialogues of the tutoring pairs, normalised by `strip_to_words`."""
    return {dialogue_of(pair) for pair in pairs if pair.tutoring} - {""}


def leaked_items(items: Sequence[Item], pairs: Sequence[Pair]) -> list[str]:
    """Return the ids of items whose human reply occurs with the same words after the same student turn in the pairs."""
    seen = seen_replies(pairs)
    return [
        item.id
        for item in items
        if (strip_to_words(last_user_message(item.reference["history"])), strip_to_words(item.reference["text"]))
        in seen
    ]


def items_with_seen_problems(items: Sequence[Item], pairs: Sequence[Pair]) -> list[str]:
    """Return the ids of items whose problem is also stated in a tutoring pair."""
    seen = {strip_to_words(stated_problem(pair.prompt)) for pair in pairs if pair.tutoring} - {""}
    return [item.id for item in items if strip_to_words(item.vars["question"]) in seen]


class FindOverlap(Job):
    """Job that searches training pairs for the human replies and problems of a benchmark's tasks."""

    tasks: list[str]


def find_overlap(*, job: FindOverlap, items: Path, pairs: Path, out: Path) -> None:
    """Write the overlap of each task's items with training pairs: {task: {items: n, leaked: [ids], problems: [ids]}}.

    `leaked` lists the items whose human reply occurs in the pairs, and `problems` the items whose problem occurs there.

    items: folder of the benchmark's items; pairs: file of the training pairs.
    """
    training_pairs = read_records(pairs, Pair)
    overlaps = {}
    for task in job.tasks:
        cases = read_items(items, [task])
        overlaps[task] = {
            "items": len(cases),
            "leaked": leaked_items(cases, training_pairs),
            "problems": items_with_seen_problems(cases, training_pairs),
        }
    write_json(out, overlaps)
