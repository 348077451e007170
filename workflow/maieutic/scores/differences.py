"""Paired differences between tutors, on the items that both answered.

For every headline metric, the difference has an interval over problems and a p value, both from Student's t with two
pseudo-problems (`maieutic.core.intervals`). For a metric that is a share of right items, McNemar's exact test is added.
Holm's correction covers all pairs of tutors and all headline metrics of one benchmark under one scoring. Verdicts rest
on the intervals of `simultaneous_interval`, which are wider than 95 % of a single difference (Bonferroni).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maieutic.config.cards import Card, Metric
from maieutic.core.files import atomic_file
from maieutic.core.intervals import PSEUDO_WEIGHT, Array, StudentT, paired_difference
from maieutic.core.records import Difference, Grade, Item, Scoring, read_checked_records, read_items
from maieutic.core.stats import Interval, leave_one_out, sums_by_cluster
from maieutic.scores.score import (
    Measurement,
    ScoringJob,
    answers_by_item,
    index_grades,
    judges_by_lead,
    leader_first,
    leading_names,
    measure_task,
    metric_function,
)

ALPHA = 0.05  # probability that at least one interval of a family misses its true difference
POWER = 0.8  # probability with which `items_that_decide` items would exclude 0
MOST_PROBLEMS = 10**7  # no more problems than this are proposed
RIGHT_OR_WRONG = frozenset({"accuracy", "match", "micro_f1"})  # metrics whose value is a proportion of correct items


class CompareTutors(ScoringJob):
    """Job that compares every pair of tutors on some tasks of one benchmark.

    tutors: the tutor of each grades file; floors: trivial tutors among these, which are not compared with each other;
    repeats: number of answers to an item that count, for tutors with several.
    """

    tutors: list[str]
    floors: list[str] = []
    repeats: dict[str, int] = {}


class ComparisonKey(NamedTuple):
    """Key of a comparison of tutors by a task's headline metric. by: the grader, None for a parser."""

    task: str
    scoring: Scoring
    by: str | None


class TutorSide(NamedTuple):
    """Metric of one tutor on the items that this tutor and another one both answered.

    value: value of the metric; left_out: its values with each problem left out in turn; right: True for each item that
    the tutor answered correctly in its first answer; grades: value and correctness of each answer to each item;
    problems: number of problems; bounds: range of the metric, None if unknown.
    """

    value: float
    left_out: Array
    right: npt.NDArray[np.bool_]
    grades: list[tuple[object, bool | None]]
    problems: int
    bounds: tuple[float, float] | None


def compare_tutors(
    *, job: CompareTutors, items: Path, grades: list[Path], leader: list[Path] | None = None, out: Path
) -> None:
    """Write the differences of every pair of tutors as a JSON list.

    items: folder of the benchmark's items; grades: grades files, each of the tutor at the same index in `job.tutors`; a
    tutor may have several files; leader: the files that name the leading reward model and judge, where they are not
    the first ones.
    """
    cases = {task: read_items(items, [task]) for task in job.tasks}
    measured = headline_measurements(job, cases, grades, leader or [])
    cards = {task: job.card(task) for task in job.tasks}
    comparisons = [
        difference
        for compared, by_tutor in measured.items()
        for difference in tutor_differences(cards[compared.task], compared, by_tutor, job.floors)
    ]
    floors = {*job.floors}
    between = [difference for difference in comparisons if not floors & {difference.first, difference.second}]
    from_floors = [difference for difference in comparisons if floors & {difference.first, difference.second}]
    entries = [difference.model_dump_json() for difference in (*holm_corrected(between), *from_floors)]
    with atomic_file(out) as handle:
        handle.write("[\n" + ",\n".join(entries) + "\n]\n")


