"""Scores of a pool of tasks whose items bring weighted criteria: overall, and by every tag of items and criteria.

TutorBench, section 3: ARR_w by modality, use case, subject and Bloom level is the mean of items; evaluation dimensions,
tutoring skills, explicitness, objectivity and severity are pass rates of criteria. A criterion with a negative weight
passes here where its weight is not counted, so that more is better everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.benchmarks.tutorbench.tagging import BLOOM, read_votes
from maieutic.config.cards import card_path, read_card
from maieutic.core.jobs import Sampled
from maieutic.core.records import Grade, Item, Score, read_items, read_records
from maieutic.core.stats import RATING, Sampling, estimate, normal_half_width
from maieutic.graders.rubric import ARR_W, ARR_W_CLIPPED, ARR_W_READINGS, ITEM_SCORES, READINGS
from maieutic.scores.score import score_of, write_scores

OVERALL = "overall"
ANSWERED = "answered"  # as overall, of a tutor that was not asked everything too
ITEM_TAGS = ("modality", "use_case", "subject", BLOOM)
CRITERION_TAGS = ("skill", "explicitness", "objectivity", "severity")
VOTE = "bloom_vote"
PASSED = "criterion_pass_rate"


class Value(NamedTuple):
    """One item's or criterion's number and the problem that it belongs to; None where a verdict is missing."""

    value: float | None
    problem: str


class Slice(NamedTuple):
    """What a number is of: all items (subset None), or those items or criteria that have a tag of a kind."""

    metric: str
    subset: str | None = None


Slices = dict[Slice, list[Value]]


class Rated(NamedTuple):
    """One item with what a judge says of one reply: its scores by name, and which criteria speak for it."""

    item: Item
    scores: Mapping[str, float | None]
    good: Mapping[str, bool]


def rated_items(items: Iterable[Item], grades: Iterable[Grade]) -> list[Rated]:
    """Every item with what a judge says: nothing of a reply that its server refused."""
    scores: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    good: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for grade in grades:
        key, name = (grade.task, grade.id), str(grade.criterion)
        if name in ITEM_SCORES:
            scores[key][name] = None if grade.value is None else float(grade.value)
        elif grade.correct is not None:
            good[key][name] = grade.correct
    return [Rated(item, scores[item.task, item.id], good[item.task, item.id]) for item in items]


def item_slices(rated: Sequence[Rated], votes: Mapping[str, str | None]) -> Slices:
    """ARR_w of the items by their tags.

    votes: the Bloom level of each item by most taggers. It stands for the level of an item that the release gives none.
    """
    slices: Slices = defaultdict(list)
    for rating in rated:
        value = Value(rating.scores.get(ARR_W), rating.item.cluster)
        level = votes.get(f"{rating.item.task}/{rating.item.id}")
        tags = {**({BLOOM: level} if level else {}), **rating.item.tags}
        for name in ITEM_TAGS:
            if name in tags:
                slices[Slice(name, tags[name])].append(value)
        if level:
            slices[Slice(VOTE, level)].append(value)
    return slices


def criterion_slices(rated: Sequence[Rated]) -> Slices:
    """Whether each criterion speaks for the reply, by its tags; one with several dimensions counts in each."""
    slices: Slices = defaultdict(list)
    for rating in rated:
        for name, tags in rating.item.reference["criterion_tags"].items():
            verdict = rating.good.get(name)
            entry = Value(None if verdict is None else float(verdict), rating.item.cluster)
            slices[Slice(PASSED)].append(entry)
            for kind in CRITERION_TAGS:
                if tags[kind]:
                    slices[Slice(kind, tags[kind])].append(entry)
            for dimension in tags["dimensions"]:
                slices[Slice("dimension", dimension)].append(entry)
    return slices


def reading_slices(rated: Sequence[Rated]) -> Slices:
    """All items that the tutor was asked, clipped too, and under every reading of the negative weight."""
    names = {ANSWERED: ARR_W, f"{ANSWERED}_clipped": ARR_W_CLIPPED}
    names |= {f"{ANSWERED}_{each}": ARR_W_READINGS[each] for each in READINGS}
    return {
        Slice(shown): [Value(rating.scores.get(name), rating.item.cluster) for rating in rated]
        for shown, name in names.items()
    }


def score_slice(
    job: BreakDown, pool: str, judge: str, key: Slice, values: Sequence[Value], sampling: Sampling
) -> Score:
    """The mean of a slice with both intervals."""
    known = [(entry.value, entry.problem) for entry in values if entry.value is not None]
    numbers, problems = [value for value, _ in known], [problem for _, problem in known]
    mean = estimate(RATING, numbers, problems, sampling, missing=len(values) - len(numbers))
    normal = normal_half_width(numbers)
    return score_of(
        mean, pool, key.metric, tutor=job.tutor, benchmark=job.benchmark, subset=key.subset, by=judge, normal=normal
    )


def both_modalities(items: Iterable[Item]) -> bool:
    """Whether there are samples with pictures and samples without."""
    return len({item.tags["modality"] for item in items}) > 1


class BreakDown(Sampled):
    """The scores of one tutor by slice, for each judge and each pool of tasks.

    tasks: those of all pools; asked: of them, those that the tutor was asked.
    """

    benchmark: str
    tutor: str
    tasks: list[str]
    asked: list[str]
    judges: list[str]


def break_down(*, job: BreakDown, items: Path, grades: list[Path], votes: list[Path], out: Path) -> None:
    """Write every score of one tutor by slice.

    The overall score is of text and pictures: a tutor that was not asked everything has none, as a model without
    pictures in Table 1, and so has a run of one of both.

    items: the folder of the benchmark's items; grades: one file a judge, in the order of the job's judges; votes: the
    taggers' votes on the Bloom levels, or none.
    """
    scores: list[Score] = []
    sampling = Sampling(job.resamples, job.seed)
    voted = read_votes(votes[0]) if votes else {}
    cards = [read_card(card_path(job.benchmark, task)).card for task in job.tasks]
    by_judge = dict(zip(job.judges, [read_records(path, Grade) for path in grades], strict=True)) if grades else {}
    for pool in dict.fromkeys(card.pool for card in cards if card.pool):
        tasks = [card.task for card in cards if card.pool == pool]
        asked_tasks = [task for task in tasks if task in job.asked]
        cases = read_items(items, asked_tasks)
        for judge, of_judge in by_judge.items():
            rated = rated_items(cases, (grade for grade in of_judge if grade.scoring == "robust"))
            of_all = reading_slices(rated)
            slices = {
                Slice(OVERALL): of_all[Slice(ANSWERED)] if asked_tasks == tasks and both_modalities(cases) else [],
                **of_all,
            }
            slices |= {**item_slices(rated, voted), **criterion_slices(rated)}
            scores += [score_slice(job, pool, judge, name, values, sampling) for name, values in slices.items()]
    write_scores(scores, out)
