"""Intervals for the mean over all items of a task, computed from a random sample that grows, and valid at every look.

An interval for a fixed sample covers the true value in fewer than 95 % of runs if the sample grows until the interval
is narrow. These cover it in 95 % whatever decides when to stop. Method: Waudby-Smith and Ramdas, "Estimating means of
bounded random variables by betting" (JRSS B 86, 2024), hedged capital with predictable bets, sampled without
replacement. The `limit` of a run draws such a sample, whose order is that of `ranked_by_seed`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from maieutic.config.cards import Metric, card_path, read_card
from maieutic.core.intervals import LEVEL, SHARE_BOUNDS
from maieutic.core.records import Item, Record, read_items, read_records, write_records
from maieutic.core.stats import Statistic
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.datasets.sources import read_source
from maieutic.preparation.items import with_picture_files
from maieutic.preparation.pictures import picture_files
from maieutic.scores.differences import CompareTutors, headline_measurements
from maieutic.scores.metrics import GradedItem
from maieutic.scores.score import Measurement, covered_items, metric_function

GRID = 2001  # number of candidate means; the interval's ends are rounded outwards to the next one
LARGEST_BET = 0.5  # largest share of the capital that is at stake on one item


class BoundMeans(CompareTutors):
    """Job that bounds the headline metrics of all items of some tasks, from the items that the run has asked.

    forms: format of each task's source file; pictured: tasks with pictures; answered: tasks that each tutor answers;
    asked: number of answers to an item, of each tutor that is a model; limit: number of items asked in this round.
    """

    forms: dict[str, str]
    pictured: list[str] = []
    answered: dict[str, list[str]]
    asked: dict[str, int]
    limit: int | None


class MeanBounds(Record):
    """A tutor's headline metric over all items of a task, with an interval that holds at every look at once.

    low, high: ends of the 95 % interval, both None if the metric is no mean over items of numbers from 0 to 1; n:
    number of items asked; population: number of all items; requests_left: requests to the tutor for the other items;
    limit: the run's limit of items, None for all.
    """

    benchmark: str
    task: str
    tutor: str
    metric: str
    by: str | None
    value: float | None
    low: float | None
    high: float | None
    n: int
    population: int
    requests_left: int
    limit: int | None

    def is_settled(self, width: float) -> bool:
        """Return True if the interval is no wider than `width`, or if more items could not narrow it."""
        return self.low is None or self.high is None or self.high - self.low <= width or self.n >= self.population


def betting_interval(numbers: Sequence[float], population: int) -> tuple[float, float]:
    """Return an interval for the mean of a population, from the first of its members in a random order.

    numbers: from 0 to 1, in that order; population: number of all members. With a probability of at least 95 %, the
    intervals of all beginnings of the sequence cover the mean. Their intersection would be narrower, but it is very
    narrow where one of them does not cover the mean: a run would stop just there.
    """
    means = np.linspace(0, 1, GRID)
    possible = np.ones(GRID, dtype=bool)
    log_high, log_low = np.zeros(GRID), np.zeros(GRID)  # capital of bets that the mean is higher, or lower
    threshold, total, estimate_total, squares = math.log(2 / (1 - LEVEL)), 0.0, 0.5, 0.25
    for number, value in enumerate(numbers, 1):
        # Mean of the members that are left, if the mean of the population is the candidate
        left = (population * means - total) / (population - number + 1)
        possible &= (left >= -1e-12) & (left <= 1 + 1e-12)
        left = np.clip(left, 0, 1)
        bet = math.sqrt(2 * threshold / (squares * math.log(number + 1)))
        with np.errstate(divide="ignore"):
            log_high += np.log1p(np.minimum(bet, LARGEST_BET / left) * (value - left))
            log_low += np.log1p(np.minimum(bet, LARGEST_BET / (1 - left)) * (left - value))
        total, estimate_total = total + value, estimate_total + value
        squares += (value - estimate_total / (number + 1)) ** 2
    lowest, highest = total / population, (total + population - len(numbers)) / population
    places = np.flatnonzero(possible & (np.maximum(log_high, log_low) < threshold))
    if not len(places):  # no candidate of the grid is possible: the interval lies between two of them
        return lowest, highest
    low, high = means[max(places[0] - 1, 0)], means[min(places[-1] + 1, GRID - 1)]
    return max(lowest, float(low)), min(highest, float(high))


def is_mean_of_shares(function: Statistic[GradedItem], metric: Metric) -> bool:
    """Return True if a metric is a mean over items of numbers from 0 to 1, so that its interval can be computed."""
    return function.read is not None and function.bounds == SHARE_BOUNDS and not metric.subset


def bounds_of(
    measured: Measurement, sample: Sequence[str], population: int, repeats: int
) -> tuple[float, float] | None:
    """Return the interval of a metric over all items; None if the metric is no mean of numbers from 0 to 1.

    sample: ids of the asked items in the order in which they were drawn; repeats: number of answers to each item that
    count. A missing answer can have any value.
    """
    function = metric_function(measured.name, measured.metric, measured.scoring)
    if function.read is None or not is_mean_of_shares(function, measured.metric):
        return None
    answers: dict[str, list[float]] = {}
    for item, graded in measured.evidence.known:
        answers.setdefault(item.base, []).append(function.read(graded))
    sums = [(sum(several), repeats - len(several)) for name in sample for several in [answers.get(name, [])]]
    low, high = betting_interval([known / repeats for known, _ in sums], population)
    if any(missing for _, missing in sums):
        _, high = betting_interval([(known + missing) / repeats for known, missing in sums], population)
    return low, high


def all_items(job: BoundMeans, task: str, source: Path, pictures: Path | None) -> list[Item]:
    """Return all items of a task, also those outside the run's sample."""
    card = read_card(card_path(job.benchmark, task)).card
    items = LOADERS[card.loader].load(read_source(source, job.forms[task]), task)
    return with_picture_files(items, picture_files(pictures)) if pictures else items


