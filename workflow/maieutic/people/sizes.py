"""How many labels: which interval of a corrected rate so many give, and where they are worth most."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from maieutic.core.intervals import LEVEL
from maieutic.people.sample import Candidate

NUMBERS = (20, 50, 100, 200, 400)
WIDTHS = (0.1, 0.05)
FEWEST = 10  # labels below which nothing is known of a judge's errors


class Pilot(NamedTuple):
    """What is known of a judge on one criterion.

    rate: share of desired labels; rho: correlation of judge and people, 0 where nothing is known; n: labels that it is
    known by; spread: by the judge's verdict (not desired, desired) the standard deviation of people's labels; source:
    of these labels.
    """

    rate: float
    rho: float
    n: int
    spread: tuple[float, float]
    source: str


def pilot_of(
    pairs: Sequence[tuple[float, float]], verdicts: Sequence[float], source: str, weights: Sequence[float] | None = None
) -> Pilot:
    """A pilot from what people and judge say (1: the desired label), and all the judge's verdicts on this run.

    weights: of each pair, one over the probability with which its reply was drawn; None: all were as likely.
    """
    rate = float(np.mean(verdicts)) if verdicts else 0.5
    if len(pairs) < FEWEST:
        return Pilot(rate, 0.0, len(pairs), (0.5, 0.5), "")
    gold, said = np.array(pairs).T
    mass = np.array(weights) if weights else np.ones(len(pairs))
    mass *= len(pairs) / mass.sum()
    spreads = np.cov(gold, said, aweights=mass)
    varied = spreads[0, 0] > 0 and spreads[1, 1] > 0
    rho = float(spreads[0, 1] / math.sqrt(spreads[0, 0] * spreads[1, 1])) if varied else 0.0
    spread = []
    for word in (0.0, 1.0):
        group = said == word
        share = ((gold * mass)[group].sum() + 0.5) / (
            mass[group].sum() + 1
        )  # none that is certain: a group may be small
        spread.append(math.sqrt(share * (1 - share)))
    return Pilot(rate, max(rho, 0.0), len(pairs), (spread[0], spread[1]), source)


def half_width(pilot: Pilot, population: int, n: int) -> float:
    """Half of the 95 % interval that n labels of a tutor's replies give, drawn at random, with the judge on all.

    sigma^2/N + (1 - n/N) sigma^2 (1 - rho^2)/n: the replies are a sample themselves, the labels one of them
    (Angelopoulos et al., PPI++, 2023, with the best weight of the judge; drawn without replacement).
    """
    variance = max(pilot.rate * (1 - pilot.rate), 0.25 / max(population, 1))
    n = min(n, population)
    total = variance / population + (1 - n / population) * variance * (1 - pilot.rho**2) / n
    return NormalDist().inv_cdf(0.5 + LEVEL / 2) * math.sqrt(total)


def labels_for(pilot: Pilot, population: int, half: float) -> int | None:
    """The fewest labels for an interval of that half width; None where the replies are too few whatever is labelled."""
    return next((n for n in range(2, population + 1) if half_width(pilot, population, n) <= half), None)


def alone_for(n: int, rho: float) -> float:
    """As many labels as are needed without a judge for the interval that n give with it, of a large population."""
    return n / (1 - rho**2) if rho < 1 else math.inf


def plan_lines(candidates: Sequence[Candidate], pilots: Mapping[str, Pilot], n: int) -> list[str]:
    """The plan as people read it: by tutor's replies and criterion the half width of so many labels."""
    if not pilots:
        return ["no criterion has a desired label: there is no rate to correct"]
    sizes = Counter(candidate.tutor for candidate in candidates)
    smallest = min(sizes.values())
    source = next((pilot.source for pilot in pilots.values() if pilot.source), "")
    known = f"how judge and people agree is known from {source}" if source else "nothing is known of the judge: rho = 0"
    lines = [
        f"{len(sizes)} tutors with {smallest} to {max(sizes.values())} replies each; {known}",
        "half of the 95 % interval of a tutor's corrected rate, by the number of its replies that people label:",
        f"{'criterion':32} {'rate':>5} {'rho':>5} {'labels':>6} "
        + " ".join(f"{f'n={number}':>7}" for number in NUMBERS)
        + " ".join(f"{f'  ±{width}':>9}" for width in WIDTHS),
    ]
    for name, pilot in pilots.items():
        cells = [f"±{half_width(pilot, smallest, number):.3f}" if number <= smallest else "-" for number in NUMBERS]
        wanted = [labels_for(pilot, smallest, width) for width in WIDTHS]
        needs = [f"n={number}" if number else "too few" for number in wanted]
        lines.append(
            f"{name[:32]:32} {pilot.rate:5.2f} {pilot.rho:5.2f} {pilot.n:6} "
            + " ".join(f"{cell:>7}" for cell in cells)
            + " ".join(f"{cell:>9}" for cell in needs)
        )
    each = n // len(sizes)
    saved = [f"{alone_for(each, pilot.rho) - each:.0f}" for pilot in sorted(pilots.values(), key=lambda one: one.rho)]
    lines += [
        f"--n {n} is {each} labels a tutor: without the judge it would take {saved[0]} to {saved[-1]} more",
        where_to(pilots),
    ]
    return lines


def where_to(pilots: Mapping[str, Pilot]) -> str:
    """Where labels are worth most: in proportion to size and spread of a stratum (Neyman), if that is worth it."""
    known = [pilot for pilot in pilots.values() if pilot.source]
    if not known:
        return "draw at random (--scheme random): where labels are worth most is not known before there are some"
    ratio = float(np.mean([pilot.spread[0] / pilot.spread[1] for pilot in known]))
    if 0.5 <= ratio <= 2:
        return "draw at random (--scheme random): people differ as much where the judge says yes as where it says no"
    more = "not desired" if ratio > 1 else "desired"
    return f"--scheme verdict: replies that the judge calls {more} need {max(ratio, 1 / ratio):.1f} times the labels"
