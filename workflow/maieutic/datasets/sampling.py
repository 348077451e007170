"""A sample of a task's items that grows without changing."""

from __future__ import annotations

import hashlib

from maieutic.records import Item


def select(items: list[Item], limit: int | None, seed: int) -> list[Item]:
    """A random sample of `limit` items in source order. A larger limit contains every smaller one's items."""
    if limit is None or limit >= len(items):
        return items
    ranked = sorted(items, key=lambda item: hashlib.sha256(f"{seed}:{item.id}".encode()).digest())
    chosen = {item.id for item in ranked[:limit]}
    return [item for item in items if item.id in chosen]
