"""Loader of riddles."""

from __future__ import annotations

from maieutic.config.datasets import SourceRecord
from maieutic.core.records import Item
from maieutic.datasets.loaders import Loader


def riddles(records: list[SourceRecord], task: str) -> list[Item]:
    """Return an item for each riddle. Riddles about the same thing form one cluster."""
    return [
        Item(
            id=f"riddle-{number}",
            task=task,
            cluster=record["thing"],
            vars={"riddle": record["riddle"], "question": record["riddle"]},
            reference={"thing": record["thing"], "text": f"It is the {record['thing']}."},
        )
        for number, record in enumerate(records)
    ]


LOADERS = {"riddles": Loader(riddles, {"riddle"})}
