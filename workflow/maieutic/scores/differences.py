"""Paired differences of tutors: how far one is ahead of another on the items that both have answered.

Of every headline metric: the difference with its interval over problems and its p value, by Student's t with two pseudo
problems (`maieutic.core.intervals`); where an item is right or wrong, McNemar's exact test beside it. Holm's correction
is over all pairs of tutors and all headline metrics of one benchmark under one scoring.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maieutic.config.cards import Card, Metric
from maieutic.core.files import whole_file
from maieutic.core.intervals import Array, StudentT, paired_difference
from maieutic.core.records import Difference, Grade, Scoring, read_items, records_about
from maieutic.core.stats import Interval, sums_by_cluster, without_each
from maieutic.scores.score import Measured, ScoringJob, function_of, index_of, measured_on

RIGHT_OR_WRONG = frozenset({"accuracy", "match", "micro_f1"})  # functions that are shares of right items


class CompareTutors(ScoringJob):
    """Every pair of tutors on some tasks of one benchmark. tutors: whose grades each file holds."""

    tutors: list[str]


class Compared(NamedTuple):
    """What tutors are compared by: a task's headline metric under one scoring, by one grader (None: a parser)."""

    task: str
    scoring: Scoring
    by: str | None


class Side(NamedTuple):
    """One tutor on some items: the metric's value, with one problem left out, which items are right, the problems.

    left_out: one value a problem; bounds: of the metric.
    """

    value: float
    left_out: Array
    right: npt.NDArray[np.bool_]
    problems: int
    bounds: tuple[float, float] | None


def compare_tutors(*, job: CompareTutors, items: Path, grades: list[Path], out: Path) -> None:
    """Write the differences of every pair of tutors as a JSON list.

    items: the folder of the benchmark's items; grades: files of grades, one for each of the job's tutors, which may be
    named several times.
    """
    cards = {task: job.card(task) for task in job.tasks}
    cases = {task: read_items(items, [task]) for task in cards}
    known = [item for of_task in cases.values() for item in of_task]
    files: dict[str, list[Path]] = defaultdict(list)
    for tutor, path in zip(job.tutors, grades, strict=True):
        files[tutor].append(path)
    measured: dict[Compared, dict[str, Measured]] = defaultdict(dict)
    for tutor, paths in files.items():
        index = index_of(grade for path in paths for grade in records_about(path, Grade, known, by=...))
        for task, card in cards.items():
            for measurement in measured_on(card, cases[task], index, job.judging.get(task)):
                if measurement.metric.headline and not against_itself(card, measurement.metric, tutor):
                    measured[Compared(task, measurement.scoring, measurement.by)][tutor] = measurement
    comparisons = [
        difference
        for compared, by_tutor in measured.items()
        for difference in differences(cards[compared.task], compared, by_tutor)
    ]
    with whole_file(out) as handle:
        handle.write(
            "[\n" + ",\n".join(difference.model_dump_json() for difference in with_holm(comparisons)) + "\n]\n"
        )


def against_itself(card: Card, metric: Metric, tutor: str) -> bool:
    """Whether a tutor is the reference that a metric holds replies against: its value says nothing of it."""
    return tutor == card.baselines.ceiling and not metric.ceiling


def differences(card: Card, compared: Compared, measured: Mapping[str, Measured]) -> Iterator[Difference]:
    """The difference of every pair of tutors by one headline metric, in the order of the tutors."""
    answers = {
        tutor: {item.id: (item.cluster, graded) for item, graded in measurement.found.known}
        for tutor, measurement in measured.items()
    }
    sides: dict[tuple[str, frozenset[str]], Side] = {}  # a tutor on the items that it shares with another

    def side(tutor: str, shared: frozenset[str]) -> Side:
        if (tutor, shared) not in sides:
            entries = [answers[tutor][name] for name in sorted(shared)]
            problems, graded = [problem for problem, _ in entries], [one for _, one in entries]
            function = function_of(measured[tutor].name, measured[tutor].metric, compared.scoring)
            sums = sums_by_cluster(function.counts(graded), problems)
            right = np.array([bool(one.correct) for one in graded])
            left_out = without_each(sums, function.of_sums)
            sides[tutor, shared] = Side(function.value(graded), left_out, right, len(sums), function.bounds)
        return sides[tutor, shared]

    for first, second in itertools.combinations(measured, 2):
        shared = frozenset(answers[first].keys() & answers[second].keys())
        if not shared:
            continue
        measurement = measured[first]
        one, other = side(first, shared), side(second, shared)
        contrast = paired_difference((one.value, other.value), (one.left_out, other.left_out), one.bounds)
        interval = Interval(*within_range(contrast.interval(), one.bounds)) if contrast else Interval(None, None)
        wins, losses, mcnemar = None, None, None
        if (measurement.metric.function or measurement.name) in RIGHT_OR_WRONG:
            wins, losses = int((one.right & ~other.right).sum()), int((other.right & ~one.right).sum())
            mcnemar = exact_mcnemar(wins, losses)
        value = one.value - other.value
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
            p=smallest_p(contrast, one.problems),
            n=len(shared),
            clusters=one.problems,
            first_alone_right=wins,
            second_alone_right=losses,
            mcnemar_p=mcnemar,
        )


def within_range(interval: tuple[float, float], bounds: tuple[float, float] | None) -> tuple[float, float]:
    """Return an interval cut to the differences that two values between these bounds can have."""
    most = bounds[1] - bounds[0] if bounds is not None else np.inf
    return max(interval[0], -most), min(interval[1], most)


def smallest_p(contrast: StudentT | None, problems: int) -> float | None:
    """Return the p value of no difference, at least 2 / 2^problems: the minimum of a sign test."""
    return None if contrast is None else max(contrast.p_value(), 2.0 ** (1 - problems))


def exact_mcnemar(wins: int, losses: int) -> float:
    """McNemar's exact test: of the items that one tutor alone has right, whether as many are either's."""
    from statsmodels.stats.contingency_tables import mcnemar

    return float(mcnemar([[0, wins], [losses, 0]], exact=True).pvalue) if wins + losses else 1.0


def with_holm(comparisons: Sequence[Difference]) -> list[Difference]:
    """The differences with Holm's corrected p values, over all that share a scoring and have a p value."""
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
