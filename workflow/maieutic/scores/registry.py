"""All metrics by the names used on cards: the common metrics and those defined by benchmarks."""

from __future__ import annotations

from maieutic.core.plugins import merged_plugin_tables
from maieutic.scores.metrics import COMMON, Metric

METRICS: dict[str, Metric] = COMMON | merged_plugin_tables("metrics", "METRICS")