def requests_for(items: Sequence[Item], turns: int, repeats: int) -> int:
    """Return the number of requests to a tutor for some items. turns: turns of the task's conversation."""
    return repeats * sum(turns + len(item.script) for item in items)


def bound_means(
    *,
    job: BoundMeans,
    items: Path,
    sources: list[Path],
    pictures: list[Path],
    grades: list[Path],
    leader: list[Path] | None = None,
    out: Path,
) -> None:
    """Write the bounds of every tutor's headline metrics, one per line.

    items: folder of the benchmark's items; sources: source file of each task; pictures: list of pictures of each task
    in `job.pictured`; grades, leader: as for `compare_tutors`.
    """
    cases = {task: read_items(items, [task]) for task in job.tasks}
    lists = dict(zip(job.pictured, pictures, strict=True))
    populations = {
        task: all_items(job, task, source, lists.get(task)) for task, source in zip(job.tasks, sources, strict=True)
    }
    rows = []
    for compared, by_tutor in headline_measurements(job, cases, grades, leader or []).items():
        if compared.scoring != "robust":
            continue
        for tutor, measured in by_tutor.items():
            if tutor not in job.floors and compared.task in job.answered.get(tutor, []):
                rows.append(bounds_row(job, tutor, compared.task, measured, cases, populations))
    write_records(out, rows)


def bounds_row(
    job: BoundMeans,
    tutor: str,
    task: str,
    measured: Measurement,
    cases: Mapping[str, list[Item]],
    populations: Mapping[str, list[Item]],
) -> MeanBounds:
    """Return the bounds of one tutor's headline metric. cases, populations: asked and all items of each task."""
    everything = covered_items(measured.metric, populations[task])
    bases = {item.base for item in covered_items(measured.metric, cases[task])}
    sample = [name for name in ranked_by_seed((item.id for item in everything), job.seed) if name in bases]
    ends = bounds_of(measured, sample, len(everything), job.repeats.get(tutor, 1))
    card = read_card(card_path(job.benchmark, task)).card
    known = [graded for _, graded in measured.evidence.known]
    function = metric_function(measured.name, measured.metric, measured.scoring)
    left = [item for item in populations[task] if item.id not in {case.base for case in cases[task]}]
    return MeanBounds(
        benchmark=job.benchmark,
        task=task,
        tutor=tutor,
        metric=measured.name,
        by=measured.by,
        value=function.value(known) if known else None,
        low=ends[0] if ends else None,
        high=ends[1] if ends else None,
        n=len(sample),
        population=len(everything),
        requests_left=requests_for(left, len(card.turns), job.asked.get(tutor, 0)),
        limit=job.limit,
    )


def read_bounds(files: Iterable[Path]) -> list[MeanBounds]:
    """Return the bounds in those of the files that exist."""
    return [row for file in files if file.is_file() for row in read_records(file, MeanBounds)]


def stop_lines(rows: Sequence[MeanBounds], width: float) -> list[str]:
    """Return sentences on a run that stops at a width: what it saved so far, what holds, and what does not decide.

    rows: bounds of all tutors on all benchmarks.
    """
    left = sum(row.requests_left for row in rows)
    tasks = {(row.benchmark, row.task): (row.n, row.population) for row in rows}
    n, population = (sum(sizes) for sizes in zip(*tasks.values(), strict=True))
    saved = f"{n:,} of {population:,} items were asked, which saves {left:,} requests to tutors"
    lines = [saved if n < population else f"all {population:,} items were asked, so that no request was saved"]
    if not all(row.is_settled(width) for row in rows):
        lines.append(f"this round is not the last one: intervals are still wider than {width:g}")
    means = [row for row in rows if row.low is not None and row.high is not None]
    if means and n < population:
        widest = max(row.high - row.low for row in means if row.high is not None and row.low is not None)
        guarantee = (
            "covers the value over all items with a probability of 95 %, although the run looked after every round"
        )
        lines.append(f"the widest interval is {widest:.3f} wide; each {guarantee}")
    others = sorted({f"{row.benchmark}/{row.task} ({row.metric})" for row in rows if row.low is None})
    if others:
        lines.append(f"no means of numbers from 0 to 1, so they do not decide: {', '.join(others)}")
    return lines
