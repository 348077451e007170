"""Scores of a pool of tasks whose items have weighted criteria: overall, and by every tag of items and criteria.

As in section 3 of TutorBench's paper, scores by modality, use case, subject and Bloom level are means of the items'
weighted average rubric ratings (ARR_w). Scores by evaluation dimension, tutoring skill, explicitness, objectivity and
severity are pass rates of criteria. A criterion with a negative weight passes if its weight is not deducted, so higher
is always better.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.benchmarks.tutorbench.tagging import BLOOM, read_votes
from maieutic.config.cards import card_path, read_card
from maieutic.core.jobs import SampledJob
from maieutic.core.records import Grade, Item, Score, read_items, read_records
from maieutic.core.stats import RATING, BootstrapSettings, estimate_statistic, normal_half_width
from maieutic.graders.weighted_rubric import ARR_W, ARR_W_CLIPPED, ARR_W_READINGS, ITEM_SCORES, NEGATIVE_WEIGHT_READINGS
from maieutic.scores.score import score_from_estimate, write_scores

OVERALL = "overall"
ANSWERED = "answered"  # mean of the samples sent to a tutor, even if these are not all samples
ITEM_TAGS = ("modality", "use_case", "subject", BLOOM)
CRITERION_TAGS = ("skill", "explicitness", "objectivity", "severity")
BLOOM_VOTE = "bloom_vote"
PASS_RATE = "criterion_pass_rate"


class ProblemValue(NamedTuple):
    """Value of one item or criterion. value: None if a verdict is missing; problem: problem of the item."""

    value: float | None
    problem: str


class Slice(NamedTuple):
    """Key of a score. metric: metric of the score; subset: tag of its items or criteria, or None for all items."""

    metric: str
    subset: str | None = None


Slices = dict[Slice, list[ProblemValue]]


class JudgedItem(NamedTuple):
    """An item with a judge's verdicts on one reply.

    scores: variants of ARR_w by name; in_favour: for each criterion, True if the verdict is in the reply's favour.
    """

    item: Item
    scores: Mapping[str, float | None]
    in_favour: Mapping[str, bool]


def judged_items(items: Iterable[Item], grades: Iterable[Grade]) -> list[JudgedItem]:
    """Return every item with the judge's scores and verdicts on its reply. Both are empty without a judged reply."""
    scores: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    good: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for grade in grades:
        key, name = (grade.task, grade.id), str(grade.criterion)
        if name in ITEM_SCORES:
            scores[key][name] = None if grade.value is None else float(grade.value)
        elif grade.correct is not None:
            good[key][name] = grade.correct
    return [JudgedItem(item, scores[item.task, item.id], good[item.task, item.id]) for item in items]


def item_slices(rated: Sequence[JudgedItem], votes: Mapping[str, str | None]) -> Slices:
    """Return the items' ARR_w, grouped by the items' tags.

    votes: Bloom level that the taggers voted for, by item; used for items without a level in the release.
    """
    slices: Slices = defaultdict(list)
    for rating in rated:
        value = ProblemValue(rating.scores.get(ARR_W), rating.item.cluster)
        level = votes.get(f"{rating.item.task}/{rating.item.id}")
        tags = {**({BLOOM: level} if level else {}), **rating.item.tags}
        for name in ITEM_TAGS:
            if name in tags:
                slices[Slice(name, tags[name])].append(value)
        if level:
            slices[Slice(BLOOM_VOTE, level)].append(value)
    return slices


def criterion_slices(rated: Sequence[JudgedItem]) -> Slices:
    """Return the outcomes of criteria (1 if in the reply's favour, else 0), grouped by the criteria's tags."""
    slices: Slices = defaultdict(list)
    for rating in rated:
        for name, tags in rating.item.reference["criterion_tags"].items():
            verdict = rating.in_favour.get(name)
            entry = ProblemValue(None if verdict is None else float(verdict), rating.item.cluster)
            slices[Slice(PASS_RATE)].append(entry)
            for kind in CRITERION_TAGS:
                if tags[kind]:
                    slices[Slice(kind, tags[kind])].append(entry)
            for dimension in tags["dimensions"]:
                slices[Slice("dimension", dimension)].append(entry)
    return slices


def reading_slices(rated: Sequence[JudgedItem]) -> Slices:
    """Return ARR_w of all items sent to the tutor: unclipped, clipped, and under each rule for negative weights."""
    names = {ANSWERED: ARR_W, f"{ANSWERED}_clipped": ARR_W_CLIPPED}
    names |= {f"{ANSWERED}_{reading}": ARR_W_READINGS[reading] for reading in NEGATIVE_WEIGHT_READINGS}
    return {
        Slice(metric): [ProblemValue(rating.scores.get(name), rating.item.cluster) for rating in rated]
        for metric, name in names.items()
    }


def score_slice(
    job: BreakDown, pool: str, judge: str, key: Slice, values: Sequence[ProblemValue], sampling: BootstrapSettings
) -> Score:
    """Return the mean of a slice's values with its bootstrap and normal intervals."""
    known = [(entry.value, entry.problem) for entry in values if entry.value is not None]
    numbers, problems = [value for value, _ in known], [problem for _, problem in known]
    mean = estimate_statistic(RATING, numbers, problems, sampling, missing=len(values) - len(numbers))
    normal = normal_half_width(numbers)
    return score_from_estimate(
        mean, pool, key.metric, tutor=job.tutor, benchmark=job.benchmark, subset=key.subset, by=judge, normal=normal
    )


def both_modalities(items: Iterable[Item]) -> bool:
    """Return True if some items have pictures and others do not."""
    return len({item.tags["modality"] for item in items}) > 1


class BreakDown(SampledJob):
    """Settings of break_down for one tutor.

    tasks: tasks of all pools; asked: those of the tasks whose items were sent to the tutor.
    """

    benchmark: str
    tutor: str
    tasks: list[str]
    asked: list[str]
    judges: list[str]


def break_down(*, job: BreakDown, items: Path, grades: list[Path], votes: list[Path], out: Path) -> None:
    """Write the scores of one tutor, overall and by tag, for each judge and pool.

    The overall score covers samples with and without pictures. It is left out in a run with only one of the two kinds,
    and for a tutor that was not sent every sample, such as the models without picture input in the paper's Table 1.

    items: folder of the benchmark's items; grades: one file for each judge, in the order of the job's judges; votes:
    a list with the file of the taggers' votes on Bloom levels, or an empty list.
    """
    scores: list[Score] = []
    sampling = BootstrapSettings(job.resamples, job.seed)
    voted = read_votes(votes[0]) if votes else {}
    cards = [read_card(card_path(job.benchmark, task)).card for task in job.tasks]
    by_judge = dict(zip(job.judges, [read_records(path, Grade) for path in grades], strict=True)) if grades else {}
    for pool in dict.fromkeys(card.pool for card in cards if card.pool):
        tasks = [card.task for card in cards if card.pool == pool]
        asked_tasks = [task for task in tasks if task in job.asked]
        cases = [item for item in read_items(items, asked_tasks) if not item.repeat]
        for judge, judge_grades in by_judge.items():
            rated = judged_items(cases, (grade for grade in judge_grades if grade.scoring == "robust"))
            all_items = reading_slices(rated)
            slices = {
                Slice(OVERALL): all_items[Slice(ANSWERED)] if asked_tasks == tasks and both_modalities(cases) else [],
                **all_items,
            }
            slices |= {**item_slices(rated, voted), **criterion_slices(rated)}
            scores += [score_slice(job, pool, judge, name, values, sampling) for name, values in slices.items()]
    write_scores(scores, out)
