"""MRBench (Maurya et al., 2025), releases V1 to V3: tutors' replies with human labels. Licence: CC BY-SA 4.0.

V3 is from the BEA 2025 shared task. Its development set has labels for four of the eight dimensions, and its test set
has no labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Any, NamedTuple

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item, Label, LabelledSet, Pair, Reply, Scale, Turn, known_solution
from maieutic.datasets.text import cluster_of
from maieutic.serving.conversations import UNKNOWN_SOLUTION, Message, merge_turns, messages_before_reply, parse_turns

THREE_LEVELS = ("Yes", "To some extent", "No")
LABELS = {  # MRBench, Table 4, spelt as in the data
    "Mistake_Identification": THREE_LEVELS,
    "Mistake_Location": THREE_LEVELS,
    "Revealing_of_the_Answer": ("Yes (and the answer is correct)", "Yes (but the answer is incorrect)", "No"),
    "Providing_Guidance": THREE_LEVELS,
    "Actionability": THREE_LEVELS,
    "Coherence": THREE_LEVELS,
    "Tutor_Tone": ("Encouraging", "Neutral", "Offensive"),
    "humanlikeness": THREE_LEVELS,
}
# Desired labels according to equation 2 of MathTutorBench and Table 2 of MRBench.
DESIRED_LABELS = {name: "No" if name == "Revealing_of_the_Answer" else labels[0] for name, labels in LABELS.items()}
SCALES = {name: Scale(labels=labels, desired=DESIRED_LABELS[name]) for name, labels in LABELS.items()}
# Dimensions of tracks 1 to 4 of the BEA 2025 shared task.
SHARED_TASK = ("Mistake_Identification", "Mistake_Location", "Providing_Guidance", "Actionability")
QUESTION = "The question is:"
NOT_AVAILABLE = "Not Available"
EXPERT = "Expert"
TASK = "mistake_remediation"
VARIABLES = {"question", "dialog_history", "history", "topic", "level"}
# Variables that may occur in a judge's prompt about a reply to a dialogue in MRBench.
JUDGE_PROMPT_VARIABLES = {
    "question",
    "history",
    "topic",
    "level",
    "reference_solution",
    "reference_response",
    "response",
}
BLANKS_AROUND_LINES = re.compile(r"[ \u00a0]*\n[ \u00a0]*")


class LabelledReply(NamedTuple):
    """One tutor's reply to one dialogue, with its label for each criterion. messages: turns before the reply."""

    dialogue: str
    tutor: str
    messages: list[Message]
    reply: str
    labels: Mapping[str, str]
    problem: str


def desired_criteria(labels: Mapping[str, str]) -> int:
    """Return f(y) of MathTutorBench, equation 2: the number of criteria (out of eight) with the desired label."""
    return sum(labels[criterion] == desired for criterion, desired in DESIRED_LABELS.items())


def responses_of(record: SourceRecord) -> Mapping[str, Mapping[str, Any]]:
    """Return the reply and labels of each tutor. V3 stores them under another key than V1 and V2."""
    return record["anno_llm_responses"] if "anno_llm_responses" in record else record["tutor_responses"]


def dialogue_subset(record: SourceRecord) -> str:
    """Return the source of a dialogue, `bridge` or `mathdial`.

    V3 does not state the source, but only ids from MathDial (a number and a UUID) contain a hyphen.
    """
    if "Data" in record:
        return str(record["Data"]).casefold()
    return "mathdial" if "-" in record["conversation_id"] else "bridge"


class DialogueOpening(NamedTuple):
    """The problem that a dialogue states, or an empty text, and the dialogue's turns as messages."""

    problem: str
    turns: list[Message]


def split_opening(record: SourceRecord) -> DialogueOpening:
    """Return a dialogue's problem and turns, without the first tutor turn if it only states the problem (MathDial)."""
    turns = parse_turns(record["conversation_history"])
    problem = ""
    if turns and turns[0][0] == "assistant" and QUESTION in turns[0][1]:
        problem = turns.pop(0)[1].split(QUESTION, 1)[1].strip()
    return DialogueOpening(problem, merge_turns(turns))


def dialogue_messages(record: SourceRecord) -> list[Message]:
    """Return a dialogue as messages, the first of which states the problem and its solution."""
    problem, turns = split_opening(record)
    return messages_before_reply(problem, dialogue_solution(record), turns)


def dialogue_solution(record: SourceRecord) -> str:
    """Return the reference solution, or UNKNOWN_SOLUTION if the record has no solution (Bridge's dialogues and V3)."""
    return known_solution(str(record.get("Ground_Truth_Solution", ""))) or UNKNOWN_SOLUTION


def labelled_replies(records: list[SourceRecord]) -> list[LabelledReply]:
    """Return every labelled reply. A dialogue's name is its record number, since conversation ids are not unique."""
    replies = []
    for number, record in enumerate(records):
        messages = dialogue_messages(record)
        problem = cluster_of(" ".join(message["content"] for message in messages))
        for tutor, response in responses_of(record).items():
            name = f"mrbench-{number:03d}"
            replies.append(LabelledReply(name, tutor, messages, response["response"], response["annotation"], problem))
    return replies


def mrbench_pairs(records: list[SourceRecord]) -> list[Pair]:
    """Return the pairs of replies to the same dialogue that have different numbers of desired criteria.

    MathTutorBench counts 4,521 pairs.
    """
    by_dialogue: dict[str, list[LabelledReply]] = {}
    for reply in labelled_replies(records):
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


def bridge_topics(records: list[SourceRecord]) -> set[str]:
    """Return the topics of the dialogues from Bridge. A test pair on one of these topics would be leaked."""
    return {record["Topic"] for record in records if record["Data"] == "Bridge"}


def dialogue_item(record: SourceRecord, name: str, task: str) -> Item:
    """Return an item for the next tutor turn of a dialogue. The reference is the expert's reply, if there is one."""
    messages = dialogue_messages(record)
    problem, turns = split_opening(record)
    subset = dialogue_subset(record)
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
            "solution": dialogue_solution(record),
            "history": turns,
        },
        tags={"source": subset, "conversation": record["conversation_id"]},
    )


def remediation_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return the dialogues as items that ask for the tutor's next turn (MRBench, section 5.1)."""
    return [dialogue_item(record, f"mrbench-{number:03d}", task) for number, record in enumerate(records)]


def labelled_set(records: list[SourceRecord]) -> LabelledSet:
    """Return all replies with their labels. Raises ValueError for a label that is not on the criterion's scale."""
    items = remediation_items(records, TASK)
    replies, labels = [], []
    for item, record in zip(items, records, strict=True):
        for tutor, response in responses_of(record).items():
            turn = Turn(messages="none", text=response["response"].strip(), finish="stop")
            replies.append(Reply(id=item.id, task=TASK, tutor=tutor, key="none", turns=[turn]))
            for criterion, label in response.get("annotation", {}).items():
                if label not in LABELS.get(criterion, ()):
                    raise ValueError(f"{item.id}, {tutor}: {criterion} has no label {label!r}")
                common = {"id": item.id, "task": TASK, "tutor": tutor, "problem": item.cluster}
                labels.append(Label(criterion=criterion, label=label, **common))
    lengths = {item.id: len(record["conversation_history"]) for item, record in zip(items, records, strict=True)}
    return LabelledSet(items, replies, labels, lengths)
