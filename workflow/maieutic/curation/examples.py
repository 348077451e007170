"""Training examples of a fine-tuned tutor: chats mixed from several sources, without evaluation problems."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maieutic.config.datasets import FileFormat
from maieutic.core.errors import UserError
from maieutic.core.files import read_json_lines, write_json, write_json_lines
from maieutic.core.jobs import Job
from maieutic.curation.chat_forms import UnsuitableChatError, chat_of
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
