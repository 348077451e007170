"""Uncertainty: intervals by bootstrap over problems, paired comparisons of tutors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import bootstrap

Array = npt.NDArray[np.float64]
LEVEL = 0.95
BATCH = 200  # resamples held in memory at once


class Interval(NamedTuple):
    """A 95 % interval; None where fewer than two problems leave nothing to resample."""

    low: float | None
    high: float | None


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
    sums = sums_by_cluster(counts, clusters)
    if len(sums) < 2:
        return Interval(None, None)

    def statistic(drawn: npt.NDArray[np.int64], axis: int = -1) -> Array:
        return of_sums(np.take(sums, drawn, axis=0).sum(axis=-2))

    result = bootstrap(
        (np.arange(len(sums)),),
        statistic,
        n_resamples=resamples,
        batch=BATCH,
        confidence_level=LEVEL,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    return Interval(float(result.confidence_interval.low), float(result.confidence_interval.high))
