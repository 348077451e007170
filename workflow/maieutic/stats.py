"""Uncertainty: intervals by bootstrap over problems, paired comparisons of tutors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
LEVEL = 0.95
BATCH = 200  # resamples held in memory at once


class Interval(NamedTuple):
    """A 95 % interval; None where fewer than two problems leave nothing to resample."""

    low: float | None
    high: float | None


def normal_half_width(values: Sequence[float]) -> float | None:
    """Half of a normal 95 % interval of a mean, 1.96 sd / sqrt(n); None for fewer than two values.

    TutorBench's Table 1 prints it (it fits 1,490 samples with a standard deviation of about 20 points). It takes items
    that share a problem for independent.
    """
    if len(values) < 2:
        return None
    from scipy.stats import norm

    return float(norm.ppf(0.5 + LEVEL / 2) * np.std(values, ddof=1) / np.sqrt(len(values)))


def sums_by_cluster(counts: Array, clusters: list[str]) -> Array:
    """Add up the items of each problem: items x k -> problems x k, problems in sorted order."""
    names, index = np.unique(np.array(clusters), return_inverse=True)
    sums = np.zeros((len(names), counts.shape[1]))
    np.add.at(sums, index, counts)
    return sums


def clustered_interval(
    counts: Array, of_sums: Callable[[Array], Array], clusters: list[str], resamples: int, seed: int
) -> Interval:
    """Percentile bootstrap that draws whole problems with replacement (MathTutorBench's 1,150 items hold 741).

    counts: items x k; of_sums: ... x k -> ...; clusters: the problem of each item.
    """
    result = resampled(counts, of_sums, clusters, resamples, seed)
    if result is None:
        return Interval(None, None)
    return Interval(float(result.confidence_interval.low), float(result.confidence_interval.high))


def clustered_draws(
    counts: Array, of_sums: Callable[[Array], Array], clusters: list[str], resamples: int, seed: int
) -> Array:
    """The statistic of every resample; empty where there is nothing to resample. For statistics that may be NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of the NaN that the caller asks for
        result = resampled(counts, of_sums, clusters, resamples, seed)
    return np.array([]) if result is None else np.asarray(result.bootstrap_distribution)


def resampled(counts: Array, of_sums: Callable[[Array], Array], clusters: list[str], resamples: int, seed: int) -> Any:
    """scipy's bootstrap over problems; None with fewer than two of them."""
    sums = sums_by_cluster(counts, clusters)
    if len(sums) < 2:
        return None

    problems = len(sums)

    def statistic(drawn: npt.NDArray[np.int64], axis: int = -1) -> Array:
        # How often each problem was drawn, times its sums: the same as adding up the drawn rows, and much less memory.
        flat = drawn.reshape(-1, drawn.shape[-1])
        places = flat + problems * np.arange(len(flat))[:, None]
        times = np.bincount(places.ravel(), minlength=problems * len(flat)).reshape(len(flat), problems)
        return of_sums((times @ sums).reshape(*drawn.shape[:-1], sums.shape[-1]))

    from scipy.stats import bootstrap

    return bootstrap(
        (np.arange(len(sums)),),
        statistic,
        n_resamples=resamples,
        batch=BATCH,
        confidence_level=LEVEL,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
