"""Metrics of prefix twins: how often a tutor treats a student's work as wrong, and whether it is."""

from __future__ import annotations

from maieutic.core.intervals import SHARE_BOUNDS
from maieutic.core.stats import difference_statistic, mean_statistic
from maieutic.scores.metrics import NO_LABEL, GradedItem, Metric

WRONG = (True, "yes")  # verdicts that the work is wrong, of a parser and of a judge


def treats_as_wrong(item: GradedItem) -> bool:
    """Return True if a reply treats the work as wrong. A reply without a readable verdict does not."""
    if item.unread:
        return False
    if item.value == NO_LABEL:  # stands for the wrong verdict of an item without an answer
        return item.gold not in WRONG
    return item.value in WRONG


METRICS: dict[str, Metric] = {
    # Share of wrong work that is treated as wrong minus that of right work
    "diagnosis_effect": difference_statistic(lambda item: (float(treats_as_wrong(item)), item.gold in WRONG)),
    "treated_as_wrong": mean_statistic(lambda item: float(treats_as_wrong(item)), SHARE_BOUNDS),
}
