"""Statistics with 95 % intervals over whole problems: Clopper-Pearson, Student's t or percentile bootstrap."""

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
RATING_BOUNDS = (-math.inf, 1.0)  # range of a weighted rating, which deductions can take below zero
BATCH = 200  # maximum number of resamples in memory at once


class Interval(NamedTuple):
    """A 95 % interval; both ends are None if it cannot be computed.

    This is the case for fewer than two problems, and for an unbounded mean whose problems all have the same value.
    """

    low: float | None
    high: float | None


class BootstrapSettings(NamedTuple):
    """Number of bootstrap resamples and the random seed."""

    resamples: int
    seed: int


class Statistic(NamedTuple, Generic[T]):
    """Function of several observations, computed from additive counts so that whole problems can be resampled.

    value: function that returns the statistic of the observations, NaN if undefined; counts: function that returns k
    additive counts for each observation, as an array of observations x k; from_sums: function that maps sums of counts
    (... x k) to values (...); bounds: range of the value, infinite on an unbounded side, None to use a percentile
    bootstrap (for correlations and kappa); read: function that returns an observation's number, for a mean of these
    numbers, otherwise None.
    """

    value: Callable[[Sequence[T]], float]
    counts: Callable[[Sequence[T]], Array]
    from_sums: Callable[[Array], Array]
    bounds: tuple[float, float] | None = None
    read: Callable[[T], float] | None = None


class Estimate(NamedTuple):
    """A value with its interval over problems. The value is None if it is undefined or if there are no observations.

    n: number of observations; missing: number of observations left out; clusters: number of problems.
    """

    value: float | None
    interval: Interval
    n: int
    missing: int = 0
    clusters: int = 0


def safe_ratio(part: Array, whole: Array, empty: float) -> Array:
    """Return part / whole, or `empty` where whole is 0: 0 for F1, as in scikit-learn, or NaN for an undefined value."""
    return np.divide(part, whole, out=np.full(np.shape(part), empty, dtype=float), where=whole != 0)


def mean_statistic(read: Callable[[T], float], bounds: tuple[float, float] = UNBOUNDED) -> Statistic[T]:
    """Return the mean of one number per observation as a Statistic.

    read: function that returns an observation's number; bounds: range of the numbers.
    """
    return Statistic(
        bounds=bounds,
        value=lambda observed: float(np.mean([read(observation) for observation in observed])),
        counts=lambda observed: np.array([[read(observation), 1.0] for observation in observed]),
        from_sums=lambda sums: safe_ratio(sums[..., 0], sums[..., 1], empty=0.0),
        read=read,
    )


def difference_statistic(read: Callable[[T], tuple[float, bool]]) -> Statistic[T]:
    """Return the mean number of one kind of observations minus that of the others, as a Statistic.

    read: function that returns an observation's number, from 0 to 1, and whether it is of the first kind. The
    difference is undefined if all observations are of one kind.
    """

    def counts(observed: Sequence[T]) -> Array:
        pairs = [read(observation) for observation in observed]
        return np.array([[number * first, first, number * (not first), not first] for number, first in pairs], float)

    def from_sums(sums: Array) -> Array:
        return safe_ratio(sums[..., 0], sums[..., 1], math.nan) - safe_ratio(sums[..., 2], sums[..., 3], math.nan)

    return Statistic(lambda observed: float(from_sums(counts(observed).sum(axis=0))), counts, from_sums, (-1.0, 1.0))


MEAN: Statistic[float] = mean_statistic(float)
SHARE: Statistic[float] = mean_statistic(float, SHARE_BOUNDS)
RATING: Statistic[float] = mean_statistic(float, RATING_BOUNDS)


def estimate_statistic(
    statistic: Statistic[T],
    observed: Sequence[T],
    clusters: Sequence[str],
    sampling: BootstrapSettings,
    missing: int = 0,
) -> Estimate:
    """Return the value of a statistic for some observations, with its 95 % interval.

    clusters: problem of each observation; sampling: settings for a statistic that needs the bootstrap; missing: number
    of observations that are left out.
    """
    problems = len(set(clusters))
    value = statistic.value(observed) if observed else math.nan
    if math.isnan(value):
        return Estimate(None, Interval(None, None), len(observed), missing, problems)
    interval = statistic_interval(statistic, value, statistic.counts(observed), clusters, sampling)
    return Estimate(value, interval, len(observed), missing, problems)


