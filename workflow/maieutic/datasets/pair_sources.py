"""Type of a source of preference pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from maieutic.core.records import Pair


class PairSource(NamedTuple):
    """A source of preference pairs. `load` takes the records of each dataset, in the order of `datasets`.

    title: title in the report; pairs, turns: published number of pairs and mean number of turns before the reply
    (MathTutorBench, Table 2); preferred, rejected: descriptions of the preferred and of the rejected reply; test: True
    for pairs that no reward model is trained on; exact: True if `load` yields exactly the published number of pairs.
    """

    title: str
    load: Callable[..., list[Pair]]
    datasets: tuple[str, ...]
    pairs: int | None
    turns: float | None
    preferred: str
    rejected: str
    test: bool = False
    exact: bool = False
