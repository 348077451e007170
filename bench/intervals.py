"""Simulate the coverage and width of the 95 % intervals of shares, macro F1 and paired differences.

    python bench/intervals.py [RUNS]

Outcomes of a problem's items are beta-binomial with an intra-problem correlation; each problem has one to three items.
Prints the worst coverage and the mean width of each row, beside those of a percentile bootstrap with 500 draws.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

import numpy as np
from maieutic.core.intervals import bounded_interval, clopper_pearson, paired_difference
from maieutic.core.stats import SHARE, leave_one_out
from maieutic.scores.metrics import macro_f1

RUNS = 1_000
PROBLEMS = (20, 50, 200)
SHARES = (0.5, 0.7, 0.9, 0.95, 0.97)
CORRELATIONS = (0.0, 0.3)
DRAWS = 500
Array = np.ndarray


def outcomes(chance: np.random.Generator, problems: int, share: float, correlation: float) -> Array:
    """Return the numbers of right answers and of items of each problem, with shape problems x 2."""
    items = chance.integers(1, 4, problems)
    if correlation:
        scale = 1 / correlation - 1
        right = chance.binomial(items, chance.beta(share * scale, (1 - share) * scale, problems))
    else:
        right = chance.binomial(items, share)
    return np.column_stack([right, items]).astype(float)


def bootstrap(chance: np.random.Generator, sums: Array, from_sums: Callable[[Array], Array]) -> tuple[float, float]:
    """Return the bootstrap percentile interval, for comparison."""
    places = chance.integers(0, len(sums), (DRAWS, len(sums)))
    low, high = np.nanpercentile(from_sums(sums[places].sum(axis=1)), [2.5, 97.5])
    return float(low), float(high)


def shares(chance: np.random.Generator, runs: int) -> None:
    """Print the coverage of shares, and the width relative to Clopper and Pearson's with the true effective size."""
    for problems in PROBLEMS:
        for share in SHARES:
            ours, others, widths = [], [], []
            for correlation in CORRELATIONS:
                rows = []
                for _ in range(runs):
                    sums = outcomes(chance, problems, share, correlation)
                    value = float(sums[:, 0].sum() / sums[:, 1].sum())
                    interval = bounded_interval(value, leave_one_out(sums, SHARE.from_sums), 0.0, 1.0)
                    percentiles = bootstrap(chance, sums, SHARE.from_sums)
                    items = sums[:, 1]
                    size = items.sum() / (1 + correlation * ((items**2).sum() / items.sum() - 1))
                    exact = clopper_pearson(value, float(size))
                    rows.append(
                        [
                            interval[0] <= share <= interval[1],
                            percentiles[0] <= share <= percentiles[1],
                            interval[1] - interval[0],
                            exact[1] - exact[0],
                        ]
                    )
                mean = np.mean(rows, axis=0)
                ours.append(mean[0])
                others.append(mean[1])
                widths.append(mean[2] / mean[3])
            print(
                f"share {share:.2f}, {problems} problems: {min(ours):.3f} (bootstrap {min(others):.3f}), "
                f"width {np.mean(widths):.2f} of Clopper-Pearson's"
            )


def labels(chance: np.random.Generator, problems: int, accuracy: float, classes: int) -> Array:
    """Return hits, predictions and members of each class for one item per problem: problems x (3 x classes)."""
    gold = chance.integers(0, classes, problems)
    wrong = (gold + chance.integers(1, classes, problems)) % classes
    answers = np.where(chance.random(problems) < accuracy, gold, wrong)
    true, predicted = np.eye(classes)[gold], np.eye(classes)[answers]
    return np.concatenate([true * predicted, predicted, true], axis=1)


def coverage_of_macro_f1(chance: np.random.Generator, runs: int) -> None:
    """Print the coverage of macro F1 for two and for nine classes."""
    for classes in (2, 9):
        for problems in PROBLEMS:
            coverages = []
            for accuracy in (0.7, 0.9, 0.97):
                truth = float(macro_f1(labels(chance, 200_000, accuracy, classes).sum(axis=0)))
                hits = []
                for _ in range(runs):
                    sums = labels(chance, problems, accuracy, classes)
                    interval = bounded_interval(
                        float(macro_f1(sums.sum(axis=0))), leave_one_out(sums, macro_f1), 0.0, 1.0
                    )
                    percentiles = bootstrap(chance, sums, macro_f1)
                    hits.append([interval[0] <= truth <= interval[1], percentiles[0] <= truth <= percentiles[1]])
                coverages.append(np.mean(hits, axis=0))
            print(
                f"macro F1 of {classes} classes, {problems} problems: {min(pair[0] for pair in coverages):.3f} "
                f"(bootstrap {min(pair[1] for pair in coverages):.3f})"
            )


def differences(chance: np.random.Generator, runs: int) -> None:
    """Print the coverage of paired differences of shares."""
    for first, second in ((0.99, 0.97), (0.97, 0.9)):
        for problems in PROBLEMS:
            hits = []
            for run in range(runs):
                # In half of the runs both sides share their random numbers.
                shared = chance.random(problems) if run % 2 else None
                random_numbers = [chance.random(problems) if shared is None else shared for _ in range(2)]
                sides = [
                    np.column_stack([numbers < share, np.ones(problems)]).astype(float)
                    for numbers, share in zip(random_numbers, (first, second), strict=True)
                ]
                values = tuple(float(side[:, 0].mean()) for side in sides)
                left_out = tuple(leave_one_out(side, SHARE.from_sums) for side in sides)
                contrast = paired_difference(values, left_out, (0.0, 1.0))
                low, high = contrast.interval() if contrast else (-1.0, 1.0)
                places = chance.integers(0, problems, (DRAWS, problems))
                percentiles = np.percentile((sides[0][:, 0] - sides[1][:, 0])[places].mean(axis=1), [2.5, 97.5])
                difference = first - second
                hits.append([low <= difference <= high, percentiles[0] <= difference <= percentiles[1]])
            ours, others = np.mean(hits, axis=0)
            print(f"difference of {first} and {second}, {problems} problems: {ours:.3f} (bootstrap {others:.3f})")


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    chance = np.random.default_rng(1)
    shares(chance, runs)
    coverage_of_macro_f1(chance, runs)
    differences(chance, runs)
