"""Metric of the riddles benchmark: the share of solved riddles."""

from __future__ import annotations

from maieutic.core.stats import mean_statistic
from maieutic.scores.metrics import correct_as_number

METRICS = {"solved": mean_statistic(correct_as_number)}
