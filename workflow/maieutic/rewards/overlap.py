"""What of the benchmark a reward model has seen: the leakage rule that the paper does not have.

MathTutorBench's own rule keeps its Bridge test pairs apart from the training topics. The items that the trained model
then judges are not kept apart: some of their human replies are replies in MRBench (49 of 1,150 and 27 of 327), and more
of them share a problem with its dialogues (200 and 131).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import Item, Pair, read_items, read_records
from maieutic.serving.conversations import Message, problem_of


def bare(text: str) -> str:
    """A text without blanks, marks and case, which must not hide that two are the same (10,000 and 10000)."""
    return "".join(re.findall(r"\w+", text.casefold()))


def last_student_turn(messages: Sequence[Message]) -> str:
    """What the student said last; the first message states the problem and is not the student's."""
    return next((message["content"] for message in reversed(messages) if message["role"] == "user"), "")


def seen_replies(pairs: Sequence[Pair]) -> set[tuple[str, str]]:
    """(student's last turn, reply) of every reply in the training pairs, bare."""
    return {
        (bare(last_student_turn(pair.prompt[1:])), bare(reply))
        for pair in pairs
        if pair.tutoring
        for reply in (pair.chosen, pair.rejected)
    }


def stands_in(pair: Pair, seen: set[tuple[str, str]]) -> bool:
    """Whether a reply of a pair is among those of training pairs, after the same student turn."""
    turn = bare(last_student_turn(pair.prompt[1:]))
    return any((turn, bare(reply)) in seen for reply in (pair.chosen, pair.rejected))


def dialogue_of(pair: Pair) -> str:
    """The whole dialogue before a pair's replies, bare, without the solution: not every set tells it."""
    return bare(" ".join([problem_of(pair.prompt), *(message["content"] for message in pair.prompt[1:])]))


def seen_dialogues(pairs: Sequence[Pair]) -> set[str]:
    """The dialogues of training pairs."""
    return {dialogue_of(pair) for pair in pairs if pair.tutoring} - {""}


def leaked_items(items: Sequence[Item], pairs: Sequence[Pair]) -> list[str]:
    """The ids of items whose human reply is, word for word and after the same student turn, a reply in the pairs."""
    seen = seen_replies(pairs)
    return [
        item.id
        for item in items
        if (bare(last_student_turn(item.reference["history"])), bare(item.reference["text"])) in seen
    ]


def items_with_seen_problems(items: Sequence[Item], pairs: Sequence[Pair]) -> list[str]:
    """The ids of items whose problem is that of a training dialogue. A dialogue without a problem shares none."""
    seen = {bare(problem_of(pair.prompt)) for pair in pairs if pair.tutoring} - {""}
    return [item.id for item in items if bare(item.vars["question"]) in seen]


class FindOverlap(Job):
    """The tasks of a benchmark whose human replies and problems are looked for in training pairs."""

    tasks: list[str]


def find_overlap(*, job: FindOverlap, items: Path, pairs: Path, out: Path) -> None:
    """Write what leaks of every task: {task: {items: n, leaked: [ids], problems: [ids]}}.

    leaked: the human reply stands in the pairs; problems: the problem does. items: the folder of the benchmark's items.
    """
    known = read_records(pairs, Pair)
    overlaps = {}
    for task in job.tasks:
        cases = read_items(items, [task])
        overlaps[task] = {
            "items": len(cases),
            "leaked": leaked_items(cases, known),
            "problems": items_with_seen_problems(cases, known),
        }
    write_json(out, overlaps)
