"""The numbers that a paper prints: `printed.csv` in the folder of its benchmark, one row a number.

Columns: table (or section), group, row (tutor, judge or reward model), task, metric, subset, value as printed, text.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from maieutic.config.cards import CARDS

PERCENT = 100.0
PEOPLE = "people"  # who graded replies in a paper


class PrintedRow(NamedTuple):
    """One number of one of a paper's tables, as it is printed; NaN for a row of words, which are its text."""

    table: str
    group: str
    row: str
    task: str
    metric: str
    subset: str
    value: float
    text: str


def printed_file(benchmark: str) -> Path:
    """Where the numbers of a benchmark's paper lie."""
    return CARDS / benchmark / "printed.csv"


@cache
def printed_rows(benchmark: str) -> tuple[PrintedRow, ...]:
    """Every number that a benchmark's paper prints. Read once: a page shows many tables of one file."""
    with open(printed_file(benchmark), encoding="utf-8", newline="") as handle:
        rows = [{**row, "value": float(row["value"] or "nan")} for row in csv.DictReader(handle)]
    return tuple(PrintedRow(**row) for row in rows)  # type: ignore[arg-type]


class Printed(NamedTuple):
    """One number of one tutor in a paper's table.

    by: the reward model, judge or people behind it; None: a parser. value: as our metric counts, shares from 0 to 1.
    task: of a card, or the pool of several.
    """

    group: str
    model: str
    task: str
    metric: str
    value: float
    by: str | None = None
    protocol: str = "released"


class Paper(NamedTuple):
    """What a benchmark's paper prints that a run may be compared with.

    title: the benchmark's name as its paper writes it.
    tables: where; values: of tutors; judges, reward_models: the names of graders that it prints; note: what a reader of
    the comparison has to know; released: whether others have the paper's data, or no number can repeat a printed one;
    prompt: whether the paper says what tutors were asked; served: by a printed name the hosted model that was run,
    where the paper says so.
    """

    title: str
    tables: str
    values: Callable[[], list[Printed]]
    judges: tuple[str, ...] = ()
    reward_models: Callable[[], list[str]] = list
    note: str | None = None
    released: bool = True
    prompt: bool = True
    served: Mapping[str, str] = MappingProxyType({})
