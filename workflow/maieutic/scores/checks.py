"""Checks of the metrics of a run's cards before any work starts."""

from __future__ import annotations

from pathlib import Path

from maieutic.config.cards import LoadedCard
from maieutic.config.registry import unknown_name
from maieutic.scores.metrics.registry import METRICS


def check_metrics(path: Path, loaded: LoadedCard) -> None:
    """Raise UserError if a card names an unknown metric. path: the card's file."""
    for name, metric in loaded.card.metrics.items():
        if (function := metric.function or name) not in METRICS:
            raise unknown_name(f"{path}: metrics.{name}", function, list(METRICS), "the registry")