def headline_measurements(
    job: CompareTutors, cases: Mapping[str, list[Item]], grades: Sequence[Path], leader: Sequence[Path]
) -> dict[ComparisonKey, dict[str, Measurement]]:
    """Return the measurements of the headline metrics by comparison and tutor, without the references of a metric.

    cases: items of each task; grades: grades files, each of the tutor at the same index in `job.tutors`; leader: the
    files that name the leading graders.
    """
    cards = {task: job.card(task) for task in job.tasks}
    known = [item for task_items in cases.values() for item in task_items]
    names = leading_names(leader)
    judges_of = {task: judges_by_lead(job.judging.get(task), names) for task in cards}
    files: dict[str, list[Path]] = defaultdict(list)
    for tutor, path in zip(job.tutors, grades, strict=True):
        files[tutor].append(path)
    measured: dict[ComparisonKey, dict[str, Measurement]] = defaultdict(dict)
    for tutor, paths in files.items():
        index = index_grades(grade for path in paths for grade in read_checked_records(path, Grade, known, by=...))
        index = leader_first(index, names)
        for task, card in cards.items():
            counted = [item for item in cases[task] if item.repeat < job.repeats.get(tutor, 1)]
            for measurement in measure_task(card, counted, index, judges_of[task], headline_only=True):
                if measurement.metric.headline and not is_own_reference(card, measurement.metric, tutor):
                    measured[ComparisonKey(task, measurement.scoring, measurement.by)][tutor] = measurement
    return measured


def is_own_reference(card: Card, metric: Metric, tutor: str) -> bool:
    """Return True if a metric compares replies with those of this very tutor, whose own value is then meaningless."""
    return tutor == card.baselines.ceiling and not metric.ceiling


def tutor_differences(
    card: Card, compared: ComparisonKey, measured: Mapping[str, Measurement], floors: Container[str] = ()
) -> Iterator[Difference]:
    """Yield the difference of every pair of tutors by one headline metric, in the order of the tutors.

    measured: measurement of the metric by tutor; floors: tutors that are not compared with each other.
    """
    answers = {tutor: answers_by_item(measurement) for tutor, measurement in measured.items()}
    sides: dict[tuple[str, frozenset[str]], TutorSide] = {}  # keyed by the tutor and the ids of the shared items

    def side(tutor: str, shared: frozenset[str]) -> TutorSide:
        if (tutor, shared) not in sides:
            entries = [answers[tutor][name] for name in sorted(shared)]
            problems = [problem for problem, several in entries for _ in several]
            grades = [graded for _, several in entries for graded in several]
            function = metric_function(measured[tutor].name, measured[tutor].metric, compared.scoring)
            sums = sums_by_cluster(function.counts(grades), problems)
            right = np.array([bool(several[0].correct) for _, several in entries])
            left_out = leave_one_out(sums, function.from_sums)
            outcomes = [(grade.value, grade.correct) for grade in grades]
            sides[tutor, shared] = TutorSide(
                function.value(grades), left_out, right, outcomes, len(sums), function.bounds
            )
        return sides[tutor, shared]

    for first, second in itertools.combinations(measured, 2):
        shared = frozenset(answers[first].keys() & answers[second].keys())
        if not shared or (first in floors and second in floors):
            continue
        measurement = measured[first]
        first_side, second_side = side(first, shared), side(second, shared)
        contrast = paired_difference(
            (first_side.value, second_side.value), (first_side.left_out, second_side.left_out), first_side.bounds
        )
        interval = Interval(*within_range(contrast.interval(), first_side.bounds)) if contrast else Interval(None, None)
        wins, losses, mcnemar = None, None, None
        if (measurement.metric.function or measurement.name) in RIGHT_OR_WRONG:
            wins, losses = (
                int((first_side.right & ~second_side.right).sum()),
                int((second_side.right & ~first_side.right).sum()),
            )
            mcnemar = exact_mcnemar(wins, losses)
        value = first_side.value - second_side.value
        yield Difference(
            benchmark=card.benchmark,
            task=card.task,
            first=first,
            second=second,
            metric=measurement.name,
            criterion=measurement.metric.criterion,
            by=compared.by,
            scoring=compared.scoring,
            value=None if np.isnan(value) else value,
            low=interval.low,
            high=interval.high,
            p=smallest_p(contrast, first_side.problems),
            centre=contrast.centre if contrast else None,
            error=contrast.error if contrast else None,
            largest=most if np.isfinite(most := largest_difference(first_side.bounds)) else None,
            # A metric may read more of a grade than its value, so equal grades with different values are not the same.
            same=first_side.grades == second_side.grades and not value > 0 and not value < 0,
            n=len(shared),
            clusters=first_side.problems,
            first_alone_right=wins,
            second_alone_right=losses,
            mcnemar_p=mcnemar,
        )


