"""One statistic, one interval: values with intervals over whole problems, exact ones where a value has bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from maieutic.core.intervals import LEVEL, SHARE_BOUNDS, bounded_interval, unbounded_mean

Array = npt.NDArray[np.float64]
T = TypeVar("T")
UNBOUNDED = (-math.inf, math.inf)
RATING_BOUNDS = (-math.inf, 1.0)  # deductions can take a weighted rating below zero
BATCH = 200  # resamples held in memory at once


class Interval(NamedTuple):
    """A 95 % interval; None where fewer than two problems leave nothing to resample."""

    low: float | None
    high: float | None


class Sampling(NamedTuple):
    """How intervals are made: by so many resamples, from this seed."""

    resamples: int
    seed: int


class Statistic(NamedTuple, Generic[T]):
    """A number of several observations, written so that whole problems can be drawn again without touching them.

    value: of the observations, NaN where they leave it open; counts: observations x k, which add up; of_sums:
    ... x k -> ..., the value from the sums of counts; bounds: between which the value lies, infinite where there is
    none; None: a statistic whose interval is a percentile bootstrap (correlations, kappa).
    """

    value: Callable[[Sequence[T]], float]
    counts: Callable[[Sequence[T]], Array]
    of_sums: Callable[[Array], Array]
    bounds: tuple[float, float] | None = None


class Estimate(NamedTuple):
    """A value with its interval over problems and what it is made of: n observations of so many problems.

    missing: observations that are left out. The value is None where it is open or nothing was observed.
    """

    value: float | None
    interval: Interval
    n: int
    missing: int = 0
    clusters: int = 0


def share(part: Array, whole: Array, empty: float) -> Array:
    """part / whole. empty: what 0 / 0 is, 0 as scikit-learn has it for F1, or NaN where there is no such share."""
    return np.divide(part, whole, out=np.full(np.shape(part), empty, dtype=float), where=whole != 0)


def mean_of(read: Callable[[T], float], bounds: tuple[float, float] = UNBOUNDED) -> Statistic[T]:
    """The mean of one number an observation. bounds: of each number, where there are some."""
    return Statistic(
        bounds=bounds,
        value=lambda observed: float(np.mean([read(observation) for observation in observed])),
        counts=lambda observed: np.array([[read(observation), 1.0] for observation in observed]),
        of_sums=lambda sums: share(sums[..., 0], sums[..., 1], empty=0.0),
    )


MEAN: Statistic[float] = mean_of(float)
SHARE: Statistic[float] = mean_of(float, SHARE_BOUNDS)
RATING: Statistic[float] = mean_of(float, RATING_BOUNDS)


def estimate(
    statistic: Statistic[T], observed: Sequence[T], clusters: Sequence[str], sampling: Sampling, missing: int = 0
) -> Estimate:
    """A statistic of some observations with its interval.

    clusters: the problem of each observation; missing: observations that are not among them.
    """
    problems = len(set(clusters))
    value = statistic.value(observed) if observed else math.nan
    if math.isnan(value):
        return Estimate(None, Interval(None, None), len(observed), missing, problems)
    interval = interval_of(statistic, value, statistic.counts(observed), clusters, sampling)
    return Estimate(value, interval, len(observed), missing, problems)


def interval_of(
    statistic: Statistic[T], value: float, counts: Array, clusters: Sequence[str], sampling: Sampling
) -> Interval:
    """The 95 % interval of a value over problems; none for fewer than two. counts, clusters: as of `estimate`."""
    if statistic.bounds is None:
        return clustered_interval(counts, statistic.of_sums, clusters, sampling)
    sums = sums_by_cluster(counts, clusters)
    if len(sums) < 2:
        return Interval(None, None)
    left_out, bounds = without_each(sums, statistic.of_sums), statistic.bounds
    if bounds == UNBOUNDED and np.isin(counts[:, 0], (0, 1)).all():
        bounds = SHARE_BOUNDS  # a mean of zeros and ones is a share
    if np.isfinite(bounds).all():
        return Interval(*bounded_interval(value, left_out, *bounds))
    mean = unbounded_mean(value, left_out)
    if mean is None:
        return Interval(value, value)
    low, high = mean.interval()
    return Interval(max(low, bounds[0]), min(high, bounds[1]))


def without_each(sums: Array, of_sums: Callable[[Array], Array]) -> Array:
    """Return the statistic without each problem in turn, NaN where undefined. sums: problems x k -> problems."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return of_sums(sums.sum(axis=0) - sums)


def normal_half_width(values: Sequence[float]) -> float | None:
    """Half of a normal 95 % interval of a mean, 1.96 sd / sqrt(n); None for fewer than two values.

    TutorBench's Table 1 prints it (it fits 1,490 samples with a standard deviation of about 20 points). It takes items
    that share a problem for independent.
    """
    if len(values) < 2:
        return None
    return float(NormalDist().inv_cdf(0.5 + LEVEL / 2) * np.std(values, ddof=1) / np.sqrt(len(values)))


def sums_by_cluster(counts: Array, clusters: Sequence[str]) -> Array:
    """Add up the observations of each problem: observations x k -> problems x k, problems in sorted order."""
    names, index = np.unique(np.array(clusters), return_inverse=True)
    sums = np.zeros((len(names), counts.shape[1]))
    np.add.at(sums, index, counts)
    return sums


def clustered_interval(
    counts: Array, of_sums: Callable[[Array], Array], clusters: Sequence[str], sampling: Sampling
) -> Interval:
    """Percentile bootstrap that draws whole problems with replacement (MathTutorBench's 1,150 items hold 741).

    Of the resamples that have a value; there is no interval where most have none (a label that is rare), or where
    fewer than two problems leave nothing to draw. counts: observations x k; of_sums: ... x k -> ...; clusters: the
    problem of each observation.
    """
    return percentiles(clustered_draws(counts, of_sums, clusters, sampling), sampling)


def percentiles(drawn: Array, sampling: Sampling) -> Interval:
    """The interval of the draws that have a value; none where most have none."""
    known = drawn[~np.isnan(drawn)]
    if len(known) * 2 <= sampling.resamples:
        return Interval(None, None)
    low, high = np.percentile(known, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(float(low), float(high))


def clustered_draws(
    counts: Array, of_sums: Callable[[Array], Array], clusters: Sequence[str], sampling: Sampling
) -> Array:
    """The statistic of every resample, NaN where it has none; empty where there is nothing to resample.

    The same problems are drawn whatever is counted of them, so that two tutors' draws on the same problems are pairs.
    """
    sums = sums_by_cluster(counts, clusters)
    return drawn_again(sums, of_sums, sampling) if len(sums) > 1 else np.array([])


def drawn_again(sums: Array, of_sums: Callable[[Array], Array], sampling: Sampling) -> Array:
    """Problems drawn with replacement, number for number as scipy.stats.bootstrap draws them (a test compares).

    Without scipy, whose import takes longer than most of these intervals. sums: problems x k, two problems or more.
    """
    problems, rng = len(sums), np.random.default_rng(sampling.seed)
    draws = []
    for start in range(0, sampling.resamples, BATCH):
        count = min(BATCH, sampling.resamples - start)
        drawn = rng.integers(0, problems, (count, problems))
        # How often each problem was drawn, times its sums: the same as adding up the drawn rows, and much less memory.
        places = drawn + problems * np.arange(count)[:, None]
        times = np.bincount(places.ravel(), minlength=problems * count).reshape(count, problems)
        with np.errstate(divide="ignore", invalid="ignore"):  # a resample may leave a statistic open
            draws.append(of_sums(times @ sums))
    return np.concatenate(draws)
