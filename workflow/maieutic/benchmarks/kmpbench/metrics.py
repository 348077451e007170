"""KMP-Bench's dialogue scores: the mean over the principles, and the overall score, which includes General-Level."""

from __future__ import annotations

from maieutic.scores.metrics import Counts, level_counts, mean_of_part_means, metric_from_counts, part_mean


def overall_score(sums: Counts) -> Counts:
    """Return (General-Level + mean of the principles) / 2 (section 4.1).

    sums: summed counts of the general level, then of each principle.
    """
    return mean_of_levels(part_mean(sums, 0), mean_of_part_means(sums[..., 2:]))


def is_undefined(sums: Counts) -> bool:
    """Return True if the overall score is undefined, because the general level or all principles have no verdicts."""
    return not (sums[1] and sums[3::2].any())


def mean_of_levels(general: Counts, principles: Counts) -> Counts:
    """Return the average of the score at the general level and the mean score of the principles."""
    return (general + principles) / 2


METRICS = {
    "kmp_principles": metric_from_counts(level_counts, mean_of_part_means),
    "kmp_overall": metric_from_counts(level_counts, overall_score, is_undefined),
}
