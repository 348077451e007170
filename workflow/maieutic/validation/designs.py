"""A judge's rate corrected by labels that were drawn with known probabilities.

Prediction-powered inference with a tuned weight of the judge (Angelopoulos et al., PPI++, 2023), the labelled replies
weighted by their probabilities (Horvitz and Thompson; Hajek where replies were drawn one by one). The replies are a
sample themselves: of what a tutor says, its N replies are N draws. Values lie between 0 and 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maieutic.core.intervals import LEVEL
from maieutic.core.stats import Array, Interval

PSEUDO = 0.5  # a label of 0 and one of 1 weigh so much in a variance: a group whose labels are equal has one too


class Drawn(NamedTuple):
    """One labelled reply: what people and judge say of it, the probability that it was drawn, and how.

    stratum: of which replies it was drawn at random; size: how many they are, None where the probability alone says it.
    """

    people: float
    judge: float
    probability: float
    stratum: str | None = None
    size: int | None = None


class Parts(NamedTuple):
    """An estimate with what its variance is made of.

    sampling: the variance that comes of labelling a part only; spread: of single labels; replies: N; n: labels; lost:
    degrees of freedom that were used; judge: the weight of the judge's verdicts.
    """

    value: float
    sampling: float
    spread: float
    replies: int
    n: int
    lost: int
    judge: float

    @property
    def variance(self) -> float:
        """The variance of the value."""
        return self.spread / self.replies + self.sampling

    @property
    def saved(self) -> float:
        """How many labels more a plain mean of labels would need for the same interval."""
        return self.spread / self.variance - self.n if self.variance > 0 else 0.0


def corrected_mean(drawn: Sequence[Drawn], verdicts: Sequence[float], use_judge: bool = True) -> Parts:
    """The mean of what people would say of all replies. verdicts: the judge's, of every reply.

    use_judge: whether the judge counts; else it is what the labels alone say.
    """
    if all(one.stratum is not None for one in drawn):
        return by_strata(drawn, np.array(verdicts, dtype=float), use_judge)
    return one_by_one(drawn, np.array(verdicts, dtype=float), use_judge)


def size_of(members: Sequence[Drawn]) -> int:
    """How many replies a stratum has. members: those of it that are labelled."""
    said = members[0].size or round(len(members) / members[0].probability)
    return max(len(members), said)


def population_of(drawn: Sequence[Drawn]) -> int | None:
    """Of how many replies a sample says that it was drawn; None where it was drawn one by one."""
    if not all(one.stratum is not None for one in drawn):
        return None
    groups: dict[str, list[Drawn]] = defaultdict(list)
    for one in drawn:
        groups[str(one.stratum)].append(one)
    return sum(map(size_of, groups.values()))


def by_strata(drawn: Sequence[Drawn], verdicts: Array, use_judge: bool) -> Parts:
    """Of a sample that was drawn at random within strata, without replacement."""
    groups: dict[str, list[Drawn]] = defaultdict(list)
    for one in drawn:
        groups[str(one.stratum)].append(one)
    sizes = {name: size_of(members) for name, members in groups.items()}
    total = sum(sizes.values())
    strata = []
    for name, members in groups.items():
        gold, said = np.array([[one.people, one.judge] for one in members], dtype=float).T
        share, n = sizes[name] / total, len(members)
        strata.append((share, share**2 * (1 - n / sizes[name]) / n, gold, said))
    weight = 0.0
    if use_judge:
        apart = [(part, np.cov(gold, said)) for _, part, gold, said in strata if len(gold) > 1]
        covariance = sum(part * float(table[0, 1]) for part, table in apart)
        variance = sum(part * float(table[1, 1]) for part, table in apart)
        weight = min(max(covariance / variance, 0.0), 1.0) if variance > 0 else 0.0
    value = weight * float(verdicts.mean()) + sum(
        share * float((gold - weight * said).mean()) for share, _, gold, said in strata
    )
    pseudo = PSEUDO / len(strata)
    sampling, second = 0.0, 0.0
    for share, part, gold, said in strata:
        second += share * float((gold**2).mean())
        if part > 0:
            extra = np.array([0.0, 1.0]) - weight * said.mean()
            weights = np.concatenate([np.ones(len(gold)), [pseudo, pseudo]])
            rest = np.concatenate([gold - weight * said, extra])
            middle = np.average(rest, weights=weights)
            sampling += part * float((weights * (rest - middle) ** 2).sum() / max(weights.sum() - 1, pseudo))
    return Parts(value, sampling, spread_of(second, value, len(drawn)), total, len(drawn), len(strata) + 1, weight)


def one_by_one(drawn: Sequence[Drawn], verdicts: Array, use_judge: bool) -> Parts:
    """Of a sample for which each reply was drawn by itself, with a probability of its own (Hajek)."""
    gold, said, chance = np.array([[one.people, one.judge, one.probability] for one in drawn], dtype=float).T
    replies, n = len(verdicts), len(drawn)
    heavy = (1 - chance) / chance**2
    weights = heavy if heavy.sum() > 0 else 1 / chance
    weight = 0.0
    if use_judge:
        apart = said - np.average(said, weights=weights)
        below = float((weights * apart**2).sum())
        weight = min(max(float((weights * apart * gold).sum()) / below, 0.0), 1.0) if below > 0 else 0.0
    intercept = float(np.average(gold - weight * said, weights=1 / chance))
    value = intercept + weight * float(verdicts.mean())
    rest = gold - intercept - weight * said
    sampling = float((heavy * rest**2).sum()) / replies**2 * n / max(n - 2, 1)
    sampling += PSEUDO * float(heavy.mean()) * (value**2 + (1 - value) ** 2) / replies**2
    second = float(np.average(gold**2, weights=1 / chance))
    return Parts(value, sampling, spread_of(second, value, n), replies, n, 2, weight)


def spread_of(second: float, value: float, n: int) -> float:
    """The variance of single labels, with the pseudo labels in it. second: the mean of their squares."""
    total = n + 2 * PSEUDO
    return max((n * second + PSEUDO) / total - ((n * value + PSEUDO) / total) ** 2, 0.0)


def interval_of(parts: Parts) -> Interval:
    """The 95 % interval: Wilson's at as many labels as the variance stands for, by Student's t."""
    from scipy.stats import t as student

    middle = min(max(parts.value, 0.0), 1.0)
    smoothed = (middle * parts.n + PSEUDO) / (parts.n + 2 * PSEUDO)
    if parts.variance <= 0:
        return Interval(None, None)
    effective = smoothed * (1 - smoothed) / parts.variance
    width = float(student.ppf(0.5 + LEVEL / 2, max(parts.n - parts.lost, 1)))
    share = 1 + width**2 / effective
    centre = (middle + width**2 / (2 * effective)) / share
    half = width / share * math.sqrt(middle * (1 - middle) / effective + width**2 / (4 * effective**2))
    return Interval(max(centre - half, 0.0), min(centre + half, 1.0))


class Apart(NamedTuple):
    """How far one tutor's corrected rate is ahead of another's, with its 95 % interval and p value."""

    value: float
    interval: Interval
    p: float


def difference_of(first: Parts, second: Parts, correlation: float) -> Apart:
    """The difference of two corrected rates on the same items.

    correlation: of what people say of the two tutors' replies to one item: what the replies share cancels. What
    labelling a part adds does not, since each tutor's replies were drawn by themselves. 0 where it is not known, which
    makes a wider interval.
    """
    from scipy.stats import t as student

    shared = 2 * max(correlation, 0.0) * math.sqrt(first.spread * second.spread) / max(first.replies, second.replies)
    variance = first.variance + second.variance - shared
    value = first.value - second.value
    freedom = max(min(first.n - first.lost, second.n - second.lost), 1)
    error = math.sqrt(max(variance, 0.0))
    if error == 0:
        return Apart(value, Interval(None, None), 1.0)
    half = float(student.ppf(0.5 + LEVEL / 2, freedom)) * error
    return Apart(value, Interval(value - half, value + half), float(2 * student.sf(abs(value) / error, freedom)))
