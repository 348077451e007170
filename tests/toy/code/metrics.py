"""Metric of the riddles benchmark: the share of solved riddles."""

from __future__ import annotations

from maieutic.scores.metrics.common import correct_as_number, mean_statistic

METRICS = {"solved": mean_statistic(correct_as_number)}
