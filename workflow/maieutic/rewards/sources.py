"""What a source of preference pairs is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from maieutic.core.records import Pair


class PairSource(NamedTuple):
    """How one source's pairs are made. `load` takes the records of each dataset in order.

    pairs, turns: the published count and average length of the dialogue before the reply (MathTutorBench, Table 2).
    """

    title: str
    load: Callable[..., list[Pair]]
    datasets: tuple[str, ...]
    pairs: int | None
    turns: float | None
    preferred: str
    rejected: str
    test: bool = False
    exact: bool = False  # whether the rule gives the published count
