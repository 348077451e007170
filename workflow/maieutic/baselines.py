"""Tutors that need no server: the best of the trivial ones is a metric's floor, the human reference its ceiling."""

from __future__ import annotations

import re
from collections.abc import Callable

from maieutic.forms import constructed, detected
from maieutic.records import NOBODY_ASKED, Item, Reply, Turn

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def last_sentence(item: Item) -> str:
    """The problem's last sentence, or the dialogue's where there is no problem."""
    said = item.vars.get("question") or item.vars.get("dialog_history", "").rsplit(": ", 1)[-1]
    sentences = [sentence.strip() for sentence in SENTENCE_END.split(said) if sentence.strip()]
    return sentences[-1] if sentences else said


ASK = "Can you explain how you got your answer?"  # a question that fits every dialogue and none in particular


def reveal(item: Item) -> str:
    """The reference solution; where there is none, nothing but the announcement of an answer."""
    return f"The answer is: {item.reference.get('solution') or item.reference['text']}"


def student_solution(item: Item) -> str:
    """What the student wrote, uncorrected."""
    return item.vars.get("student_solution") or last_sentence(item)


def copied_seed(item: Item) -> str:
    """The problem that a new one was to be made of, as if it were new."""
    problem = item.vars.get("seed_problem") or last_sentence(item)
    return constructed(problem, item.vars.get("seed_solution", ""))


def reference(item: Item) -> str | list[str]:
    """What a person said; in a conversation of several turns, in each of them."""
    replies = item.reference.get("replies")
    return [str(text) for text in replies] if replies else str(item.reference["text"])


def criteria(item: Item) -> str:
    """What the item's own criteria ask for, recited: a tutor that knows the rubric and says nothing else."""
    wanted = [one for one in item.reference.get("criteria", {}).values() if one["weight"] > 0]
    return "\n".join(one["definition"] for one in wanted) or last_sentence(item)


TUTORS: dict[str, Callable[[Item], str | list[str]]] = {
    "always-yes": lambda item: "Yes",
    "always-0": lambda item: "0",
    "always-ask": lambda item: ASK,
    "finds-nothing": lambda item: [detected(True, 0), student_solution(item)],
    "blames-step-1": lambda item: [detected(False, 1, "This step is wrong."), student_solution(item)],
    "copy-seed": copied_seed,
    "echo": last_sentence,
    "reveal": reveal,
    "reference": reference,
    "recites-criteria": criteria,
}


OF_A_REPLY = {"reference", "reveal"}  # which say nothing of an item without a person's reply or solution


def baseline_reply(name: str, tutor: str, item: Item, turns: int) -> Reply:
    """What a trivial tutor says in every turn; where it has said all that it has, the last again."""
    said = TUTORS[tutor](item)
    texts = [said] * turns if isinstance(said, str) else [said[min(turn, len(said) - 1)] for turn in range(turns)]
    of_turns = [
        Turn(messages=NOBODY_ASKED, text=text, finish="stop", prompt_tokens=0, completion_tokens=0, seconds=0.0)
        for text in texts
    ]
    return Reply(id=item.id, task=item.task, model=name, key=NOBODY_ASKED, turns=of_turns)
