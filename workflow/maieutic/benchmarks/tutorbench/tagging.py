"""Tags that models assign: Bloom levels by vote (TutorBench, section 3.4) and tags of criteria (section 3.5).

A level is assigned to an item if at least two taggers agree on it and no other level has as many votes. The taggers'
tags are also compared with the tags in the release.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from maieutic.config.cards import Card
from maieutic.config.rubrics import LoadedRubric, read_rubric
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import Item, Judgement, read_items, read_records
from maieutic.judges.judging import JudgeWork
from maieutic.judges.questions import Case
from maieutic.judges.verdicts import JudgeReplies
from maieutic.serving.backends import JobFiles

BLOOM = "bloom"
MIN_AGREEING = 2  # minimum number of taggers that must agree on a level
NO_SKILL = "none"
# Criterion of the taggers' rubric -> field of the released tags with which it is compared.
RELEASED_FIELDS = {
    "skill": "skill",
    "explicitness": "explicitness",
    "objectivity": "objectivity",
    "dimension": "dimensions",
}


def work_on_tags(rubrics: Sequence[str], cards: Sequence[Card], items_dir: Path) -> JudgeWork:
    """Return pairs of a rubric and a case to tag.

    A rubric tags either the items of the cards' tasks or the criteria of these items.
    """
    loaded = [read_rubric(name) for name in rubrics]
    items = read_items(items_dir, [card.task for card in cards])
    return [(rubric, case) for rubric in loaded for item in items for case in tagging_cases(rubric, item)]


def tagging_cases(loaded: LoadedRubric, item: Item) -> list[Case]:
    """Return the cases that a rubric tags in one item: the item itself, or each of its criteria."""
    if loaded.rubric.about == "items":
        return [Case(item.id, item.task, None, item.vars, {}, images=tuple(item.images))]
    return [
        Case(
            f"{item.id}/{name}",
            item.task,
            None,
            {**item.vars, "criterion": criterion["definition"]},
            {},
            images=tuple(item.images),
        )
        for name, criterion in item.reference["criteria"].items()
    ]


# One tagger's labels: (task, id of the tagged object) -> criterion of the rubric -> label
TagsByCase = dict[tuple[str, str], dict[str, str]]


def tags_of_judgements(judgements: Iterable[Judgement]) -> TagsByCase:
    """Return one tagger's tags, without missing verdicts."""
    tags: TagsByCase = defaultdict(dict)
    for judgement in judgements:
        for verdict in judgement.verdicts:
            if verdict.value is not None:
                tags[judgement.task, judgement.id][str(verdict.criterion)] = str(verdict.value)
    return tags


def voted_level(levels: Sequence[str]) -> str | None:
    """Return the level with the most votes, or None if it has fewer than two votes or is tied with another level."""
    ranked = Counter(levels).most_common(2)
    if not ranked or ranked[0][1] < MIN_AGREEING or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0].casefold()


class TagItems(JudgeReplies):
    """Settings of tag_items: a model that tags the items of some tasks of a benchmark, and the items' criteria."""


def tag_items(
    *, job: TagItems, items: Path, weights: list[Path], pictures: Path, journal: Path, server_log: Path, out: Path
) -> None:
    """Ask a model for tags of items and criteria.

    items: folder of the benchmark's items; weights: list with the weights manifest if the run serves the model, else
    an empty list; pictures: store of the items' pictures.
    """
    work = work_on_tags(job.entry.tags, job.cards(), items)
    job.ask(work, JobFiles(next(iter(weights), None), journal, server_log, pictures), out)


class VoteTags(Job):
    """Settings of vote_tags. tasks: tagged tasks; taggers: names of the taggers, in the order of their files."""

    tasks: list[str]
    taggers: list[str]


def vote_tags(*, job: VoteTags, items: Path, tags: list[Path], out: Path) -> None:
    """Write each item's Bloom level by vote, the share of items with a level, and the taggers' agreement.

    Taggers are compared with each other and with the release.

    items: folder of the benchmark's items; tags: one file of judgements for each tagger.
    """
    by_tagger = {name: read_records(path, Judgement) for name, path in zip(job.taggers, tags, strict=True)}
    cases = read_items(items, job.tasks)
    write_json(out, tag_summary(cases, by_tagger))


