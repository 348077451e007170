"""Training examples of a fine-tuned tutor: chats mixed from several sources, without evaluation problems.

Conversations in public chat data are recognised by their fields, which are quoted from the data sets' cards (README.md
of their hub repositories). These conversions were never run on the real files.

- `messages`, a list of `role` and `content`: this project, and HuggingFaceH4/ultrachat_200k.
- UltraChat (stingning/ultrachat): "a json dict containing the data id and dialogue data in a list format", in `data`;
  the user begins.
- WildChat (allenai/WildChat-1M): `conversation`, a list with `content`, `role` and more; `turn: int64`.
- MathChat_sync (github.com/Zhenwen-NLP/MathChat, without a card): `conversations`, a list of `from` and `value`.
- TutorChat (princeton-nlp/TutorChat): `conversation: sequence: string`, `mode: string`. The roles are those of
  tokenization/tokenize_tutorchat.py in github.com/princeton-nlp/LM-Science-Tutor.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maieutic.config.datasets import FileFormat
from maieutic.core.errors import UserError
from maieutic.core.files import read_json_lines, write_json, write_json_lines
from maieutic.core.jobs import Job
from maieutic.curation.records import Dialogue
from maieutic.curation.sets import chat_record, drop_leaks
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.datasets.sources import read_source

log = logging.getLogger(__name__)
SPEAKERS = {"system", "user", "assistant"}


class ChatSource(Job):
    """A source of chats in a tuning's mix.

    share: share of the mix that comes from this source; form: file format if the source is a dataset, None if it is a
    curation's training set.
    """

    name: str
    share: float
    form: FileFormat | None = None


class MixExamples(Job):
    """Job that mixes a tutor's training examples.

    near_duplicate: minimum similarity to an evaluation text at which an example counts as leaked.
    """

    tuning: str
    sources: list[ChatSource]
    seed: int
    near_duplicate: float


def mix_examples(
    *, job: MixExamples, sources: list[Path], items: list[Path], tests: list[Path], out: Path, sheet: Path
) -> None:
    """Write the mixed examples, and a datasheet with counts by source and the examples left out as leaks.

    sources: one file for each of the job's sources, in the same order; items: item files of every selected task; tests:
    evaluation sets of curations. The examples contain no problem from `items` or `tests`. Raises UserError for a source
    without usable chats.
    """
    places = {source.name: f"tunings.{job.tuning}.mix.{source.name}" for source in job.sources}
    unsuitable: dict[str, Counter[str]] = {source.name: Counter() for source in job.sources}
    by_source = {
        source.name: name_examples(source.name, chats(source, path, places[source.name], unsuitable[source.name]))
        for source, path in zip(job.sources, sources, strict=True)
    }
    records = {name: record for pool in by_source.values() for name, record in pool.items()}
    kept, leaked = drop_leaks(records, items, tests, job.near_duplicate)
    clear = set(kept)
    pools = {
        source: [{**record, "id": name} for name, record in pool.items() if name in clear]
        for source, pool in by_source.items()
    }
    for source, pool in pools.items():
        if not pool:
            fix = "remove the source from the mix, or choose one with other chats"
            raise UserError(places[source], "expected chats without evaluation problems, found none", fix)
    mixed = sample_by_shares(pools, {source.name: source.share for source in job.sources}, job.seed)
    write_json_lines(out, ({"id": example["id"], "messages": example["messages"]} for example in mixed))
    write_json(
        sheet,
        {
            "tuning": job.tuning,
            "examples": len(mixed),
            "sources": {name: sum(example["id"].startswith(f"{name} ") for example in mixed) for name in pools},
            "there": {name: len(pool) for name, pool in pools.items()},
            "unsuitable": {name: dict(reasons) for name, reasons in unsuitable.items() if reasons},
            "left_out_as_leaks": [leak._asdict() for leak in leaked],
            "compared_with": [str(path) for path in (*items, *tests)],
        },
    )


def name_examples(source: str, records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the examples by name. A name consists of the source, the record's id, and a number if ids repeat."""
    named: dict[str, dict[str, Any]] = {}
    counts: Counter[str] = Counter()
    for record in records:
        name = f"{source} {record['id']}"
        counts[name] += 1
        named[name if counts[name] == 1 else f"{name} #{counts[name]}"] = record
    return named


def chats(source: ChatSource, path: Path, place: str, unsuitable: Counter[str]) -> list[dict[str, Any]]:
    """Return the chats of a source, in one of the formats of `chat_forms` or in the format of `kmp_dialogues`.

    place: the config key of the source, for error messages; unsuitable: counts of conversations that are left out, by
    reason; updated in place. Raises UserError for a record in another format.
    """
    records = read_json_lines(path) if source.form is None else read_source(path, source.form, source.name)
    examples = []
    for number, record in enumerate(records):
        if "turns" in record and "persona" in record:
            known = {name: record[name] for name in Dialogue.model_fields if name in record}
            record = chat_record(Dialogue.model_validate(known), [record["problem"]])
        elif "messages" not in record:
            try:
                record = {**record, "messages": chat_of(record)}
            except UnsuitableChatError as error:
                unsuitable[str(error)] += 1
                continue
        if not is_chat(record.get("messages")):
            fix = (
                "give each record messages with role (system, user, assistant) and content, one of them an assistant's"
            )
            raise UserError(place, f"record {number} is not a chat", fix)
        examples.append({"id": str(number), **record})
    if unsuitable:
        log.warning("%s: conversations left out, by reason: %s", place, dict(unsuitable))
    return examples


def is_chat(messages: Any) -> bool:
    """Return True if a record's messages are a valid chat with a non-empty message by the assistant."""
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        return False
    if not all(message.get("role") in SPEAKERS and isinstance(message.get("content"), str) for message in messages):
        return False
    return any(message["role"] == "assistant" and message["content"].strip() for message in messages)


def sample_by_shares(
    pools: Mapping[str, Sequence[dict[str, Any]]], shares: Mapping[str, float], seed: int
) -> list[dict[str, Any]]:
    """Return as many examples as possible in the given shares without repetition: random samples, shuffled.

    pools: examples of each source; shares: share of each source in the result.
    """
    total = min(len(pools[name]) / share for name, share in shares.items())
    chosen = {}
    for name, share in shares.items():
        by_id = {example["id"]: example for example in pools[name]}
        for key in ranked_by_seed(by_id, seed)[: max(1, int(total * share + 1e-9))]:
            chosen[key] = by_id[key]
    return [chosen[key] for key in ranked_by_seed(chosen, seed)]


# formats of public chat data ------------------------------------------------------------------------------------------
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
    """Return the texts as messages of two speakers in turn. roles: of the first and of the second message."""
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
