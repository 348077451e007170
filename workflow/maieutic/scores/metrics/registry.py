"""Metrics by the names that cards give: those of several benchmarks, and those that benchmarks add."""

from __future__ import annotations

from maieutic.core.plugins import merged
from maieutic.scores.metrics.common import COMMON, Metric

METRICS: dict[str, Metric] = COMMON | merged("metrics", "METRICS")
