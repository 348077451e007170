"""Simulate how often a grader's light gets each colour, by its true kappa and the number of labels.

    python bench/lights.py [RUNS]

People's labels are drawn from three distributions; the grader repeats a label with the probability that gives it the
true weighted kappa, and otherwise draws one from the same distribution. Each problem has one reply.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

import numpy as np
from maieutic.core.stats import Sampling
from maieutic.validation.agreement import Pairing, measure
from maieutic.validation.traffic_light import decided
from maieutic.validation.trust import WEIGHTED_KAPPA, score

RUNS = 200
LABELS = (30, 50, 75, 100, 150, 200, 300)
KAPPAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
# Shares of the labels: balanced; as MRBench's dimensions are on average; a rare second label.
DISTRIBUTIONS = ([0.5, 0.2, 0.3], [0.78, 0.08, 0.14], [0.9, 0.1])
COLOURS = ("green", "amber", "red", "grey")


def colour(chance: np.random.Generator, labels: int, kappa: float, shares: list[float]) -> str:
    """The colour of one simulated grader."""
    gold = chance.choice(len(shares), labels, p=shares)
    verdicts = np.where(chance.random(labels) < kappa, gold, chance.choice(len(shares), labels, p=shares))
    pairings = [
        Pairing(int(label), int(verdict), str(place))
        for place, (label, verdict) in enumerate(zip(gold, verdicts, strict=True))
    ]
    found = measure(WEIGHTED_KAPPA, pairings, len(shares), False, Sampling(500, 1))
    agreement = score("grader", WEIGHTED_KAPPA, found)
    return decided(agreement, labels, {"kappa": agreement}, "labels", "weighted kappa").colour


def main() -> None:
    """Print per cent of each colour, one line a distribution, true kappa and number of labels."""
    runs, chance = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS, np.random.default_rng(1)
    for shares in DISTRIBUTIONS:
        print(f"labels' shares {shares}: per cent {', '.join(COLOURS)}")
        for kappa in KAPPAS:
            cells = []
            for labels in LABELS:
                counts = Counter(colour(chance, labels, kappa, shares) for _ in range(runs))
                cells.append(f"{labels}: " + "/".join(f"{100 * counts[name] / runs:.0f}" for name in COLOURS))
            print(f"  kappa {kappa}:  {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
