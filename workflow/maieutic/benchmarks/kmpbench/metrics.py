"""KMP-Bench's scores of a dialogue: the mean over the principles, and with General-Level the overall one."""

from __future__ import annotations

from maieutic.scores.metrics.common import Counts, level, level_counts, mean_level, of_counts


def overall(sums: Counts) -> Counts:
    """(General-Level + mean of the principles) / 2 (KMP-Bench, section 4.1). Parts: general, then the principles."""
    return overall_of(level(sums, 0), mean_level(sums[..., 2:]))


def is_open(sums: Counts) -> bool:
    """Whether there is no general level, or no principle."""
    return not (sums[1] and sums[3::2].any())


def overall_of(general: Counts, principles: Counts) -> Counts:
    """The mean of both."""
    return (general + principles) / 2


METRICS = {
    "kmp_principles": of_counts(level_counts, mean_level),
    "kmp_overall": of_counts(level_counts, overall, is_open),
}
