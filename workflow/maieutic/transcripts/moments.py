"""Records of conversations, with their moments: tutor turns that answer a student."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from maieutic.core.files import safe_name
from maieutic.core.speakers import STUDENT, TUTOR
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.transcripts.understanding import Conversation, Message

CHAT_ROLES = {TUTOR: "assistant", STUDENT: "user"}
SPEAKERS = {TUTOR: "Tutor", STUDENT: "Student"}
POSITIONS = ((1, "turn 1"), (3, "turns 2-3"), (6, "turns 4-6"))  # last turn of each range
LAST_POSITION = "turn 7 and later"
POSITION, TUTOR_TAG = "position", "tutor"
LONGEST_ID = 60
DATA_FILE, REPLIES_FILE = "conversations.jsonl", "replies.jsonl"  # files of the data folder
FOLDER_MARK = ".written-by-maieutic-transcripts"  # file in each data folder that `maieutic transcripts` may replace
DATASET_SUFFIX = "_transcripts"  # end of the name of a run's dataset
FIELDS = ["id", "conversation", "messages", "moments"]  # required fields of a record
# Record of a conversation: id (part of item ids), conversation (as in the user's file), problem, solution, messages
# (role and content of each), moments (id, number of its message from 0, tags) and tags of the whole conversation
Record = dict[str, Any]


def position_of(number: int) -> str:
    """Return the range of positions of a tutor's turn. number: its number among the tutor's turns, from 1."""
    return next((name for last, name in POSITIONS if number <= last), LAST_POSITION)


def conversation_key(name: str) -> str:
    """Return a conversation's id as a part of item ids: at most LONGEST_ID characters, safe in file names."""
    safe = safe_name(name)
    if safe == name and len(safe) <= LONGEST_ID:
        return safe
    return f"{safe[: LONGEST_ID - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def conversation_record(conversation: Conversation) -> Record:
    """Return the record of a conversation with all of its moments."""
    key, number = conversation_key(conversation.id), 0
    moments = []
    for place, message in enumerate(conversation.messages):
        if message.role == TUTOR:
            number += 1
            if place and conversation.messages[place - 1].role == STUDENT:
                tutor = {TUTOR_TAG: message.tutor} if message.tutor else {}
                tags = {**message.tags, **tutor, POSITION: position_of(number)}
                moments.append({"id": f"{key}-{number}", "message": place, "tags": tags})
    return {
        "id": key,
        "conversation": conversation.id,
        "problem": conversation.problem,
        "solution": conversation.solution,
        "messages": [{"role": CHAT_ROLES[part.role], "content": part.text} for part in conversation.messages],
        "moments": moments,
        "tags": common_tags(conversation.messages),
    }


def common_tags(messages: Iterable[Message]) -> dict[str, str]:
    """Return the tags, and the tutor as a tag, that have the same value at all of a conversation's tutor turns."""
    tags = [
        {**message.tags, **({TUTOR_TAG: message.tutor} if message.tutor else {})}
        for message in messages
        if message.role == TUTOR
    ]
    first, *others = tags or [{}]
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def with_moments(records: Iterable[Record], chosen: Iterable[str]) -> list[Record]:
    """Return the records that have a chosen moment, with only these moments. chosen: ids of moments."""
    kept = set(chosen)
    reduced = (
        {**record, "moments": [moment for moment in record["moments"] if moment["id"] in kept]} for record in records
    )
    return [record for record in reduced if record["moments"]]


def sample_moments(records: Sequence[Record], number: int, seed: int) -> list[str]:
    """Return the ids of a random sample of moments: one of each conversation, then a second of each, and so on.

    A larger sample contains a smaller one.
    """
    turns_of = {
        record["id"]: ranked_by_seed((moment["id"] for moment in record["moments"]), seed) for record in records
    }
    order = ranked_by_seed(turns_of, seed)
    rounds = max(map(len, turns_of.values()), default=0)
    ordered = [turns_of[name][place] for place in range(rounds) for name in order if place < len(turns_of[name])]
    return ordered[:number]


def reply_of(record: Record, moment: dict[str, Any]) -> str:
    """Return the tutor's reply at a moment."""
    return str(record["messages"][moment["message"]]["content"])


def dialogue_text(messages: Iterable[dict[str, str]]) -> str:
    """Return messages as lines `Tutor: ...` and `Student: ...`."""
    speakers = {CHAT_ROLES[role]: speaker for role, speaker in SPEAKERS.items()}
    return "\n".join(f"{speakers[message['role']]}: {message['content']}" for message in messages)


def whole_id(record: Record) -> str:
    """Return the id of the item about a whole conversation."""
    return f"whole-{record['id']}"
