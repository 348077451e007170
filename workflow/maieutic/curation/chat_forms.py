"""Formats of the conversations in public chat data, recognised by their fields and converted to chat messages.

The fields are quoted from the data sets' cards (README.md of their hub repositories). These conversions were never run
on the real files.

- `messages`, a list of `role` and `content`: this project, and HuggingFaceH4/ultrachat_200k.
- UltraChat (stingning/ultrachat): "a json dict containing the data id and dialogue data in a list format", in `data`;
  the user begins.
- WildChat (allenai/WildChat-1M): `conversation`, a list with `content`, `role` and more; `turn: int64`.
- MathChat_sync (github.com/Zhenwen-NLP/MathChat, without a card): `conversations`, a list of `from` and `value`.
- TutorChat (princeton-nlp/TutorChat): `conversation: sequence: string`, `mode: string`. The roles are those of
  tokenization/tokenize_tutorchat.py in github.com/princeton-nlp/LM-Science-Tutor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Chat = list[dict[str, str]]
SHARE_GPT_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
SINGLE_TURN_ROLES = {"STUDENT": "user", "QUESTION": "user", "TEACHER": "assistant", "ANSWER": "assistant"}
SINGLE_TURN_PART = re.compile(rf"^\W*({'|'.join(SINGLE_TURN_ROLES)})\s*:\s*", re.MULTILINE)
FEWEST_EXCHANGES = 2  # WildChat: "multi-turned" (KMP-Bench, section 4.1)


class UnsuitableChatError(ValueError):
    """A conversation in a known format that is no example, such as one with a single exchange. Its text is why."""


def chat_of(record: Mapping[str, Any]) -> Chat | None:
    """Return the messages of a record in one of the formats, or None if it is in none of them.

    Raises UnsuitableChatError for a conversation that is no example.
    """
    conversation = record.get("conversation")
    if is_list_of(record.get("data"), str):
        return alternating(record["data"], ("user", "assistant"))
    if is_list_of(record.get("conversations"), Mapping):
        return [share_gpt_message(entry) for entry in record["conversations"]]
    if isinstance(conversation, list) and is_list_of(conversation, str) and "mode" in record:
        return tutor_chat(conversation, str(record["mode"]))
    if isinstance(conversation, list) and is_list_of(conversation, Mapping):
        return wild_chat(conversation, record.get("turn"))
    return None


def is_list_of(value: object, kind: type) -> bool:
    """Return True if a value is a non-empty list of objects of one type."""
    return isinstance(value, list) and bool(value) and all(isinstance(entry, kind) for entry in value)


def alternating(texts: Sequence[str], roles: Sequence[str]) -> Chat:
    """Return messages whose roles alternate. roles: roles of the first and of the second message."""
    return [{"role": roles[number % len(roles)], "content": text} for number, text in enumerate(texts)]


def share_gpt_message(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return a message in the ShareGPT format. Raises UnsuitableChatError for an unknown speaker."""
    speaker, text = str(entry.get("from")), entry.get("value")
    if speaker not in SHARE_GPT_ROLES or not isinstance(text, str):
        raise UnsuitableChatError("unknown speaker")
    return {"role": SHARE_GPT_ROLES[speaker], "content": text}


def wild_chat(conversation: Sequence[Mapping[str, Any]], exchanges: object) -> Chat:
    """Return the roles and texts of a WildChat conversation, without its data on users' addresses and browsers.

    exchanges: number of exchanges of user and assistant, `turn` in the record.
    """
    if isinstance(exchanges, int) and exchanges < FEWEST_EXCHANGES:
        raise UnsuitableChatError("a single exchange")
    messages = [{"role": str(entry.get("role")), "content": str(entry.get("content") or "")} for entry in conversation]
    if not all(message["content"].strip() for message in messages):
        raise UnsuitableChatError("an empty message")
    return messages


def tutor_chat(texts: Sequence[str], mode: str) -> Chat:
    """Return the messages of a TutorChat conversation.

    mode: `openbook` (the first text is a textbook chapter, then student and tutor alternate), `closedbook` (the tutor
    begins) or `singleturn` (the last text holds a question and its answer).
    """
    if mode == "openbook":
        return [{"role": "system", "content": texts[0]}, *alternating(texts[1:], ("user", "assistant"))]
    if mode == "closedbook":
        return alternating(texts, ("assistant", "user"))
    if mode != "singleturn":
        raise UnsuitableChatError(f"unknown mode {mode[:40]!r}")
    _, *parts = SINGLE_TURN_PART.split(texts[-1])
    messages = [
        {"role": SINGLE_TURN_ROLES[speaker], "content": text.strip()}
        for speaker, text in zip(parts[::2], parts[1::2], strict=True)
    ]
    if [message["role"] for message in messages] not in (["user", "assistant"], ["assistant", "user"]):
        raise UnsuitableChatError("not a question and its answer")
    return messages
