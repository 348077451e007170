"""95 % intervals that are computed from leave-one-problem-out values and keep their coverage for shares near 0 and 1.

A percentile bootstrap returns [1.00, 1.00] for 20 right answers out of 20. If the true share is .97, its coverage is
therefore only about 47 %. `bench/intervals.py` measures the coverage of the intervals computed here;
docs/benchmarks.md has the results.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
LEVEL = 0.95
SHARE_BOUNDS = (0.0, 1.0)
TINY = 1e-12
END_TOLERANCE = 1e-9  # distance from 0 or 1 within which a share counts as 0 or 1
SPREAD_CAP = 20  # the effective size of k problems with value v is at most k (1 + 20 k v (1 - v)); see effective_size
PSEUDO_WEIGHT = 0.75  # weight of each of the two pseudo-problems in StudentT


def influences(left_out: Array) -> Array:
    """Return centred jackknife pseudo-values: (k - 1) (mean - left_out).

    left_out: value of the statistic with each of the k problems left out in turn.
    """
    return (len(left_out) - 1) * (left_out.mean() - left_out)


def clopper_pearson(share: float, size: float) -> tuple[float, float]:
    """Return the exact Clopper-Pearson interval of a share. size: sample size, which may be fractional."""
    from scipy.special import betaincinv

    tail, hits, misses = (1 - LEVEL) / 2, share * size, (1 - share) * size
    low = 0.0 if hits <= END_TOLERANCE else float(betaincinv(hits, misses + 1, tail))
    high = 1.0 if misses <= END_TOLERANCE else float(betaincinv(hits + 1, misses, 1 - tail))
    return low, high


def effective_size(share: float, left_out: Array) -> float:
    """Return the number of independent observations that would give the same standard error (Korn and Graubard 1998).

    If the leave-one-problem-out values do not vary, the result is the number of problems. Other results are capped,
    since the estimated variation is unreliable for a share near 0 or 1.
    share: value of the statistic; left_out: leave-one-problem-out values; both are scaled to [0, 1].
    """
    from scipy.special import ndtri, stdtrit

    problems = len(left_out)
    variance = float((influences(left_out) ** 2).sum() / (problems * (problems - 1)))
    if variance <= TINY or not END_TOLERANCE < share < 1 - END_TOLERANCE:
        return float(problems)
    shrunk = (float(ndtri((1 + LEVEL) / 2)) / float(stdtrit(problems - 1, (1 + LEVEL) / 2))) ** 2
    size = shrunk * share * (1 - share) / variance
    return max(1.0, min(size, problems * (1 + SPREAD_CAP * problems * share * (1 - share))))


def bounded_interval(value: float, left_out: Array, low: float, high: float) -> tuple[float, float]:
    """Return the 95 % interval of a statistic with bounds `low` and `high`.

    The result is the union of two Clopper-Pearson intervals on the effective number of problems: one around `value`,
    and one around the bias-corrected (jackknife) value, which matters for macro F1 over many classes.
    left_out: leave-one-problem-out values of at least two problems; each undefined one is replaced by the bound farther
    from `value`.
    """
    problems, share = len(left_out), min(max((value - low) / (high - low), 0.0), 1.0)
    scaled = replace_undefined((left_out - low) / (high - low), share, SHARE_BOUNDS)
    size = effective_size(share, scaled)
    corrected = min(max(problems * share - (problems - 1) * float(scaled.mean()), 0.0), 1.0)
    lower, upper = clopper_pearson(share, size)
    if END_TOLERANCE < share < 1 - END_TOLERANCE and abs(corrected - share) > TINY:
        inside = END_TOLERANCE < corrected < 1 - END_TOLERANCE
        others = clopper_pearson(corrected, size if inside else float(problems))
        lower, upper = min(lower, others[0]), max(upper, others[1])
    return min(value, low + (high - low) * lower), max(value, low + (high - low) * upper)


class StudentT:
    """Student's t distribution of a paired difference of two statistics on the same problems, or of an unbounded mean.

    Two pseudo-problems of weight 3/4, at +h and -h, keep the interval's width positive if few problems differ (after
    Agresti and Min 2005, Bonett and Price 2012). Here h is the geometric mean of two numbers: the range of all
    pseudo-values and the largest absolute influence.
    """

    def __init__(self, value: float, influence: Array, spread: float, paired: bool) -> None:
        """value: the difference or mean; influence: result of `influences`; spread: range of all pseudo-values.

        paired: True for a difference, False for a mean.
        """
        problems, largest = len(influence), float(np.abs(influence).max())
        step = (spread * (largest if largest > TINY * spread else spread)) ** 0.5
        weight = problems + 2 * PSEUDO_WEIGHT
        self.degrees = problems - 1
        self.centre = value * problems / weight if paired else value
        squares = float((influence**2).sum())
        if paired:
            squares += problems * (value - self.centre) ** 2
            squares += PSEUDO_WEIGHT * ((step - self.centre) ** 2 + (step + self.centre) ** 2)
        else:
            squares, weight = squares + 2 * PSEUDO_WEIGHT * step**2, float(problems)
        self.error = (squares / (weight * (weight - 1))) ** 0.5

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval."""
        from scipy.special import stdtrit

        half = float(stdtrit(self.degrees, (1 + LEVEL) / 2)) * self.error
        return self.centre - half, self.centre + half

    def p_value(self) -> float:
        """Return the two-sided p value of the hypothesis of no difference; below .05 if the interval excludes zero."""
        from scipy.special import stdtr

        return min(1.0, 2 * float(stdtr(self.degrees, -abs(self.centre) / self.error)))


def unbounded_mean(value: float, left_out: Array) -> StudentT | None:
    """Return the t distribution of an unbounded mean, or None if its standard error cannot be estimated.

    This is the case if all problems have the same mean, or if a leave-one-problem-out mean is undefined.
    value: the mean; left_out: leave-one-problem-out means.
    """
    influence = influences(left_out)
    spread = float(np.ptp(influence))
    if not np.isfinite(left_out).all() or spread <= TINY * max(abs(value), TINY):
        return None
    return StudentT(value, influence, spread, paired=False)


def paired_difference(
    values: tuple[float, float], left_out: tuple[Array, Array], bounds: tuple[float, float] | None
) -> StudentT | None:
    """Return the t distribution of the difference of two tutors' statistics.

    values: each tutor's statistic; left_out: each tutor's leave-one-problem-out values over the same k problems;
    bounds: range of the statistic, None if unknown.
    Returns None for fewer than two problems or an undefined statistic. Without finite bounds, also returns None if a
    leave-one-problem-out value is undefined, or if these values do not vary.
    """
    first, second = left_out
    if len(first) < 2 or not np.isfinite(values).all():
        return None
    known = bounds if bounds is not None and np.isfinite(bounds).all() else None
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        if known is None:
            return None
        first, second = (replace_undefined(side, value, known) for side, value in zip(left_out, values, strict=True))
    of_first, of_second = influences(first), influences(second)
    spread = float(np.ptp(np.concatenate([values[0] + of_first, values[1] + of_second])))
    if spread <= END_TOLERANCE * max(abs(values[0]), abs(values[1]), TINY):
        if known is None:
            return None
        spread = known[1] - known[0]
    return StudentT(values[0] - values[1], of_first - of_second, spread, paired=True)


def replace_undefined(left_out: Array, value: float, bounds: tuple[float, float]) -> Array:
    """Return leave-one-out values with each undefined one replaced by the bound farther from `value`."""
    middle = sum(bounds) / 2
    return np.where(np.isfinite(left_out), left_out, bounds[0] if value > middle else bounds[1])
