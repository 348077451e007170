"""Tags that models give to items and criteria: Bloom levels by vote (TutorBench, section 3.4), skills (section 3.5).

A level is assigned where at least two taggers agree and no other level has as many. Criteria carry tags of their own in
the release, so a tagger that tags them is compared with those.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from maieutic.config.cards import Card
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import Item, Judgement, read_items, read_records
from maieutic.judges.commands import JudgeReplies
from maieutic.judges.judging import Work
from maieutic.judges.questions import Case
from maieutic.judges.rubrics import LoadedRubric, read_rubric
from maieutic.serving.backends import JobFiles

BLOOM = "bloom"
NEEDED = 2  # taggers that agree
NO_SKILL = "none"
# By the tagger's criterion, the tag of a released criterion that it should match.
OF_CRITERIA = {
    "skill": "skill",
    "explicitness": "explicitness",
    "objectivity": "objectivity",
    "dimension": "dimensions",
}


def work_on_tags(rubrics: Sequence[str], cards: Sequence[Card], items_dir: Path) -> Work:
    """Every item of the cards' tasks, and every criterion of theirs, by the rubrics that are about one or the other."""
    loaded = [read_rubric(name) for name in rubrics]
    items = read_items(items_dir, [card.task for card in cards])
    return [(rubric, case) for rubric in loaded for item in items for case in cases_of(rubric, item)]


def cases_of(loaded: LoadedRubric, item: Item) -> list[Case]:
    """What is tagged of one item."""
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


Tags = dict[tuple[str, str], dict[str, str]]  # by task and what is tagged: each criterion's label


def tags_by(judgements: Iterable[Judgement]) -> Tags:
    """What one tagger says; what could not be read is left out."""
    tags: Tags = defaultdict(dict)
    for judgement in judgements:
        for verdict in judgement.verdicts:
            if verdict.value is not None:
                tags[judgement.task, judgement.id][str(verdict.criterion)] = str(verdict.value)
    return tags


def vote(levels: Sequence[str]) -> str | None:
    """The level that at least two taggers name and more of them than any other; else none."""
    ranked = Counter(levels).most_common(2)
    if not ranked or ranked[0][1] < NEEDED or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0].casefold()


class TagItems(JudgeReplies):
    """A model that tags the items of some tasks of one benchmark."""


def tag_items(
    *, job: TagItems, items: Path, weights: list[Path], pictures: Path, journal: Path, server_log: Path, out: Path
) -> None:
    """Ask a model for tags of items and criteria.

    items: the folder of the benchmark's items; weights: the manifest of a model that we serve; pictures: the store of
    the items' pictures.
    """
    work = work_on_tags(job.entry.tags, job.cards(), items)
    job.ask(work, JobFiles(next(iter(weights), None), journal, server_log, pictures), out)


class VoteTags(Job):
    """The tasks that are tagged, and the taggers in the order of their files."""

    tasks: list[str]
    taggers: list[str]


def vote_tags(*, job: VoteTags, items: Path, tags: list[Path], out: Path) -> None:
    """Write each item's Bloom level by vote, how many have one, and how far taggers agree with each other and the data.

    items: the folder of the benchmark's items; tags: what each tagger said.
    """
    by_tagger = {name: read_records(path, Judgement) for name, path in zip(job.taggers, tags, strict=True)}
    cases = read_items(items, job.tasks)
    write_json(out, voted_tags(cases, by_tagger))


def voted_tags(items: Sequence[Item], by_tagger: Mapping[str, Sequence[Judgement]]) -> dict[str, Any]:
    """Levels, coverage and agreement. by_tagger: what each tagger said."""
    tags = {name: tags_by(judgements) for name, judgements in by_tagger.items()}
    levels = {
        (item.task, item.id): [
            by_item[item.task, item.id][BLOOM] for by_item in tags.values() if BLOOM in by_item[item.task, item.id]
        ]
        for item in items
    }
    votes = {item: vote(named) for item, named in levels.items()}
    agreed = [level for level in votes.values() if level is not None]
    voters = sum(any(BLOOM in by_kind for by_kind in by_item.values()) for by_item in tags.values())
    return {
        "bloom": {f"{task}/{item}": level for (task, item), level in votes.items()},
        "taggers": list(by_tagger),
        "items": len(items),
        "covered": len(agreed) / len(items) if items and voters >= NEEDED else None,
        "levels": dict(Counter(agreed)),
        "filled": sum(votes[item.task, item.id] is not None and BLOOM not in item.tags for item in items),
        "pairs": [pair_agreement(tagger, other, tags) for tagger, other in combinations(tags, 2)],
        "with_release": [row for name, by_item in tags.items() for row in agreement_with_release(name, by_item, items)],
    }


def pair_agreement(tagger: str, other: str, tags: Mapping[str, Tags]) -> dict[str, Any]:
    """How far two taggers agree on Bloom levels."""
    both = [
        (by_kind[BLOOM], tags[other][key][BLOOM])
        for key, by_kind in tags[tagger].items()
        if BLOOM in by_kind and BLOOM in tags[other][key]
    ]
    return {"taggers": [tagger, other], **agreement([a for a, _ in both], [b for _, b in both])}


def agreement(first: Sequence[str], second: Sequence[str]) -> dict[str, Any]:
    """Share of the same labels, and Cohen's kappa where both sides vary."""
    from maieutic.validation.agreement import cohen  # the environment that serves models has no scikit-learn

    same = sum(a == b for a, b in zip(first, second, strict=True))
    return {"n": len(first), "same": same / len(first) if first else None, "kappa": cohen(first, second)}


def agreement_with_release(name: str, tags: Tags, items: Sequence[Item]) -> list[dict[str, Any]]:
    """One row for each kind of tag that the release has too. Several dimensions: any of them is right."""
    pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for item in items:
        level = tags[item.task, item.id].get(BLOOM)
        if level and "bloom" in item.tags:
            pairs[BLOOM].append((item.tags["bloom"], level.casefold()))
        for criterion, known in item.reference["criterion_tags"].items():
            by_kind = tags[item.task, f"{item.id}/{criterion}"]
            for kind, field in OF_CRITERIA.items():
                if kind in by_kind:
                    pairs[kind].append((released(known[field], by_kind[kind]), by_kind[kind]))
    return [
        {"tagger": name, "tag": kind, **agreement([a for a, _ in labels], [b for _, b in labels])}
        for kind, labels in pairs.items()
    ]


def released(known: Any, tag: str) -> str:
    """The release's tag to compare with: of several that which was given, else the first."""
    if isinstance(known, list):
        return tag if tag in known else (known or [NO_SKILL])[0]
    return known or NO_SKILL


def read_votes(path: Path) -> dict[str, str | None]:
    """The Bloom level by vote of each item, by task and id."""
    votes: dict[str, str | None] = json.loads(path.read_text(encoding="utf-8"))["bloom"]
    return votes
