"""Comparison of the report files of a received run with the same files recomputed from the run's results."""

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
from maieutic.core.parquet import open_parquet

# Numbers that differ within these tolerances count as equal, since machines round the last digits differently.
ABSOLUTE_TOLERANCE = 1e-9
RELATIVE_TOLERANCE = 1e-12
NUMBER_TEXT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
# Columns that identify a row in the tables that have them. In other tables, rows are matched by position.
ROW_KEYS = (
    "file", "benchmark", "task", "tutor", "first", "second", "grader", "metric", "criterion", "subset", "release", "by",
    "scoring",
)  # fmt: skip
REPORT_SUBFOLDERS = tuple(Path(pattern).name for pattern in (paths.TABLES, paths.FIGURES, paths.ITEM_DATA))
# A received file is read only if its size is at most SIZE_FACTOR times the recomputed one's, plus SIZE_MARGIN bytes.
SIZE_FACTOR, SIZE_MARGIN = 2, 64 << 10
CONTEXT_CHARACTERS = 40  # number of characters shown on each side of a difference between two texts
Rows = Sequence[Sequence[Any]]


def compare_report_files(received: Path, recomputed: Path) -> list[str]:
    """Return a line for each file that differs between a received and a recomputed report, or is in only one of them.

    received: own folder of the received run; recomputed: folder of the report that was rebuilt from the run's results.
    """
    files = {str(path.relative_to(recomputed)): path for path in sorted(recomputed.rglob("*")) if path.is_file()}
    faults = [
        f"{name}: {fault}"
        for name, path in files.items()
        if (fault := file_difference(received / name, path) if (received / name).is_file() else "not found")
    ]
    present = [
        path for folder in REPORT_SUBFOLDERS for path in sorted((received / folder).rglob("*")) if path.is_file()
    ]
    return faults + [
        f"{name}: the recomputed report has no such file"
        for path in present
        if (name := str(path.relative_to(received))) not in files
    ]


def file_difference(received: Path, recomputed: Path) -> str | None:
    """Return the first difference between a received file and the recomputed one; None if they agree."""
    if filecmp.cmp(received, recomputed, shallow=False):
        return None
    size, expected = received.stat().st_size, recomputed.stat().st_size
    if size > SIZE_FACTOR * expected + SIZE_MARGIN:
        return f"found {size / MB:,.1f} MB, recomputed {expected / MB:,.1f} MB"
    if recomputed.suffix == ".csv":
        return table_difference(list(rows_of_csv(received)), list(rows_of_csv(recomputed)))
    if recomputed.suffix == ".parquet":
        return parquet_difference(received, recomputed)
    if recomputed.suffix in {".json", ".jsonl"}:
        return record_difference(read_json_records(received), read_json_records(recomputed))
    return text_difference(
        received.read_text(encoding="utf-8", errors="replace"), recomputed.read_text(encoding="utf-8")
    )


