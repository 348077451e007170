"""MathDial (Macina et al., 2023): teachers with simulated students, turns labelled by intent. Licence CC BY-SA 4.0."""

from __future__ import annotations

import re

from maieutic.config.datasets import Source
from maieutic.core.records import Pair
from maieutic.datasets.text import cluster_of
from maieutic.serving.conversations import Message, dialogue, merged

TURN_MARK = "|EOM|"
INTENT = re.compile(r"^\((generic|focus|probing|telling)\)")
PREFERRED = {"focus", "probing"}
FIRST_TURNS = 3  # MathTutorBench, Table 2: "in the first 3 teacher turns"


def turns_of(conversation: str) -> list[tuple[str, str, str]]:
    """(role, intent, text) of every turn; a student goes by a first name."""
    turns = []
    for part in conversation.split(TURN_MARK):
        speaker, _, text = part.strip().partition(": ")
        teacher = speaker.strip() == "Teacher"
        intent = INTENT.match(text) if teacher else None
        content = text[intent.end() :] if intent else text
        turns.append(("assistant" if teacher else "user", intent[1] if intent else "", content))
    return turns


def speeches(conversation: str) -> list[tuple[Message, str]]:
    """Neighbouring turns of one speaker as one, with the first one's intent."""
    turns: list[tuple[Message, str]] = []
    for role, intent, text in turns_of(conversation):
        if turns and turns[-1][0]["role"] == role:
            before, first = turns.pop()
            turns.append((merged([(role, before["content"]), (role, text)])[0], first))
        elif text.strip():
            turns.append(({"role": role, "content": text.strip()}, intent))
    return turns


def preferences(records: list[Source]) -> list[Pair]:
    """A teacher's probing or focus turn over the reference solution, among the first three teacher turns.

    The paper counts 3,615 on the train split and prints no more of the rule; on the test split this reading gives 928
    pairs with 2.93 turns of history on average, the paper's average.
    """
    pairs = []
    for number, record in enumerate(records):
        history: list[Message] = []
        teacher_turns = 0
        for message, intent in speeches(record["conversation"]):
            if message["role"] == "assistant":
                teacher_turns += 1
                if history and intent in PREFERRED and teacher_turns <= FIRST_TURNS:
                    pairs.append(
                        Pair(
                            id=f"mathdial-{number:04d}-{len(history)}",
                            source="mathdial",
                            problem=cluster_of(record["question"]),
                            prompt=dialogue(record["question"], record["ground_truth"], history),
                            chosen=message["content"],
                            rejected=record["ground_truth"].strip(),
                            margin=1.0,
                        )
                    )
            history = [*history, message]
    return pairs
