"""KMP-Bench's scores of a dialogue: the mean over the principles, and with General-Level the overall one."""

from __future__ import annotations

from collections.abc import Sequence

from maieutic.scores.metrics.common import Counts, Graded, Metric, level, level_counts, mean_level, of_counts


def overall(sums: Counts) -> Counts:
    """(General-Level + mean of the principles) / 2 (KMP-Bench, section 4.1). Parts: general, then the principles."""
    return overall_of(level(sums, 0), mean_level(sums[..., 2:]))


def overall_value(items: Sequence[Graded]) -> float:
    """NaN without a general level, or without any principle."""
    sums = level_counts(items).sum(axis=0)
    return float(overall(sums)) if sums[1] and sums[3::2].any() else float("nan")


def overall_of(general: Counts, principles: Counts) -> Counts:
    """The mean of both."""
    return (general + principles) / 2


METRICS = {
    "kmp_principles": of_counts(level_counts, mean_level),
    "kmp_overall": Metric(overall_value, level_counts, overall),
}