def rows_of_csv(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, header first."""
    csv.field_size_limit(max(csv.field_size_limit(), path.stat().st_size + 1))
    with open(path, encoding="utf-8", errors="replace", newline="") as handle:
        yield from csv.reader(handle)


def parquet_difference(received: Path, recomputed: Path) -> str | None:
    """Return the first difference between two Parquet files. Row counts and schemas are compared before any value."""
    import pyarrow.parquet as pq

    second = pq.ParquetFile(recomputed)
    most_mb = 2 * sum(column_sizes(second)) / MB + 64
    first = open_parquet(received, str(received), "ask the sender for an unaltered copy", most_mb)
    if first.metadata.num_rows != second.metadata.num_rows:
        return f"found {first.metadata.num_rows:,} rows, recomputed {second.metadata.num_rows:,}"
    if not first.schema_arrow.equals(second.schema_arrow):
        return "the columns or their types differ"

    def rows(file: pq.ParquetFile) -> list[list[Any]]:
        table = file.read()
        return [table.column_names, *map(list, zip(*(column.to_pylist() for column in table.columns), strict=True))]

    return table_difference(rows(first), rows(second))


def column_sizes(file: Any) -> Iterator[int]:
    """Yield the uncompressed size in bytes of each column of each group of rows of a Parquet file."""
    for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
        yield from (group.column(number).total_uncompressed_size for number in range(group.num_columns))


def table_difference(received: Rows, recomputed: Rows) -> str | None:
    """Return the first difference between two tables in header, row count, row order or cells; None if they agree.

    The first row is the header. Rows are matched by the columns of ROW_KEYS, or by position if several rows have the
    same values in these columns.
    """
    if list(received[:1]) != list(recomputed[:1]):
        headers = [list(rows[0]) if rows else [] for rows in (received, recomputed)]
        return f"found columns {headers[0]}, recomputed {headers[1]}"
    if not recomputed:
        return None
    header = [str(name) for name in recomputed[0]]
    uneven = [number for number, row in enumerate(received[1:], 2) if len(row) != len(header)]
    if uneven:
        return f"row {uneven[0]} has {len(received[uneven[0] - 1])} cells, expected {len(header)}"
    columns = [header.index(name) for name in ROW_KEYS if name in header]
    before, now = rows_by_key(received[1:], columns), rows_by_key(recomputed[1:], columns)
    if len(before) < len(received) - 1 or len(now) < len(recomputed) - 1:
        before, now = rows_by_key(received[1:], []), rows_by_key(recomputed[1:], [])
    if before.keys() != now.keys():
        extra, absent = before.keys() - now.keys(), now.keys() - before.keys()
        first = "/".join(map(str, next(iter(extra or absent))))
        return f"{len(extra)} extra rows and {len(absent)} missing rows, the first of them {first}"
    for key, row in before.items():
        for name, cell, expected in zip(header, row, now[key], strict=True):
            if not nearly_equal(cell, expected):
                place = "/".join(str(part) for part in key if part not in ("", None))
                return f"row {place}, {name}: found {short_repr(cell)}, recomputed {short_repr(expected)}"
    return None if list(before) == list(now) else "the rows are in another order"


def rows_by_key(rows: Rows, columns: Sequence[int]) -> dict[tuple[Any, ...], Sequence[Any]]:
    """Return rows by their cells in the columns with the given indices, or without indices by row number from 1."""
    return {tuple(row[column] for column in columns) if columns else (n,): row for n, row in enumerate(rows, 1)}


def read_json_records(path: Path) -> list[Any]:
    """Return the records of a JSON Lines file or a JSON document. A document that is not a list is one record."""
    if path.suffix == ".json":
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if isinstance(content, list) else [content]
    with open(path, encoding="utf-8") as handle:
        return [json.loads(line) for line in handle]


def record_difference(received: Sequence[Any], recomputed: Sequence[Any]) -> str | None:
    """Return the first difference between two lists of records; None if at most the last digits of numbers differ."""
    if len(received) != len(recomputed):
        return f"found {len(received)} records, recomputed {len(recomputed)}"
    for number, (record, expected) in enumerate(zip(received, recomputed, strict=True), 1):
        if not isinstance(record, Mapping) or not isinstance(expected, Mapping):
            if not nearly_equal(record, expected):
                return f"record {number}: found {short_repr(record)}, recomputed {short_repr(expected)}"
            continue
        for name in {**expected, **record}:
            if not nearly_equal(record.get(name), expected.get(name)):
                return f"record {number}, {name}: found {record.get(name)!r}, recomputed {expected.get(name)!r}"
    return None


def nearly_equal(first: Any, second: Any) -> bool:
    """Return True if two values are equal. Numbers (or texts that are numbers) may differ within the tolerances."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, str) and isinstance(second, str):
        return first == second or (
            bool(NUMBER_TEXT.fullmatch(first) and NUMBER_TEXT.fullmatch(second))
            and nearly_equal_numbers(float(first), float(second))
        )
    if isinstance(first, int | float) and isinstance(second, int | float):
        return nearly_equal_numbers(first, second) or (first != first and second != second)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(nearly_equal, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(nearly_equal(value, second[name]) for name, value in first.items())
    return bool(first == second)


def short_repr(value: Any) -> str:
    """Return the representation of a value, shortened for an error message."""
    text = repr(value)
    return text if len(text) <= 2 * CONTEXT_CHARACTERS + 2 else f"{text[: 2 * CONTEXT_CHARACTERS]}\u2026"


def nearly_equal_numbers(first: float, second: float) -> bool:
    """Return True if two numbers differ by at most ABSOLUTE_TOLERANCE, or relatively by at most RELATIVE_TOLERANCE."""
    return math.isclose(first, second, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)


def text_difference(received: str, recomputed: str) -> str | None:
    """Return the first passage in which two texts differ; None if they are equal."""
    if received == recomputed:
        return None
    before, now = received.split("\n"), recomputed.split("\n")
    for number, (line, expected) in enumerate(zip(before, now, strict=False), 1):
        if line != expected:
            differing = (place for place, pair in enumerate(zip(line, expected, strict=False)) if pair[0] != pair[1])
            start = max(0, next(differing, min(len(line), len(expected))) - CONTEXT_CHARACTERS)
            passages = [short_repr(text[start : start + 2 * CONTEXT_CHARACTERS]) for text in (line, expected)]
            return f"line {number}: found {', recomputed '.join(passages)}"
    return f"found {len(before)} lines, recomputed {len(now)}"