def largest_difference(bounds: tuple[float, float] | None) -> float:
    """Return the largest possible difference of two values within `bounds`; infinity without bounds."""
    return bounds[1] - bounds[0] if bounds is not None else np.inf


def within_range(interval: tuple[float, float], bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return an interval clipped to the differences that are possible between two values within `bounds`."""
    most = largest_difference(bounds)
    return max(interval[0], -most), min(interval[1], most)


@cache
def critical_value(degrees: int, comparisons: int) -> float:
    """Return the quantile of Student's t for a two-sided interval at the level 1 - ALPHA / comparisons."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 1 - ALPHA / comparisons / 2))


def simultaneous_interval(difference: Difference, comparisons: int) -> Interval:
    """Return the interval of a difference at the level 1 - ALPHA / comparisons.

    comparisons: size of the family. With a probability of at least 1 - ALPHA, all intervals of the family contain their
    true differences (Bonferroni). If a sign test over as many problems could not reach this level, the interval is
    extended to 0. Returns no bounds for a difference without a standard error.
    """
    if difference.centre is None or difference.error is None:
        return Interval(None, None)
    half = critical_value(difference.clusters - 1, comparisons) * difference.error
    most = np.inf if difference.largest is None else difference.largest
    low, high = max(difference.centre - half, -most), min(difference.centre + half, most)
    if 2.0 ** (1 - difference.clusters) > ALPHA / comparisons:
        low, high = min(low, 0.0), max(high, 0.0)
    return Interval(low, high)


def items_that_decide(difference: Difference, comparisons: int) -> int | None:
    """Return how many items would be enough for the interval to exclude 0 with a probability of POWER.

    The true difference and the variation between problems are assumed to be those found. comparisons: see
    `simultaneous_interval`. Returns None without a difference or an interval, or if the number is beyond any use.
    """
    from scipy.special import ndtri

    value, error, problems = difference.value, difference.error, difference.clusters
    if not value or not error:
        return None

    def decides(number: int) -> bool:
        if 2.0 ** (1 - number) > ALPHA / comparisons:
            return False
        expected = abs(value) * number / (number + 2 * PSEUDO_WEIGHT)
        return bool(
            expected >= (critical_value(number - 1, comparisons) + ndtri(POWER)) * error * (problems / number) ** 0.5
        )

    low, high = 2, MOST_PROBLEMS
    if not decides(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle + 1, high)
    return max(difference.n + 1, int(np.ceil(difference.n * low / problems)))


def smallest_p(contrast: StudentT | None, problems: int) -> float | None:
    """Return the p value of a difference, but at least 2 / 2^problems, the smallest p value of a sign test."""
    return None if contrast is None else max(contrast.p_value(), 2.0 ** (1 - problems))


def exact_mcnemar(wins: int, losses: int) -> float:
    """Return the p value of McNemar's exact test.

    wins, losses: number of items that only the first or only the second tutor answered correctly.
    """
    from statsmodels.stats.contingency_tables import mcnemar

    return float(mcnemar([[0, wins], [losses, 0]], exact=True).pvalue) if wins + losses else 1.0


def holm_corrected(comparisons: Sequence[Difference]) -> list[Difference]:
    """Return the differences with p values after Holm's correction over all differences under one scoring."""
    from statsmodels.stats.multitest import multipletests

    corrected: dict[int, float] = {}
    for scoring in {difference.scoring for difference in comparisons}:
        family = [
            place
            for place, difference in enumerate(comparisons)
            if difference.scoring == scoring and difference.p is not None
        ]
        if family:
            values = multipletests([comparisons[place].p for place in family], method="holm")[1]
            corrected |= {place: float(value) for place, value in zip(family, values, strict=True)}
    return [
        difference.model_copy(update={"p_holm": corrected.get(place)}) for place, difference in enumerate(comparisons)
    ]
