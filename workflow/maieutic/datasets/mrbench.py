"""MRBench (Maurya et al., 2025), release V1: replies of eight tutors with human labels. Licence CC BY-SA 4.0."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

from maieutic.conversations import UNKNOWN_SOLUTION, Message, dialogue, merged, parse_turns
from maieutic.datasets.sources import Source
from maieutic.datasets.text import cluster_of
from maieutic.records import Pair

DESIRED = {  # MathTutorBench, equation 2; MRBench, Table 2
    "Mistake_Identification": "Yes",
    "Mistake_Location": "Yes",
    "Revealing_of_the_Answer": "No",
    "Providing_Guidance": "Yes",
    "Actionability": "Yes",
    "Coherence": "Yes",
    "Tutor_Tone": "Encouraging",
    "humanlikeness": "Yes",
}
QUESTION = "The question is:"
NOT_AVAILABLE = "Not Available"


class Labelled(NamedTuple):
    """One tutor's reply to one dialogue with its labels."""

    dialogue: str
    tutor: str
    messages: list[Message]
    reply: str
    labels: Mapping[str, str]
    problem: str


def desired_criteria(labels: Mapping[str, str]) -> int:
    """f(y) of MathTutorBench, equation 2: how many of the eight criteria have the desired label."""
    return sum(labels[criterion] == wanted for criterion, wanted in DESIRED.items())


def messages_of(record: Source) -> list[Message]:
    """A dialogue as messages. In MathDial's the first tutor turn states the problem: it moves to the task's message."""
    turns = parse_turns(record["conversation_history"])
    problem = ""
    if turns and turns[0][0] == "assistant" and QUESTION in turns[0][1]:
        problem = turns.pop(0)[1].split(QUESTION, 1)[1].strip()
    solution = record["Ground_Truth_Solution"]
    return dialogue(problem, UNKNOWN_SOLUTION if solution == NOT_AVAILABLE else solution, merged(turns))


def labelled(records: list[Source]) -> list[Labelled]:
    """Every labelled reply. Two records may share a conversation id, so the record's number names the dialogue."""
    found = []
    for number, record in enumerate(records):
        messages = messages_of(record)
        problem = cluster_of(" ".join(message["content"] for message in messages))
        for tutor, given in record["anno_llm_responses"].items():
            name = f"mrbench-{number:03d}"
            found.append(Labelled(name, tutor, messages, given["response"], given["annotation"], problem))
    return found


def preferences(records: list[Source]) -> list[Pair]:
    """All pairs of replies to one dialogue with different counts of desired criteria: 4,521 (MathTutorBench)."""
    by_dialogue: dict[str, list[Labelled]] = {}
    for one in labelled(records):
        by_dialogue.setdefault(one.dialogue, []).append(one)
    pairs = []
    for name, replies in by_dialogue.items():
        for first, second in combinations(replies, 2):
            margin = desired_criteria(first.labels) - desired_criteria(second.labels)
            if margin == 0:
                continue
            better, worse = (first, second) if margin > 0 else (second, first)
            pairs.append(
                Pair(
                    id=f"{name}-{better.tutor}-{worse.tutor}",
                    source="mrbench",
                    problem=first.problem,
                    prompt=first.messages,
                    chosen=better.reply.strip(),
                    rejected=worse.reply.strip(),
                    margin=abs(margin),
                )
            )
    return pairs


def bridge_topics(records: list[Source]) -> set[str]:
    """The topics of the dialogues that come from Bridge: test pairs on one of them would be leaked."""
    return {record["Topic"] for record in records if record["Data"] == "Bridge"}
