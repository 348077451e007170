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
from maieutic.core.records import Score

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


class ReleasedLabels(NamedTuple):
    """Human labels that a paper released and whose rates it prints.

    release: name of the label set; place_of: printed row, task and metric of a score of these labels, None for scores
    that the paper does not print.
    """

    release: str
    place_of: Callable[[Score], tuple[str, str, str] | None]


class Paper(NamedTuple):
    """The results of a benchmark's paper, and what makes a run comparable with them.

    title: the benchmark's name as its paper writes it; tables: where the results stand; values: those of tutors;
    judges, reward_models: the graders with results; note: what a reader of the comparison has to know.

    released: whether the paper's data are public: without them no number can repeat a printed one; prompt: whether the
    paper prints what tutors were asked; served: by a printed name the hosted model behind it, where the paper says so;
    other_protocols: the protocols that only approximate what the paper asked, each with the reason; user_last: what
    that setting changes in this benchmark's requests, None for nothing; labels: whose rates the paper prints;
    judge_prompts: the rubric cards whose prompt the paper prints.
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
    other_protocols: Mapping[str, str] = MappingProxyType({})
    user_last: str | None = None
    labels: ReleasedLabels | None = None
    judge_prompts: tuple[str, ...] = ()
