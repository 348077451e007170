"""Columns that identify a score, as one short text: `release:metric/criterion/subset`."""

from __future__ import annotations

from typing import Any

from maieutic.core.records import Quantity, Score


def spelt(score: Score | dict[str, Any]) -> str:
    """Return the identifying columns of a score as text, without empty ones."""
    columns = score.model_dump() if isinstance(score, Score) else score
    name = "/".join(columns[column] for column in ("metric", "criterion", "subset") if columns[column])
    return f"{columns['release']}:{name}" if columns["release"] else name


def quantity(text: str) -> Quantity:
    """Return the quantity that a text `release:metric/criterion` names."""
    release, _, name = text.rpartition(":")
    metric, _, criterion = name.partition("/")
    return Quantity(metric, criterion or None, None, release or None)
