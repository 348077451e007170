"""Numbers printed in papers, read from `printed.csv` in the folder of each benchmark, with one number per row.

Columns: `table` (or section), `group`, `row` (tutor, judge or reward model), `task`, `metric`, `subset`, `value` (as
printed), `text`, and `note` (the reason why a number is doubtful).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from maieutic.config.cards import card_folders
from maieutic.core.records import Score

Lack = Literal["models", "data", "nothing"]
PERCENT = 100.0
PEOPLE = "people"  # value of `PrintedResult.by` for a number from the paper's human graders


class PrintedRow(NamedTuple):
    """One number in a table of a paper. `value` is NaN if the paper prints words instead, which are in `text`.

    note: reason why the number is doubtful, such as another number in the same paper; digits: number of printed decimal
    places.
    """

    table: str
    group: str
    row: str
    task: str
    metric: str
    subset: str
    value: float
    text: str
    note: str = ""
    digits: int = 0

    @property
    def place(self) -> Place:
        """The number's place in its table."""
        return Place(self.row, self.metric, self.task, self.subset, self.group)


class Place(NamedTuple):
    """Place of a number in a table of a paper, by the columns of `printed.csv`."""

    row: str
    metric: str = ""
    task: str = ""
    subset: str = ""
    group: str = ""


def printed_file(benchmark: str) -> Path:
    """Return the path of the printed numbers of a benchmark's paper."""
    folders = [folder / benchmark for folder in card_folders()]
    return next((path for folder in folders if (path := folder / "printed.csv").is_file()), folders[0] / "printed.csv")


@cache
def printed_rows(benchmark: str) -> tuple[PrintedRow, ...]:
    """Return every number printed in a benchmark's paper. Cached, since a report needs many tables from one file."""
    with open(printed_file(benchmark), encoding="utf-8", newline="") as handle:
        rows = [
            {**row, "value": float(row["value"] or "nan"), "digits": decimal_places(row["value"])}
            for row in csv.DictReader(handle)
        ]
    return tuple(PrintedRow(**row) for row in rows)  # type: ignore[arg-type]


def printed_cells(benchmark: str, table: str) -> dict[str, dict[str, PrintedRow]]:
    """Return the numbers of one table of a benchmark's paper, by row and metric."""
    cells: dict[str, dict[str, PrintedRow]] = {}
    for row in printed_rows(benchmark):
        if row.table == table:
            cells.setdefault(row.row, {})[row.metric] = row
    return cells


def decimal_places(number: str) -> int:
    """Return the number of decimal places of a number as printed, such as 2 for 0.60 and 6 for 1.5e-5."""
    digits, _, exponent = number.lower().partition("e")
    return max(0, len(digits.partition(".")[2]) - int(exponent or 0))


class PrintedResult(NamedTuple):
    """One number that a paper prints for one tutor.

    group: group of the tutor in the paper's table; model: the tutor's name in the paper; task: a card's task, or a pool
    of several tasks; value: the number on the scale of our metric, with shares from 0 to 1; by: the grader (a reward
    model, a judge or `people`), None for a parser; protocol: protocol of the requests; row: the number in the paper's
    table, None if the paper's table is not recorded.
    """

    group: str
    model: str
    task: str
    metric: str
    value: float
    by: str | None = None
    protocol: str = "released"
    row: PrintedRow | None = None


class ReleasedLabels(NamedTuple):
    """Human labels released with a paper that also prints rates computed from them.

    release: name of the label set; place_of: function that maps a score of these labels to its row, task and metric in
    the paper, or to None if the paper does not print it; is_other: True if the paper's rates are known not to be
    computed from this release.
    """

    release: str
    place_of: Callable[[Score], tuple[str, str, str] | None]
    is_other: bool = False


class Display(NamedTuple):
    """A table, figure or section of a paper that prints numbers.

    title: its name in the paper; content: what the numbers are; run_file: name of the run file in `config/` that
    yields them; needs: reason why a number has no value in a run; lack: what such a number needs: `models` (weights,
    GPUs or keys), `data` (not released), or `nothing` would give it again, as a price, a number of people or a survey.
    """

    title: str
    content: str
    run_file: str
    needs: str
    lack: Lack = "models"


class Paper(NamedTuple):
    """Results printed in a benchmark's paper, and the conditions under which a run is comparable with them.

    title: the benchmark's name in its paper; tables: names of the tables with the results; values: function that
    returns the tutors' results; judges: names of the judges with results; reward_models: function that returns the
    names of the reward models with results; note: remark for readers of the comparison.

    released: True if the paper's data are public; otherwise no number can be reproduced; prints_prompt: True if the
    paper prints the tutors' prompt; served: hosted model by the name that the paper prints for it, if the paper
    specifies the model; other_protocols: protocols that only approximate the paper's requests, each with the reason;
    user_last: effect of the `user_last` setting on this benchmark's requests, or None if it has no effect; labels:
    human labels from which the paper prints rates; judge_prompts: rubric cards with a prompt printed in the paper;
    displays: the paper's tables, figures and sections with numbers, by `table` in `printed.csv`.
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
    displays: Mapping[str, Display] = MappingProxyType({})
