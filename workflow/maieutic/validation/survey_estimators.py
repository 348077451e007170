"""Estimates of the mean of a judge's verdicts, corrected with people's labels of a random sample of the replies.

The estimator is prediction-powered inference, in which the judge's weight is tuned (Angelopoulos et al., PPI++, 2023).
Each labelled reply is weighted by the inverse of its inclusion probability. The Hajek estimator is used if the replies
were sampled independently, and the Horvitz-Thompson estimator otherwise. All replies of the tutor together count as a
random sample of its possible replies. Labels and verdicts are between 0 and 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maieutic.core.intervals import LEVEL
from maieutic.core.stats import Array, Interval

PSEUDO = 0.5  # weight of two pseudo labels, 0 and 1, which keep the variance of equal labels above 0


class SampledReply(NamedTuple):
    """A labelled reply, with people's label, the judge's verdict and the sampling design.

    probability: inclusion probability; stratum: group of replies from which this reply was drawn at random, None if
    replies were sampled independently; size: number of replies in the stratum, None to derive it from the probability.
    """

    people: float
    judge: float
    probability: float
    stratum: str | None = None
    size: int | None = None


class CorrectedRate(NamedTuple):
    """An estimate and the components of its variance.

    sampling: variance from labelling only a sample; spread: variance of single labels; replies: number of all replies;
    n: number of labels; degrees_used: number to subtract from n for the degrees of freedom; judge_weight: weight of the
    judge's verdicts.
    """

    value: float
    sampling: float
    spread: float
    replies: int
    n: int
    degrees_used: int
    judge_weight: float

    @property
    def variance(self) -> float:
        """Variance of the estimated rate."""
        return self.spread / self.replies + self.sampling

    @property
    def labels_saved(self) -> float:
        """Number of labels that the judge saves: the number needed without the judge for the same variance, minus n."""
        return self.spread / self.variance - self.n if self.variance > 0 else 0.0


def corrected_mean(sample: Sequence[SampledReply], verdicts: Sequence[float], use_judge: bool = True) -> CorrectedRate:
    """Estimate the mean label that people would give to all replies.

    verdicts: the judge's verdicts on all replies; use_judge: False to estimate from the labels alone.
    """
    if all(reply.stratum is not None for reply in sample):
        return stratified_rate(sample, np.array(verdicts, dtype=float), use_judge)
    return hajek_rate(sample, np.array(verdicts, dtype=float), use_judge)


def replies_in_stratum(members: Sequence[SampledReply]) -> int:
    """Return the number of replies in a stratum. members: its labelled replies."""
    size = members[0].size or round(len(members) / members[0].probability)
    return max(len(members), size)


def sampled_population(sample: Sequence[SampledReply]) -> int | None:
    """Return the size of the population of a stratified sample; None if replies were sampled independently."""
    if not all(reply.stratum is not None for reply in sample):
        return None
    groups: dict[str, list[SampledReply]] = defaultdict(list)
    for reply in sample:
        groups[str(reply.stratum)].append(reply)
    return sum(map(replies_in_stratum, groups.values()))


def stratified_rate(sample: Sequence[SampledReply], verdicts: Array, use_judge: bool) -> CorrectedRate:
    """Estimate a rate from replies sampled at random within strata, without replacement."""
    groups: dict[str, list[SampledReply]] = defaultdict(list)
    for reply in sample:
        groups[str(reply.stratum)].append(reply)
    sizes = {name: replies_in_stratum(members) for name, members in groups.items()}
    total = sum(sizes.values())
    strata = []
    for name, members in groups.items():
        gold, judged = np.array([[reply.people, reply.judge] for reply in members], dtype=float).T
        share, n = sizes[name] / total, len(members)
        strata.append((share, share**2 * (1 - n / sizes[name]) / n, gold, judged))
    weight = 0.0
    if use_judge:
        covariances = [(part, np.cov(gold, judged)) for _, part, gold, judged in strata if len(gold) > 1]
        covariance = sum(part * float(table[0, 1]) for part, table in covariances)
        variance = sum(part * float(table[1, 1]) for part, table in covariances)
        weight = min(max(covariance / variance, 0.0), 1.0) if variance > 0 else 0.0
    value = weight * float(verdicts.mean()) + sum(
        share * float((gold - weight * judged).mean()) for share, _, gold, judged in strata
    )
    pseudo = PSEUDO / len(strata)
    sampling, second = 0.0, 0.0
    for share, part, gold, judged in strata:
        second += share * float((gold**2).mean())
        if part > 0:
            extra = np.array([0.0, 1.0]) - weight * judged.mean()
            weights = np.concatenate([np.ones(len(gold)), [pseudo, pseudo]])
            rest = np.concatenate([gold - weight * judged, extra])
            middle = np.average(rest, weights=weights)
            sampling += part * float((weights * (rest - middle) ** 2).sum() / max(weights.sum() - 1, pseudo))
    return CorrectedRate(
        value, sampling, label_variance(second, value, len(sample)), total, len(sample), len(strata) + 1, weight
    )


def hajek_rate(sample: Sequence[SampledReply], verdicts: Array, use_judge: bool) -> CorrectedRate:
    """Estimate a rate from replies sampled independently, each with its own inclusion probability (Hajek)."""
    gold, judged, chance = np.array([[reply.people, reply.judge, reply.probability] for reply in sample], dtype=float).T
    replies, n = len(verdicts), len(sample)
    heavy = (1 - chance) / chance**2
    weights = heavy if heavy.sum() > 0 else 1 / chance
    weight = 0.0
    if use_judge:
        deviations = judged - np.average(judged, weights=weights)
        denominator = float((weights * deviations**2).sum())
        weight = (
            min(max(float((weights * deviations * gold).sum()) / denominator, 0.0), 1.0) if denominator > 0 else 0.0
        )
    intercept = float(np.average(gold - weight * judged, weights=1 / chance))
    value = intercept + weight * float(verdicts.mean())
    rest = gold - intercept - weight * judged
    sampling = float((heavy * rest**2).sum()) / replies**2 * n / max(n - 2, 1)
    sampling += PSEUDO * float(heavy.mean()) * (value**2 + (1 - value) ** 2) / replies**2
    second = float(np.average(gold**2, weights=1 / chance))
    return CorrectedRate(value, sampling, label_variance(second, value, n), replies, n, 2, weight)


def label_variance(second: float, value: float, n: int) -> float:
    """Return the variance of single labels, including the pseudo labels. second: mean of the squared labels."""
    total = n + 2 * PSEUDO
    return max((n * second + PSEUDO) / total - ((n * value + PSEUDO) / total) ** 2, 0.0)


def corrected_interval(parts: CorrectedRate) -> Interval:
    """Return Wilson's 95 % interval for the effective number of labels, with quantiles of Student's t."""
    from scipy.stats import t as student

    middle = min(max(parts.value, 0.0), 1.0)
    smoothed = (middle * parts.n + PSEUDO) / (parts.n + 2 * PSEUDO)
    if parts.variance <= 0:
        return Interval(None, None)
    effective = smoothed * (1 - smoothed) / parts.variance
    width = float(student.ppf(0.5 + LEVEL / 2, max(parts.n - parts.degrees_used, 1)))
    share = 1 + width**2 / effective
    centre = (middle + width**2 / (2 * effective)) / share
    half = width / share * math.sqrt(middle * (1 - middle) / effective + width**2 / (4 * effective**2))
    return Interval(max(centre - half, 0.0), min(centre + half, 1.0))


class RateDifference(NamedTuple):
    """Difference of two tutors' corrected rates, with its 95 % interval and p value."""

    value: float
    interval: Interval
    p: float


def rate_difference(
    first: CorrectedRate, second: CorrectedRate, correlation: float, error_variance: float = 0.0
) -> RateDifference:
    """Return the difference of two corrected rates on the same items.

    correlation: correlation between people's labels of the two tutors' replies to the same item, 0 if unknown. The
    variance that the labels share cancels, so a correlation of 0 yields a wider interval. The variance from labelling
    only a sample does not cancel, since each tutor's replies were sampled separately. error_variance:
    variance that comes from the annotators' error rates.
    """
    from scipy.stats import t as student

    shared = 2 * max(correlation, 0.0) * math.sqrt(first.spread * second.spread) / max(first.replies, second.replies)
    variance = first.variance + second.variance - shared + error_variance
    value = first.value - second.value
    freedom = max(min(first.n - first.degrees_used, second.n - second.degrees_used), 1)
    error = math.sqrt(max(variance, 0.0))
    if error == 0:
        return RateDifference(value, Interval(None, None), 1.0)
    half = float(student.ppf(0.5 + LEVEL / 2, freedom)) * error
    return RateDifference(
        value, Interval(value - half, value + half), float(2 * student.sf(abs(value) / error, freedom))
    )
