"""How people's labels are best drawn: coverage of corrected intervals, and labels saved, on replies with known truth.

Replies of three tutors, a judge with the errors that are given, labels drawn as `maieutic label` draws them by each of
its schemes, and replies drawn one by one with unequal probabilities; each corrected rate by the code of the workflow.
Prints one line of JSON: by scheme the share of 95 % intervals that hold the truth, and by number of labels how many more
a plain mean of labels would need for the same interval.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

from maieutic.core.records import Item
from maieutic.people.sample import Candidate, drawn
from maieutic.validation.designs import Drawn, Parts, corrected_mean, interval_of

SCHEMES = ("random", "verdict", "disagreement", "one by one")
BLIND = "disagreement that tells nothing"
Reply = tuple[float, float, bool]  # what people and judge say of it, and whether a second judge differs


def replies_of(chance: np.random.Generator, count: int, rate: float, error: float, tells: bool) -> list[Reply]:
    """A tutor's replies: the desired label at a rate, a judge that errs more often where there is none to praise.

    tells: whether judges differ more often where the first one errs.
    """
    people = (chance.random(count) < rate).astype(float)
    wrong = chance.random(count) < np.where(people == 1, error / 2, error)
    judge = np.where(wrong, 1 - people, people)
    torn = chance.random(count) < (np.where(wrong, 0.6, 0.15) if tells else 0.25)
    return [(float(gold), float(said), bool(apart)) for gold, said, apart in zip(people, judge, torn, strict=True)]


@cache
def items(count: int) -> list[Item]:
    """The items that are replied to, the same in every world."""
    return [Item(id=str(place), task="t", cluster=str(place), vars={}, reference={}) for place in range(count)]


def labelled(replies: Sequence[Reply], n: int, seed: int, scheme: str) -> list[Drawn]:
    """Which replies people label, each with the probability that it had."""
    if scheme == "one by one":
        chance = random.Random(seed)
        weights = [2.0 if torn else 1.0 for _, _, torn in replies]
        shares = [min(1.0, n * weight / sum(weights)) for weight in weights]
        return [
            Drawn(gold, said, share)
            for (gold, said, _), share in zip(replies, shares, strict=True)
            if chance.random() < share
        ]
    candidates = [
        Candidate("t", item, "m", ("",), {}, str(said), torn)
        for item, (_, said, torn) in zip(items(len(replies)), replies, strict=True)
    ]
    units = drawn(candidates, n, seed, "disagreement" if scheme == BLIND else scheme)  # type: ignore[arg-type]
    return [Drawn(*replies[int(unit.candidate.item.id)][:2], unit.probability, unit.stratum) for unit in units]


def estimates(scheme: str, runs: int, count: int, n: int, rate: float, error: float) -> list[Parts]:
    """The corrected rate of one tutor in many worlds."""
    found = []
    for seed in range(runs):
        chance = np.random.default_rng(seed)
        replies = replies_of(chance, count, rate, error, tells=scheme != BLIND)
        found.append(corrected_mean(labelled(replies, n, seed, scheme), [said for _, said, _ in replies]))
    return found


def coverage(scheme: str, runs: int, count: int, n: int, rate: float, error: float) -> float:
    """The share of intervals that hold the rate by which the replies were drawn."""
    intervals = [interval_of(parts) for parts in estimates(scheme, runs, count, n, rate, error)]
    return float(np.mean([low is not None and low <= rate <= high for low, high in intervals]))  # type: ignore[operator]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--replies", type=int, default=600)
    parser.add_argument("--labels", type=int, nargs="+", default=[50, 100, 200, 300])
    given = parser.parse_args()
    figures: dict[str, float] = {}
    for scheme in (*SCHEMES, BLIND):
        held = [coverage(scheme, given.runs, given.replies, 120, rate, 0.2) for rate in (0.3, 0.5, 0.7)]
        for rate, share in zip((0.3, 0.5, 0.7), held, strict=True):
            figures[f"{scheme}, rate {rate}: % of intervals that hold the truth"] = round(100 * share, 1)
        for n in given.labels:
            saved = np.mean([parts.saved for parts in estimates(scheme, given.runs // 5, given.replies, n, 0.6, 0.2)])
            figures[f"{scheme}, {n} labels: labels saved"] = round(float(saved), 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
