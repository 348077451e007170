"""Sample sizes for human labels: interval widths of corrected rates, and the strata where labels help most."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from maieutic.core.intervals import LEVEL
from maieutic.people.sample import Candidate

LABEL_COUNTS = (20, 50, 100, 200, 400)  # numbers of labels per tutor for which the plan has columns
HALF_WIDTHS = (0.1, 0.05)  # half widths of intervals for which the plan has columns
FEWEST_PILOT_LABELS = 10  # minimum number of labels from which a judge's errors are estimated


class Pilot(NamedTuple):
    """Agreement of a judge with people on one criterion, as far as known.

    rate: share of desired verdicts. rho: correlation of judge and people, 0 if unknown. n: number of labels from which
    rho is estimated. spread: standard deviation of people's labels, first for undesired, then for desired verdicts.
    source: origin of the labels, empty if unknown.
    """

    rate: float
    rho: float
    n: int
    spread: tuple[float, float]
    source: str


def estimate_pilot(
    pairs: Sequence[tuple[float, float]], verdicts: Sequence[float], source: str, weights: Sequence[float] | None = None
) -> Pilot:
    """Return the judge's agreement with people, estimated from labelled replies.

    pairs: people's label and the judge's verdict for each labelled reply (1: desired). verdicts: all of the judge's
    verdicts in this run. source: origin of the labels. weights: inverse of each pair's sampling probability; None for
    equal weights.
    """
    rate = float(np.mean(verdicts)) if verdicts else 0.5
    if len(pairs) < FEWEST_PILOT_LABELS:
        return Pilot(rate, 0.0, len(pairs), (0.5, 0.5), "")
    people, judge = np.array(pairs).T
    mass = np.array(weights) if weights else np.ones(len(pairs))
    mass *= len(pairs) / mass.sum()
    spreads = np.cov(people, judge, aweights=mass)
    varied = spreads[0, 0] > 0 and spreads[1, 1] > 0
    rho = float(spreads[0, 1] / math.sqrt(spreads[0, 0] * spreads[1, 1])) if varied else 0.0
    spread = []
    for verdict in (0.0, 1.0):
        group = judge == verdict
        # Add half a desired and half an undesired label, so that a small group of equal labels has a spread above 0.
        share = ((people * mass)[group].sum() + 0.5) / (mass[group].sum() + 1)
        spread.append(math.sqrt(share * (1 - share)))
    return Pilot(rate, max(rho, 0.0), len(pairs), (spread[0], spread[1]), source)


def half_width(pilot: Pilot, population: int, n: int) -> float:
    """Return half the width of the 95 % interval of a tutor's rate.

    population: number of the tutor's replies, all with a verdict of the judge. n: number of these replies that people
    label, drawn at random without replacement. The variance is sigma^2/N + (1 - n/N) sigma^2 (1 - rho^2)/n, where N is
    the population: the N replies are a sample themselves, and the labelled ones are a sample of them (Angelopoulos et
    al., PPI++, 2023, with the judge's optimal weight).
    """
    variance = max(pilot.rate * (1 - pilot.rate), 0.25 / max(population, 1))
    n = min(n, population)
    total = variance / population + (1 - n / population) * variance * (1 - pilot.rho**2) / n
    return NormalDist().inv_cdf(0.5 + LEVEL / 2) * math.sqrt(total)


def labels_for(pilot: Pilot, population: int, half: float) -> int | None:
    """Return the smallest number of labels for which the interval's half width is at most `half`.

    Returns None if the interval would still be wider with labels of the whole population.
    """
    return next((n for n in range(2, population + 1) if half_width(pilot, population, n) <= half), None)


def labels_without_judge(n: int, rho: float) -> float:
    """Return the number of labels that are, without the judge, as precise as n labels with the judge's verdicts.

    The formula assumes a large population.
    """
    return n / (1 - rho**2) if rho < 1 else math.inf


def label_plan_lines(candidates: Sequence[Candidate], pilots: Mapping[str, Pilot], n: int) -> list[str]:
    """Return the lines of the plan to print: for each criterion, the half width by number of labels."""
    if not pilots:
        return ["no criterion has a desired label: there is no rate to correct"]
    sizes = Counter(candidate.tutor for candidate in candidates)
    smallest = min(sizes.values())
    source = next((pilot.source for pilot in pilots.values() if pilot.source), "")
    known = (
        f"the judge's agreement with people is known from {source}"
        if source
        else "the judge's agreement with people is unknown, so rho = 0 is assumed"
    )
    lines = [
        f"{len(sizes)} tutors with {smallest} to {max(sizes.values())} replies each; {known}",
        "half width of the 95 % interval of a tutor's corrected rate, by the number n of its labelled replies:",
        f"{'criterion':32} {'rate':>5} {'rho':>5} {'labels':>6} "
        + " ".join(f"{f'n={number}':>7}" for number in LABEL_COUNTS)
        + " ".join(f"{f'  ±{width}':>9}" for width in HALF_WIDTHS),
    ]
    for name, pilot in pilots.items():
        cells = [
            f"±{half_width(pilot, smallest, number):.3f}" if number <= smallest else "-" for number in LABEL_COUNTS
        ]
        numbers = [labels_for(pilot, smallest, width) for width in HALF_WIDTHS]
        needs = [f"n={number}" if number else "too few" for number in numbers]
        lines.append(
            f"{name[:32]:32} {pilot.rate:5.2f} {pilot.rho:5.2f} {pilot.n:6} "
            + " ".join(f"{cell:>7}" for cell in cells)
            + " ".join(f"{cell:>9}" for cell in needs)
        )
    each = n // len(sizes)
    saved = [
        f"{labels_without_judge(each, pilot.rho) - each:.0f}"
        for pilot in sorted(pilots.values(), key=lambda pilot: pilot.rho)
    ]
    lines += [
        f"--n {n} means {each} labels per tutor; without the judge, {saved[0]} to {saved[-1]} more would be needed",
        scheme_advice(pilots),
    ]
    return lines


def scheme_advice(pilots: Mapping[str, Pilot]) -> str:
    """Return advice on the sampling scheme. By Neyman allocation, labels help most in large or highly varied strata."""
    known = [pilot for pilot in pilots.values() if pilot.source]
    if not known:
        return "use --scheme random: without labels it is unknown in which strata labels help most"
    ratio = float(np.mean([pilot.spread[0] / pilot.spread[1] for pilot in known]))
    if 0.5 <= ratio <= 2:
        return "use --scheme random: people's labels vary equally for both verdicts of the judge"
    more = "not desired" if ratio > 1 else "desired"
    times = max(ratio, 1 / ratio)
    return f"use --scheme verdict: replies that the judge calls {more} need {times:.1f} times as many labels"