def statistic_interval(
    statistic: Statistic[T], value: float, counts: Array, clusters: Sequence[str], sampling: BootstrapSettings
) -> Interval:
    """Return the 95 % interval of a statistic's value.

    counts: k additive counts of each observation; clusters: problem of each observation; sampling: settings for a
    statistic that needs the bootstrap.
    """
    if statistic.bounds is None:
        return bootstrap_interval(counts, statistic.from_sums, clusters, sampling)
    sums = sums_by_cluster(counts, clusters)
    if len(sums) < 2:
        return Interval(None, None)
    left_out, bounds = leave_one_out(sums, statistic.from_sums), statistic.bounds
    if bounds == UNBOUNDED and np.isin(counts[:, 0], (0, 1)).all():
        bounds = SHARE_BOUNDS  # because a mean of zeros and ones is a share
    if np.isfinite(bounds).all():
        return Interval(*bounded_interval(value, left_out, *bounds))
    mean = unbounded_mean(value, left_out)
    if mean is None:  # equal values do not show how far others may be from them
        return Interval(None, None)
    low, high = mean.interval()
    return Interval(max(low, bounds[0]), min(high, bounds[1]))


def leave_one_out(sums: Array, from_sums: Callable[[Array], Array]) -> Array:
    """Return the values of a statistic with each problem left out in turn, NaN where undefined.

    sums: k summed counts of each problem; from_sums: function that maps sums of counts (... x k) to values (...).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return from_sums(sums.sum(axis=0) - sums)


def normal_half_width(values: Sequence[float]) -> float | None:
    """Return half the width of the normal 95 % interval of a mean, 1.96 sd / sqrt(n); None for fewer than two values.

    TutorBench's Table 1 reports this half-width: the values in the table fit 1,490 samples with a standard deviation of
    about 20 points. Items that share a problem are treated as independent.
    """
    if len(values) < 2:
        return None
    return float(NormalDist().inv_cdf(0.5 + LEVEL / 2) * np.std(values, ddof=1) / np.sqrt(len(values)))


def sums_by_cluster(counts: Array, clusters: Sequence[str]) -> Array:
    """Return the summed counts of each problem, sorted by problem (observations x k -> problems x k)."""
    names, index = np.unique(np.array(clusters), return_inverse=True)
    sums = np.zeros((len(names), counts.shape[1]))
    np.add.at(sums, index, counts)
    return sums


def bootstrap_interval(
    counts: Array, from_sums: Callable[[Array], Array], clusters: Sequence[str], sampling: BootstrapSettings
) -> Interval:
    """Return the percentile bootstrap interval over whole problems, since several items may share a problem.

    For example, MathTutorBench's 1,150 items share 741 problems. Resamples for which the statistic is undefined are
    left out. Both ends are None if these are at least half (as for a rare label), or for fewer than two problems.
    counts: k additive counts of each observation; from_sums: function that maps sums of counts (... x k) to values
    (...); clusters: problem of each observation.
    """
    return percentile_interval(bootstrap_draws(counts, from_sums, clusters, sampling), sampling)


def percentile_interval(draws: Array, sampling: BootstrapSettings) -> Interval:
    """Return the percentile interval of bootstrap draws without NaN. Both ends are None if at least half are NaN."""
    known = draws[~np.isnan(draws)]
    if len(known) * 2 <= sampling.resamples:
        return Interval(None, None)
    low, high = np.percentile(known, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(float(low), float(high))


def bootstrap_draws(
    counts: Array, from_sums: Callable[[Array], Array], clusters: Sequence[str], sampling: BootstrapSettings
) -> Array:
    """Return the statistic of every resample, NaN if undefined; empty for fewer than two problems.

    The random choice of problems depends only on their number and the seed, so two tutors' draws on the same problems
    are paired.
    """
    sums = sums_by_cluster(counts, clusters)
    return resample_problems(sums, from_sums, sampling) if len(sums) > 1 else np.array([])


def resample_problems(sums: Array, from_sums: Callable[[Array], Array], sampling: BootstrapSettings) -> Array:
    """Return the statistic of each resample of the problems, drawn with replacement.

    The random numbers equal those of scipy.stats.bootstrap, which is not used, since importing scipy takes longer than
    computing most intervals. sums: k summed counts of each problem, for at least two problems.
    """
    problems, rng = len(sums), np.random.default_rng(sampling.seed)
    draws = []
    for start in range(0, sampling.resamples, BATCH):
        count = min(BATCH, sampling.resamples - start)
        resampled = rng.integers(0, problems, (count, problems))
        # Multiplying each problem's sums by its frequency takes much less memory than adding up the resampled rows.
        places = resampled + problems * np.arange(count)[:, None]
        times = np.bincount(places.ravel(), minlength=problems * count).reshape(count, problems)
        with np.errstate(divide="ignore", invalid="ignore"):  # the statistic can be undefined for a resample
            draws.append(from_sums(times @ sums))
    return np.concatenate(draws)
