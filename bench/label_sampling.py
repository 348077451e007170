"""Compare schemes for sampling people's labels on simulated replies: coverage of corrected intervals, and labels saved.

The simulated judge errs at a fixed rate. Labels are drawn by each scheme of `maieutic label`, and reply by reply with
unequal probabilities. Corrected rates are computed by the workflow's own code. Prints one line of JSON: by scheme, the
share of 95 % intervals that contain the true rate; by number of labels, how many more labels a plain mean would need
for an interval of the same width.
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
from maieutic.people.sample import Candidate, draw_sample
from maieutic.validation.survey_estimators import CorrectedRate, SampledReply, corrected_interval, corrected_mean

SCHEMES = ("random", "verdict", "disagreement", "one by one")
UNINFORMATIVE = "uninformative disagreement"
Reply = tuple[float, float, bool]  # people's label, the judge's verdict, True if a second judge differs


def replies_of(chance: np.random.Generator, count: int, rate: float, error: float, informative: bool) -> list[Reply]:
    """Return simulated replies: desired labels at a rate, and a judge that errs more often on undesired ones.

    error: the judge's error rate on undesired labels; informative: True if the judges differ more often where the first
    one errs.
    """
    people = (chance.random(count) < rate).astype(float)
    wrong = chance.random(count) < np.where(people == 1, error / 2, error)
    judge = np.where(wrong, 1 - people, people)
    judges_differ = chance.random(count) < (np.where(wrong, 0.6, 0.15) if informative else 0.25)
    return [
        (float(gold), float(verdict), bool(differ))
        for gold, verdict, differ in zip(people, judge, judges_differ, strict=True)
    ]


@cache
def items(count: int) -> list[Item]:
    """Return the items of the simulated replies, the same in every simulation."""
    return [Item(id=str(place), task="t", cluster=str(place), vars={}, reference={}) for place in range(count)]


def labelled(replies: Sequence[Reply], n: int, seed: int, scheme: str) -> list[SampledReply]:
    """Return the replies that people label under a scheme, each with its probability of being drawn."""
    if scheme == "one by one":
        chance = random.Random(seed)
        weights = [2.0 if differ else 1.0 for _, _, differ in replies]
        shares = [min(1.0, n * weight / sum(weights)) for weight in weights]
        return [
            SampledReply(gold, verdict, share)
            for (gold, verdict, _), share in zip(replies, shares, strict=True)
            if chance.random() < share
        ]
    candidates = [
        Candidate("t", item, "m", ("",), {}, str(verdict), differ)
        for item, (_, verdict, differ) in zip(items(len(replies)), replies, strict=True)
    ]
    units = draw_sample(candidates, n, seed, "disagreement" if scheme == UNINFORMATIVE else scheme)  # type: ignore[arg-type]
    return [SampledReply(*replies[int(unit.candidate.item.id)][:2], unit.probability, unit.stratum) for unit in units]


def estimates(scheme: str, runs: int, count: int, n: int, rate: float, error: float) -> list[CorrectedRate]:
    """Return the corrected rate of one tutor in each of many simulations."""
    rates = []
    for seed in range(runs):
        chance = np.random.default_rng(seed)
        replies = replies_of(chance, count, rate, error, informative=scheme != UNINFORMATIVE)
        rates.append(corrected_mean(labelled(replies, n, seed, scheme), [verdict for _, verdict, _ in replies]))
    return rates


def coverage(scheme: str, runs: int, count: int, n: int, rate: float, error: float) -> float:
    """Return the share of intervals that contain the true rate."""
    intervals = [corrected_interval(parts) for parts in estimates(scheme, runs, count, n, rate, error)]
    return float(np.mean([low is not None and low <= rate <= high for low, high in intervals]))  # type: ignore[operator]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--replies", type=int, default=600)
    parser.add_argument("--labels", type=int, nargs="+", default=[50, 100, 200, 300])
    args = parser.parse_args()
    figures: dict[str, float] = {}
    for scheme in (*SCHEMES, UNINFORMATIVE):
        shares = [coverage(scheme, args.runs, args.replies, 120, rate, 0.2) for rate in (0.3, 0.5, 0.7)]
        for rate, share in zip((0.3, 0.5, 0.7), shares, strict=True):
            figures[f"{scheme}, rate {rate}: % of intervals that contain the true rate"] = round(100 * share, 1)
        for n in args.labels:
            saved = np.mean(
                [parts.labels_saved for parts in estimates(scheme, args.runs // 5, args.replies, n, 0.6, 0.2)]
            )
            figures[f"{scheme}, {n} labels: labels saved"] = round(float(saved), 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
