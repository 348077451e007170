"""Training examples of a fine-tuned tutor: chats of several sources in their shares, without evaluation problems."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maieutic.config.datasets import Form
from maieutic.core.errors import UserError
from maieutic.core.files import read_lines, write_json, write_lines
from maieutic.core.jobs import Job
from maieutic.curation.records import Dialogue
from maieutic.curation.sets import chat_record, clean
from maieutic.datasets.sampling import ranked
from maieutic.datasets.sources import read_source

log = logging.getLogger(__name__)
SPEAKERS = {"system", "user", "assistant"}


class ChatSource(Job):
    """A source of chats. form: of a dataset of the registry; None: a curation's training set."""

    name: str
    share: float
    form: Form | None = None


class MixExamples(Job):
    """The sources of a tutor's training set. near_duplicate: Jaccard similarity of a leak."""

    tuning: str
    sources: list[ChatSource]
    seed: int
    near_duplicate: float


def mix_examples(
    *, job: MixExamples, sources: list[Path], items: list[Path], tests: list[Path], out: Path, sheet: Path
) -> None:
    """Write the examples, and what there is to say of them: counts by source, what was left out as a leak.

    sources: the files, in the job's order; items: of every selected task, tests: evaluation sets of curations, none of
    whose problems is left. Raises UserError for a source without chats.
    """
    places = {source.name: f"tunings.{job.tuning}.mix.{source.name}" for source in job.sources}
    by_source = {
        source.name: by_name(source.name, chats(source, path, places[source.name]))
        for source, path in zip(job.sources, sources, strict=True)
    }
    records = {name: record for pool in by_source.values() for name, record in pool.items()}
    kept, leaked = clean(records, items, tests, job.near_duplicate)
    clear = set(kept)
    pools = {
        source: [{**record, "id": name} for name, record in pool.items() if name in clear]
        for source, pool in by_source.items()
    }
    for source, pool in pools.items():
        if not pool:
            raise UserError(places[source], "no example in it", "take it out of the mix, or curate more seeds")
    mixed = in_shares(pools, {source.name: source.share for source in job.sources}, job.seed)
    write_lines(out, ({"id": example["id"], "messages": example["messages"]} for example in mixed))
    write_json(
        sheet,
        {
            "tuning": job.tuning,
            "examples": len(mixed),
            "sources": {name: sum(example["id"].startswith(f"{name} ") for example in mixed) for name in pools},
            "there": {name: len(pool) for name, pool in pools.items()},
            "left_out_as_leaks": [leak._asdict() for leak in leaked],
            "compared_with": [str(path) for path in (*items, *tests)],
        },
    )


def by_name(source: str, records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Examples by the source's name and their id; where an id stands there again, with a number too."""
    named: dict[str, dict[str, Any]] = {}
    counts: Counter[str] = Counter()
    for record in records:
        name = f"{source} {record['id']}"
        counts[name] += 1
        named[name if counts[name] == 1 else f"{name} #{counts[name]}"] = record
    return named


def chats(source: ChatSource, path: Path, place: str) -> list[dict[str, Any]]:
    """The chats of a source: records with `messages`, or dialogues as `kmp_dialogues` has them. Raises UserError."""
    records = read_lines(path) if source.form is None else read_source(path, source.form, source.name)
    examples = []
    for number, record in enumerate(records):
        if "turns" in record and "persona" in record:
            known = {name: record[name] for name in Dialogue.model_fields if name in record}
            record = chat_record(Dialogue.model_validate(known), [record["problem"]])
        if not is_chat(record.get("messages")):
            mend = "each record has messages of role (system, user, assistant) and content, an assistant's among them"
            raise UserError(place, f"record {number} is no chat", mend)
        examples.append({"id": str(number), **record})
    return examples


def is_chat(messages: Any) -> bool:
    """Whether a record's messages are a chat to learn from."""
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        return False
    if not all(message.get("role") in SPEAKERS and isinstance(message.get("content"), str) for message in messages):
        return False
    return any(message["role"] == "assistant" and message["content"].strip() for message in messages)


def in_shares(
    pools: Mapping[str, Sequence[dict[str, Any]]], shares: Mapping[str, float], seed: int
) -> list[dict[str, Any]]:
    """As many examples as the shares allow without a repetition, each source's a random sample, in a random order."""
    total = min(len(pools[name]) / share for name, share in shares.items())
    chosen = {}
    for name, share in shares.items():
        by_id = {example["id"]: example for example in pools[name]}
        for key in ranked(by_id, seed)[: max(1, int(total * share + 1e-9))]:
            chosen[key] = by_id[key]
    return [chosen[key] for key in ranked(chosen, seed)]