def tag_summary(items: Sequence[Item], by_tagger: Mapping[str, Sequence[Judgement]]) -> dict[str, Any]:
    """Return the items' levels, the share of items with a level, and the agreement. by_tagger: judgements by tagger."""
    tags = {name: tags_of_judgements(judgements) for name, judgements in by_tagger.items()}
    levels = {
        (item.task, item.id): [
            by_item[item.task, item.id][BLOOM] for by_item in tags.values() if BLOOM in by_item[item.task, item.id]
        ]
        for item in items
    }
    votes = {item: voted_level(named) for item, named in levels.items()}
    assigned = [level for level in votes.values() if level is not None]
    voters = sum(any(BLOOM in by_kind for by_kind in by_item.values()) for by_item in tags.values())
    return {
        "bloom": {f"{task}/{item}": level for (task, item), level in votes.items()},
        "taggers": list(by_tagger),
        "items": len(items),
        "covered": len(assigned) / len(items) if items and voters >= MIN_AGREEING else None,
        "levels": dict(Counter(assigned)),
        "filled": sum(votes[item.task, item.id] is not None and BLOOM not in item.tags for item in items),
        "pairs": [pair_agreement(tagger, other, tags) for tagger, other in combinations(tags, 2)],
        "with_release": [row for name, by_item in tags.items() for row in agreement_with_release(name, by_item, items)],
    }


def pair_agreement(tagger: str, other: str, tags: Mapping[str, TagsByCase]) -> dict[str, Any]:
    """Return the agreement of two taggers on Bloom levels."""
    both = [
        (by_kind[BLOOM], tags[other][key][BLOOM])
        for key, by_kind in tags[tagger].items()
        if BLOOM in by_kind and BLOOM in tags[other][key]
    ]
    return {"taggers": [tagger, other], **label_agreement([a for a, _ in both], [b for _, b in both])}


def label_agreement(first: Sequence[str], second: Sequence[str]) -> dict[str, Any]:
    """Return the number of pairs, the share of equal labels, and Cohen's kappa (None if all labels are the same)."""
    from maieutic.validation.agreement import (
        cohen_kappa_of,  # deferred: the environment that serves models lacks scikit-learn
    )

    same = sum(a == b for a, b in zip(first, second, strict=True))
    return {"n": len(first), "same": same / len(first) if first else None, "kappa": cohen_kappa_of(first, second)}


def agreement_with_release(name: str, tags: TagsByCase, items: Sequence[Item]) -> list[dict[str, Any]]:
    """Return a tagger's agreement with the release: one row for each kind of tag.

    For a criterion with several released dimensions, the tagger agrees by naming any of them.
    """
    pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for item in items:
        level = tags[item.task, item.id].get(BLOOM)
        if level and "bloom" in item.tags:
            pairs[BLOOM].append((item.tags["bloom"], level.casefold()))
        for criterion, known in item.reference["criterion_tags"].items():
            by_kind = tags[item.task, f"{item.id}/{criterion}"]
            for kind, field in RELEASED_FIELDS.items():
                if kind in by_kind:
                    pairs[kind].append((released_tag(known[field], by_kind[kind]), by_kind[kind]))
    return [
        {"tagger": name, "tag": kind, **label_agreement([a for a, _ in labels], [b for _, b in labels])}
        for kind, labels in pairs.items()
    ]


def released_tag(known: Any, tag: str) -> str:
    """Return the released tag to compare with `tag`: of several released tags, an equal tag if any, else the first."""
    if isinstance(known, list):
        return tag if tag in known else (known or [NO_SKILL])[0]
    return known or NO_SKILL


def read_votes(path: Path) -> dict[str, str | None]:
    """Return the Bloom level of each item by vote (None: no level). The keys have the form TASK/ID."""
    votes: dict[str, str | None] = json.loads(path.read_text(encoding="utf-8"))["bloom"]
    return votes
