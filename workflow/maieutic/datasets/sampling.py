"""Random samples of a task's items. A larger sample contains every smaller sample with the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from maieutic.core.records import Item


def ranked_by_seed(names: Iterable[str], seed: int) -> list[str]:
    """Return names in a random order that depends on the seed. Other names do not affect the order of two names."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())


def sample_items(items: list[Item], limit: int | None, seed: int) -> list[Item]:
    """Return a random sample of `limit` items (None: all) in source order. The sample contains every smaller sample."""
    if limit is None or limit >= len(items):
        return items
    chosen = set(ranked_by_seed((item.id for item in items), seed)[:limit])
    return [item for item in items if item.id in chosen]
