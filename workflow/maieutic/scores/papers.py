"""Numbers printed in papers: `printed.csv` in the folder of each benchmark, one number per row.

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
PEOPLE = "people"  # value of `by` for a printed number that a paper's human graders assigned


class PrintedRow(NamedTuple):
    """One printed number of a paper's table. `value` is NaN for a row that prints words, which are in `text`."""

    table: str
    group: str
    row: str
    task: str
    metric: str
    subset: str
    value: float
    text: str


def printed_file(benchmark: str) -> Path:
    """Return the path of the printed numbers of a benchmark's paper."""
    return CARDS / benchmark / "printed.csv"


@cache
def printed_rows(benchmark: str) -> tuple[PrintedRow, ...]:
    """Return every printed number of a benchmark's paper. Cached, since a report shows many tables of one file."""
    with open(printed_file(benchmark), encoding="utf-8", newline="") as handle:
        rows = [{**row, "value": float(row["value"] or "nan")} for row in csv.DictReader(handle)]
    return tuple(PrintedRow(**row) for row in rows)  # type: ignore[arg-type]


class PrintedResult(NamedTuple):
    """One printed number of one tutor.

    model: the tutor's name in the paper; task: a card's task, or a pool of several tasks; value: on the scale of our
    metric, with shares from 0 to 1; by: the grader (a reward model, a judge or `people`), None for a parser.
    """

    group: str
    model: str
    task: str
    metric: str
    value: float
    by: str | None = None
    protocol: str = "released"


class ReleasedLabels(NamedTuple):
    """Human labels released by a paper that also prints rates computed from them.

    release: name of the label set; place_of: maps a score of these labels to its printed row, task and metric, or to
    None if the paper does not print it.
    """

    release: str
    place_of: Callable[[Score], tuple[str, str, str] | None]


class Paper(NamedTuple):
    """Printed results of a benchmark's paper, and the conditions under which a run is comparable with them.

    title: the benchmark's name in its paper; tables: tables with the results; values: results of tutors; judges,
    reward_models: graders with results; note: remark for readers of the comparison.

    released: True if the paper's data are public, without which no number can be reproduced; prints_prompt: True if the
    paper prints the tutors' prompt; served: hosted model behind a printed name, if the paper specifies it;
    other_protocols: protocols that only approximate the paper's requests, each with the reason; user_last: effect of
    the `user_last` setting on this benchmark's requests, or None if it has no effect; labels: human labels whose rates
    the paper prints; judge_prompts: rubric cards whose prompt the paper prints.
    """

    title: str
    tables: str
    values: Callable[[], list[PrintedResult]]
    judges: tuple[str, ...] = ()
    reward_models: Callable[[], list[str]] = list
    note: str | None = None
    released: bool = True
    prints_prompt: bool = True
    served: Mapping[str, str] = MappingProxyType({})
    other_protocols: Mapping[str, str] = MappingProxyType({})
    user_last: str | None = None
    labels: ReleasedLabels | None = None
    judge_prompts: tuple[str, ...] = ()
