"""How the files of a run's own folder differ from those that its results give when they are made again."""

from __future__ import annotations

import csv
import filecmp
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from maieutic.core import paths
from maieutic.core.files import MB

# The largest difference of two numbers that count as equal: machines round the last digits differently.
NEAR = 1e-9
RELATIVE = 1e-12  # the same, relative to the larger number
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
# Columns that identify a row, in the tables that have them. Rows of the page's tables are matched by position.
KEYS = (
    "file", "benchmark", "task", "tutor", "first", "second", "grader", "metric", "criterion", "subset", "release", "by",
    "scoring",
)  # fmt: skip
FOLDERS = tuple(Path(pattern).name for pattern in (paths.TABLES, paths.FIGURES, paths.ITEM_DATA))
# A file is read only up to LARGER times the size of the file that was made again, and ALLOWED bytes.
LARGER, ALLOWED = 2, 64 << 10
AROUND = 40  # characters on each side of a difference in a text
Rows = Sequence[Sequence[Any]]


def altered(kept: Path, again: Path) -> list[str]:
    """Return a line for each file of a run's own folder that differs from the one that was made again.

    kept: the folder of the received run; again: the folder that `build_report` has written from the run's results.
    """
    made = {str(path.relative_to(again)): path for path in sorted(again.rglob("*")) if path.is_file()}
    faults = [
        f"{name}: {fault}"
        for name, path in made.items()
        if (fault := difference_of(kept / name, path) if (kept / name).is_file() else "is not there")
    ]
    own = [path for folder in FOLDERS for path in sorted((kept / folder).rglob("*")) if path.is_file()]
    return faults + [
        f"{name}: no such file is made" for path in own if (name := str(path.relative_to(kept))) not in made
    ]


def difference_of(kept: Path, again: Path) -> str | None:
    """Return how a file differs from the one that was made again; None where both hold the same."""
    if filecmp.cmp(kept, again, shallow=False):
        return None
    size, expected = kept.stat().st_size, again.stat().st_size
    if size > LARGER * expected + ALLOWED:
        return f"{size / MB:,.1f} MB, computed again {expected / MB:,.1f}"
    if again.suffix == ".csv":
        return table_difference(list(rows_of_csv(kept)), list(rows_of_csv(again)))
    if again.suffix == ".parquet":
        return parquet_difference(kept, again)
    if again.suffix in {".json", ".jsonl"}:
        return record_difference(records_of(kept), records_of(again))
    return text_difference(kept.read_text(encoding="utf-8", errors="replace"), again.read_text(encoding="utf-8"))


def rows_of_csv(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, the head first."""
    csv.field_size_limit(path.stat().st_size + 1)
    with open(path, encoding="utf-8", errors="replace", newline="") as handle:
        yield from csv.reader(handle)


def parquet_difference(kept: Path, again: Path) -> str | None:
    """Return how two Parquet files differ: columns, kinds or rows. Counts are compared before any value is read."""
    import pyarrow.parquet as pq

    one, other = pq.ParquetFile(kept), pq.ParquetFile(again)
    if one.metadata.num_rows != other.metadata.num_rows:
        return f"{one.metadata.num_rows:,} rows, computed again {other.metadata.num_rows:,}"
    if not one.schema_arrow.equals(other.schema_arrow):
        return "its columns are others"

    def rows(file: pq.ParquetFile) -> list[list[Any]]:
        table = file.read()
        return [table.column_names, *map(list, zip(*(column.to_pylist() for column in table.columns), strict=True))]

    return table_difference(rows(one), rows(other))


def table_difference(kept: Rows, again: Rows) -> str | None:
    """Return how two tables differ, their first rows being their heads: in columns, rows, order or the first cell.

    Rows are matched by what they are of (KEYS), and by position where that does not tell them apart.
    """
    if list(kept[:1]) != list(again[:1]):
        return f"columns {list(kept[0]) if kept else []}, computed again {list(again[0]) if again else []}"
    if not again:
        return None
    head = [str(name) for name in again[0]]
    wide = [number for number, row in enumerate(kept[1:], 2) if len(row) != len(head)]
    if wide:
        return f"row {wide[0]} has {len(kept[wide[0] - 1])} cells, expected {len(head)}"
    at = [head.index(name) for name in KEYS if name in head]
    before, now = keyed(kept[1:], at), keyed(again[1:], at)
    if len(before) < len(kept) - 1 or len(now) < len(again) - 1:
        before, now = keyed(kept[1:], []), keyed(again[1:], [])
    if before.keys() != now.keys():
        there, here = before.keys() - now.keys(), now.keys() - before.keys()
        first = "/".join(map(str, next(iter(there or here))))
        return f"{len(there)} rows that are not computed again and {len(here)} too few, the first is {first}"
    for key, row in before.items():
        for name, one, other in zip(head, row, now[key], strict=True):
            if not same(one, other):
                place = "/".join(str(part) for part in key if part not in ("", None))
                return f"row {place}, {name}: {cut(one)}, computed again {cut(other)}"
    return None if list(before) == list(now) else "its rows stand in another order"


def keyed(rows: Rows, at: Sequence[int]) -> dict[tuple[Any, ...], Sequence[Any]]:
    """Return rows by the cells at some places, or by their number from 1 where no place is given."""
    return {tuple(row[place] for place in at) if at else (number,): row for number, row in enumerate(rows, 1)}


def records_of(path: Path) -> list[Any]:
    """Return the records of a file of JSON lines, or of a document of JSON; one that is no list is one record."""
    if path.suffix == ".json":
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if isinstance(content, list) else [content]
    with open(path, encoding="utf-8") as handle:
        return [json.loads(line) for line in handle]


def record_difference(kept: Sequence[Any], again: Sequence[Any]) -> str | None:
    """Return how two lists of records differ first; None where they are the same but for the last digits of numbers."""
    if len(kept) != len(again):
        return f"{len(kept)} records, computed again {len(again)}"
    for number, (one, other) in enumerate(zip(kept, again, strict=True), 1):
        if not isinstance(one, Mapping) or not isinstance(other, Mapping):
            if not same(one, other):
                return f"record {number}: {cut(one)}, computed again {cut(other)}"
            continue
        for name in {**other, **one}:
            if not same(one.get(name), other.get(name)):
                return f"record {number}, {name}: {one.get(name)!r}, computed again {other.get(name)!r}"
    return None


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, numbers within NEAR, whether they are numbers or the text of one."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, str) and isinstance(other, str):
        return one == other or (
            bool(NUMBER.fullmatch(one) and NUMBER.fullmatch(other)) and near(float(one), float(other))
        )
    if isinstance(one, int | float) and isinstance(other, int | float):
        return near(one, other) or (one != one and other != other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    return bool(one == other)


def cut(value: Any) -> str:
    """Return a value as a message shows it."""
    shown = repr(value)
    return shown if len(shown) <= 2 * AROUND + 2 else f"{shown[: 2 * AROUND]}\u2026"


def near(one: float, other: float) -> bool:
    """Return whether two numbers are the same but for their last digits."""
    return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=NEAR)


def text_difference(kept: str, again: str) -> str | None:
    """Return the first passage in which two texts differ."""
    if kept == again:
        return None
    before, now = kept.split("\n"), again.split("\n")
    for number, (one, other) in enumerate(zip(before, now, strict=False), 1):
        if one != other:
            differing = (place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
            start = max(0, next(differing, min(len(one), len(other))) - AROUND)
            passages = [cut(text[start : start + 2 * AROUND]) for text in (one, other)]
            return f"line {number}: {', computed again '.join(passages)}"
    return f"{len(before)} lines, computed again {len(now)}"
