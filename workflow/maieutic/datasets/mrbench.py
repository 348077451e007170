"""MRBench (Maurya et al., 2025), releases V1 to V3: tutors' replies with human labels. Licence CC BY-SA 4.0.

V3 is the BEA 2025 shared task's: its development set has four of the eight dimensions, its test set none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

from maieutic.config.datasets import Source
from maieutic.core.records import Item, Label, LabelledSet, Pair, Reply, Scale, Turn, known_solution
from maieutic.datasets.text import cluster_of
from maieutic.serving.conversations import UNKNOWN_SOLUTION, Message, dialogue, merged, parse_turns

THREE = ("Yes", "To some extent", "No")
LABELS = {  # MRBench, Table 4, spelt as in the data
    "Mistake_Identification": THREE,
    "Mistake_Location": THREE,
    "Revealing_of_the_Answer": ("Yes (and the answer is correct)", "Yes (but the answer is incorrect)", "No"),
    "Providing_Guidance": THREE,
    "Actionability": THREE,
    "Coherence": THREE,
    "Tutor_Tone": ("Encouraging", "Neutral", "Offensive"),
    "humanlikeness": THREE,
}
# MathTutorBench, equation 2; MRBench, Table 2
DESIRED = {name: "No" if name == "Revealing_of_the_Answer" else labels[0] for name, labels in LABELS.items()}
SCALES = {name: Scale(labels=labels, desired=DESIRED[name]) for name, labels in LABELS.items()}
SHARED_TASK = (
    "Mistake_Identification",
    "Mistake_Location",
    "Providing_Guidance",
    "Actionability",
)  # BEA 2025, tracks 1 to 4
QUESTION = "The question is:"
NOT_AVAILABLE = "Not Available"
EXPERT = "Expert"
TASK = "mistake_remediation"
VARIABLES = {"question", "dialog_history", "history", "topic", "level"}
# What a judge of such a reply is given besides the reply.
JUDGED = {"question", "history", "topic", "level", "reference_solution", "reference_response", "response"}
BLANKS_AROUND_LINES = re.compile(r"[ \u00a0]*\n[ \u00a0]*")


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


def responses_of(record: Source) -> Mapping[str, Mapping[str, Any]]:
    """The tutors' replies with their labels, under the key of V1 and V2 or that of V3."""
    return record["anno_llm_responses"] if "anno_llm_responses" in record else record["tutor_responses"]


def subset_of(record: Source) -> str:
    """bridge or mathdial. V3 does not say; a MathDial id is a number, a hyphen and a UUID, a Bridge id a number."""
    if "Data" in record:
        return str(record["Data"]).casefold()
    return "mathdial" if "-" in record["conversation_id"] else "bridge"


class Opening(NamedTuple):
    """The problem of a dialogue (empty where it states none), and the turns as messages."""

    problem: str
    turns: list[Message]


def opening_of(record: Source) -> Opening:
    """In MathDial's dialogues the first tutor turn states the problem: it is no turn."""
    turns = parse_turns(record["conversation_history"])
    problem = ""
    if turns and turns[0][0] == "assistant" and QUESTION in turns[0][1]:
        problem = turns.pop(0)[1].split(QUESTION, 1)[1].strip()
    return Opening(problem, merged(turns))


def messages_of(record: Source) -> list[Message]:
    """A dialogue as messages, the problem and its solution first."""
    problem, turns = opening_of(record)
    return dialogue(problem, solution_of(record), turns)


def solution_of(record: Source) -> str:
    """The reference solution, which Bridge's dialogues and V3 do not have."""
    return known_solution(str(record.get("Ground_Truth_Solution", ""))) or UNKNOWN_SOLUTION


def labelled(records: list[Source]) -> list[Labelled]:
    """Every labelled reply. Two records may share a conversation id, so the record's number names the dialogue."""
    replies = []
    for number, record in enumerate(records):
        messages = messages_of(record)
        problem = cluster_of(" ".join(message["content"] for message in messages))
        for tutor, response in responses_of(record).items():
            name = f"mrbench-{number:03d}"
            replies.append(Labelled(name, tutor, messages, response["response"], response["annotation"], problem))
    return replies


def preferences(records: list[Source]) -> list[Pair]:
    """All pairs of replies to one dialogue with different counts of desired criteria: 4,521 (MathTutorBench)."""
    by_dialogue: dict[str, list[Labelled]] = {}
    for reply in labelled(records):
        by_dialogue.setdefault(reply.dialogue, []).append(reply)
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


def item_of(record: Source, name: str, task: str) -> Item:
    """One dialogue whose next turn is a tutor's. The reference is the expert's reply, where there is one."""
    messages = messages_of(record)
    problem, turns = opening_of(record)
    subset = subset_of(record)
    topic = record.get("Topic", NOT_AVAILABLE)
    return Item(
        id=name,
        task=task,
        cluster=cluster_of(" ".join(message["content"] for message in messages)),
        vars={
            "question": problem,
            "dialog_history": "\n".join(
                f"{'Teacher' if turn['role'] == 'assistant' else 'Student'}: {turn['content']}" for turn in turns
            ),
            "history": BLANKS_AROUND_LINES.sub("\n", record["conversation_history"]).replace("\u00a0", " ").strip(),
            "topic": "" if topic == NOT_AVAILABLE else topic,
            "level": "elementary" if subset == "bridge" else "middle",
        },
        reference={
            "text": responses_of(record).get(EXPERT, {}).get("response", "").strip(),
            "solution": solution_of(record),
            "history": turns,
        },
        tags={"source": subset, "conversation": record["conversation_id"]},
    )


def remediation(records: list[Source], task: str) -> list[Item]:
    """The dialogues as items: what should the tutor say next? (MRBench, section 5.1)."""
    return [item_of(record, f"mrbench-{number:03d}", task) for number, record in enumerate(records)]


def labelled_set(records: list[Source]) -> LabelledSet:
    """All replies with their labels. Raises ValueError for a label that the taxonomy does not have."""
    items = remediation(records, TASK)
    replies, labels = [], []
    for item, record in zip(items, records, strict=True):
        for tutor, response in responses_of(record).items():
            turn = Turn(messages="none", text=response["response"].strip(), finish="stop")
            replies.append(Reply(id=item.id, task=TASK, tutor=tutor, key="none", turns=[turn]))
            for criterion, label in response.get("annotation", {}).items():
                if label not in LABELS.get(criterion, ()):
                    raise ValueError(f"{item.id}, {tutor}: no such label {criterion}: {label!r}")
                common = {"id": item.id, "task": TASK, "tutor": tutor, "problem": item.cluster}
                labels.append(Label(criterion=criterion, label=label, **common))
    lengths = {item.id: len(record["conversation_history"]) for item, record in zip(items, records, strict=True)}
    return LabelledSet(items, replies, labels, lengths)
