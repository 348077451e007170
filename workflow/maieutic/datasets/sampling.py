"""A sample of a task's items that grows without changing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from maieutic.core.records import Item


def ranked(names: Iterable[str], seed: int) -> list[str]:
    """Names in a random order that the seed decides, each one's place among the others whatever else is there."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())


def select(items: list[Item], limit: int | None, seed: int) -> list[Item]:
    """A random sample of `limit` items in source order. A larger limit contains every smaller one's items."""
    if limit is None or limit >= len(items):
        return items
    chosen = set(ranked((item.id for item in items), seed)[:limit])
    return [item for item in items if item.id in chosen]
