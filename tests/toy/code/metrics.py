"""How far from half of the riddles."""

from __future__ import annotations

from maieutic.scores.metrics.common import mean_of, right

METRICS = {"solved": mean_of(right)}
