"""Metrics of prefix twins: how often a tutor treats a student's work as wrong, and whether it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from maieutic.core.intervals import SHARE_BOUNDS
from maieutic.core.stats import mean_statistic, safe_ratio
from maieutic.scores.metrics import NO_LABEL, Counts, GradedItem, Metric, binary_counts, metric_from_counts

WRONG = (True, "yes")  # verdicts that the work is wrong, of a parser and of a judge


def treats_as_wrong(item: GradedItem) -> bool:
    """Return True if a reply treats the work as wrong. A reply without a readable verdict does not."""
    if item.unread:
        return False
    if item.value == NO_LABEL:  # stands for the wrong verdict of an item without an answer
        return item.gold not in WRONG
    return item.value in WRONG


def verdict_counts(items: Sequence[GradedItem]) -> Counts:
    """Return the `binary_counts` of whether the work is treated as wrong, and whether it is."""
    return binary_counts([GradedItem(treats_as_wrong(item), None, item.gold in WRONG) for item in items])


def difference_of_shares(sums: Counts) -> Counts:
    """Return the share of wrong work that is treated as wrong minus that of right work (Youden's J).

    sums: sums of `verdict_counts`. The difference is NaN if all work is right, or all is wrong.
    """
    noticed, alarms, overlooked, n = sums[..., 0], sums[..., 1], sums[..., 2], sums[..., 3]
    wrong = noticed + overlooked
    return safe_ratio(noticed, wrong, math.nan) - safe_ratio(alarms, n - wrong, math.nan)


METRICS: dict[str, Metric] = {
    "diagnosis_effect": metric_from_counts(verdict_counts, difference_of_shares, bounds=(-1.0, 1.0)),
    "treated_as_wrong": mean_statistic(lambda item: float(treats_as_wrong(item)), SHARE_BOUNDS),
}
