"""Records of simulated conversations and of claims, and the starting points of conversations in a task's items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from maieutic.core.records import Item, Record
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.graders.leaks import numbers_in
from maieutic.graders.numerals import numerals
from maieutic.serving.conversations import Message

WORK = ("student_chat_solution", "student_solution")  # item variables with a student's wrong solution
SOLUTIONS = ("solution", "answer")  # fields of an item's reference with its solution
CANNOT_START = "its items have neither a student's wrong solution nor a dialogue that ends with the student"


class Start(NamedTuple):
    """Starting point of a conversation.

    dialogue: messages before the tutor's first turn, the last of them by the student (`user`); attempt: the student's
    own work, empty if the dialogue contains it; answer: final number of the solution.
    """

    item: Item
    question: str
    dialogue: list[Message]
    attempt: str
    answer: float


def start_of(item: Item) -> Start | None:
    """Return the starting point of an item's conversation.

    Returns None if the item has no problem, no student's words or no numeric answer, or if the student already states
    the answer. A solution that counts as right is therefore no starting point.
    """
    question = item.vars.get("question", "")
    solution = next((str(item.reference[name]) for name in SOLUTIONS if item.reference.get(name)), "")
    numbers = numerals(solution)
    if not question or not numbers:
        return None
    history: Sequence[Message] = item.history or item.reference.get("history") or []
    work = next((item.vars[name] for name in WORK if item.vars.get(name)), "")
    dialogue = [dict(message) for message in history if message["content"].strip()]
    if message := item.vars.get("message", "").strip():  # the student's last words in a moment of a transcript
        dialogue.append({"role": "user", "content": message})
    if not dialogue or dialogue[-1]["role"] != "user":
        if not work:
            return None
        dialogue = [{"role": "user", "content": f"This is how I solved it:\n{work}"}]
    answer = numbers[-1].value
    student = " ".join(message["content"] for message in dialogue if message["role"] == "user")
    if answer in numbers_in(student) or answer in numbers_in(question):
        return None
    return Start(item, question, dialogue, work, answer)


def starts_of(items: Iterable[Item], limit: int, seed: int) -> list[Start]:
    """Return the starting points of at most `limit` items, drawn at random. A larger limit includes a smaller one."""
    starts = {start.item.id: start for item in items if not item.repeat and (start := start_of(item))}
    chosen = set(ranked_by_seed(starts, seed)[:limit])
    return [start for name, start in starts.items() if name in chosen]


class SimulatedTurn(Record):
    """A turn of the tutor, and the turn of the simulated student that follows it, None after the last one."""

    tutor: str
    tutor_key: str
    student: str | None = None
    student_key: str | None = None


class SimulatedConversation(Record):
    """One conversation of a tutor with a simulated student.

    cluster: problem of the item; answer: final number of the solution; leak: number of the tutor's turn that first
    states the answer before the student does, or None; resolved: number of the tutor's turns before the
    student first states the answer, or None; ended: reason why the conversation ended early;
    ended_by: side whose empty or refused turn ended it; refused: True if the turn was refused.
    """

    IDENTITY = ("tutor", "id")

    id: str
    tutor: str
    cluster: str
    answer: float
    turns: list[SimulatedTurn]
    leak: int | None = None
    resolved: int | None = None
    ended: str | None = None
    ended_by: Literal["tutor", "student"] | None = None
    refused: bool = False


class ClaimAnswer(Record):
    """The simulated student's answer to a claim about a problem's answer.

    agrees: None if the answer contains no single yes or no, or was refused.
    """

    IDENTITY = ("id", "kind")

    id: str
    cluster: str
    kind: Literal["right", "wrong"]
    claim: float
    agrees: bool | None
    text: str
    key: str
