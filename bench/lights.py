"""Simulate how often a grader's light gets each colour, by its true kappa and the number of labels.

    python bench/lights.py [RUNS]

People's labels are drawn from three distributions. The grader repeats a label with a probability equal to its true
weighted kappa, and otherwise draws a label from the same distribution. Each problem has one reply.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

import numpy as np
from maieutic.core.stats import BootstrapSettings
from maieutic.report.traffic_light import light_by_thresholds
from maieutic.validation.agreement import Pairing, estimate_agreement
from maieutic.validation.trust import WEIGHTED_KAPPA, trust_score

RUNS = 200
LABELS = (30, 50, 75, 100, 150, 200, 300)
KAPPAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
# Shares of the labels: balanced; the average of MRBench's dimensions; a rare second label.
DISTRIBUTIONS = ([0.5, 0.2, 0.3], [0.78, 0.08, 0.14], [0.9, 0.1])
COLOURS = ("green", "amber", "red", "grey")


def colour(chance: np.random.Generator, labels: int, kappa: float, shares: list[float]) -> str:
    """Return the colour of one simulated grader. shares: the distribution of labels."""
    gold = chance.choice(len(shares), labels, p=shares)
    verdicts = np.where(chance.random(labels) < kappa, gold, chance.choice(len(shares), labels, p=shares))
    pairings = [
        Pairing(int(label), int(verdict), str(place))
        for place, (label, verdict) in enumerate(zip(gold, verdicts, strict=True))
    ]
    estimate = estimate_agreement(WEIGHTED_KAPPA, pairings, len(shares), False, BootstrapSettings(500, 1))
    agreement = trust_score("grader", WEIGHTED_KAPPA, estimate)
    return light_by_thresholds(agreement, labels, {"kappa": agreement}, "labels", "weighted kappa").colour


def main() -> None:
    """Print the percentage of each colour by distribution, true kappa and number of labels."""
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
