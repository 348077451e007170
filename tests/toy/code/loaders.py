"""Riddles as items."""

from __future__ import annotations

from maieutic.datasets.loaders import Loader
from maieutic.datasets.sources import Source
from maieutic.records import Item


def riddles(records: list[Source], task: str) -> list[Item]:
    """One item a riddle; riddles about one thing are one problem."""
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
