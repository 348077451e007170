"""The labelled replies that graders are checked on: made from a release, counted as the paper's Table 7 counts them."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.datasets import Source
from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.plugins import merged
from maieutic.core.records import Item, Label, LabelledSet, Reply, read_records, write_records
from maieutic.datasets.sampling import ranked
from maieutic.datasets.sources import read_source
from maieutic.judges.releases import LabelSource
from maieutic.serving.conversations import parse_turns

log = logging.getLogger(__name__)
HUMANS = ("Expert", "Novice")
SUBSETS = ("all", "bridge", "mathdial")


LABEL_SOURCES: dict[str, LabelSource] = merged("releases", "RELEASES")
SCALES = {name: labels for source in LABEL_SOURCES.values() for name, labels in source.scales.items()}
DESIRED = {name: label for source in LABEL_SOURCES.values() for name, label in source.desired.items()}


class Labels(NamedTuple):
    """The files of one labelled release."""

    items: dict[str, Item]
    replies: list[Reply]
    labels: list[Label]


class MakeLabels(Job):
    """A labelled release, and the forms of its source files."""

    release: str
    forms: list[str]


def make_labels(*, job: MakeLabels, sources: list[Path], out: Path) -> None:
    """Write items, replies, labels and statistics of a labelled release. out: the file of its items."""
    records = [read_source(path, form) for path, form in zip(sources, job.forms, strict=True)]
    write_labels(job.release, records, out.parent)


def write_labels(source: str, records: Sequence[list[Source]], out: Path) -> None:
    """Write items.jsonl, replies.jsonl, labels.jsonl and statistics.json into the folder `out`.

    records: of each of the release's datasets.
    """
    about = LABEL_SOURCES[source]
    datasets = ", ".join(about.datasets)
    try:
        made = about.load(*records)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"labels/{source}", f"{datasets} cannot be read: {type(error).__name__}: {error}", "check its fields"
        ) from error
    if not made.labels and about.labelled:
        raise UserError(f"labels/{source}", f"{datasets} has no labels", "name a labelled release in run.labels")
    write_records(out / "items.jsonl", made.items)
    write_records(out / "replies.jsonl", made.replies)
    write_records(out / "labels.jsonl", made.labels)
    write_json(out / "statistics.json", statistics(made) if about.taxonomy else plain_counts(made))
    log.info("%s: %d dialogues, %d replies, %d labels", source, len(made.items), len(made.replies), len(made.labels))


def read_labels(folder: Path) -> Labels:
    """One labelled release."""
    return Labels(
        {item.id: item for item in read_records(folder / "items.jsonl", Item)},
        read_records(folder / "replies.jsonl", Reply),
        read_records(folder / "labels.jsonl", Label),
    )


def sampled(replies: Sequence[Reply], limit: int | None, seed: int) -> list[Reply]:
    """A random sample of replies in their order; a larger limit contains a smaller one's."""
    if limit is None or limit >= len(replies):
        return list(replies)
    chosen = set(ranked((f"{reply.id}/{reply.tutor}" for reply in replies), seed)[:limit])
    return [reply for reply in replies if f"{reply.id}/{reply.tutor}" in chosen]


def plain_counts(made: LabelledSet) -> dict[str, dict[str, Any]]:
    """How many items, replies and labels a release has, and how often each label occurs."""
    counts = {"dialogues": len(made.items), "responses": len(made.replies), "labels": len(made.labels)}
    return {"all": {**counts, "label_counts": dict(Counter(label.label for label in made.labels))}}


def statistics(made: LabelledSet) -> dict[str, dict[str, Any]]:
    """MRBench's Table 7, for all dialogues and each subset. Lengths in characters."""
    subsets = {item.id: item.tags["source"] for item in made.items}
    by_subset: dict[str, dict[str, Any]] = {}
    for subset in SUBSETS:
        items = [item for item in made.items if subset in {"all", item.tags["source"]}]
        replies = [reply for reply in made.replies if subset in {"all", subsets[reply.id]}]
        lengths: dict[str, list[int]] = defaultdict(list)
        for reply in replies:
            lengths[reply.tutor].append(len(reply.text))
        humans = sum(len(sizes) for tutor, sizes in lengths.items() if tutor in HUMANS)
        by_subset[subset] = {
            "dialogues": len(items),
            "distinct_dialogues": len({item.tags["conversation"] for item in items}),
            "turns": mean([len(parse_turns(item.vars["history"])) for item in items]),
            "dialogue_length": mean([made.lengths[item.id] for item in items]),
            "llm_responses": len(replies) - humans,
            "human_responses": humans,
            "responses": len(replies),
            "labels": sum(subset in {"all", subsets[label.id]} for label in made.labels),
            "response_length": {tutor: mean(sizes) for tutor, sizes in sorted(lengths.items())},
        }
    return by_subset


def mean(values: Sequence[float]) -> float | None:
    """The mean, None of nothing."""
    return round(sum(values) / len(values), 2) if values else None
