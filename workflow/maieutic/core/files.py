"""Files that are either whole or absent: atomic writing and checksums."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from maieutic.core.visible import visible

MB = BLOCK = 1 << 20  # bytes
# What a spreadsheet takes for a formula, also behind blanks and marks without a width, and in the wide forms.
FORMULA = re.compile(r"[\s\x00-\x20\u00ad\u200b-\u200f\u2060\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")


@contextmanager
def whole_file(path: Path, mode: str = "w") -> Iterator[IO]:
    """Open a temporary neighbour of `path` and rename it to `path` when the block ends well.

    A reader therefore never meets half a file under its final name, and an error leaves what was there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    options: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(temporary, mode, **options) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """A neighbour's name for a library that opens its files itself, renamed to `path` when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """A JSON file that appears whole or not at all."""
    with whole_file(path) as handle:
        json.dump(content, handle, indent=1)


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines; the file appears whole or not at all."""
    with whole_file(path) as handle:
        for record in records:
            handle.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """A text that appears whole or not at all."""
    with whole_file(path) as handle:
        handle.write(text)


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A CSV that spreadsheets open as text."""
    with whole_file(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([safe_cell(cell) for cell in row] for row in rows)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file of JSON lines."""
    with open(path, encoding="utf-8") as handle:
        return [json.loads(line) for line in handle]


def bare_cell(text: str) -> str:
    """The text of a cell that `safe_cell` wrote."""
    return text[1:] if text.startswith("'") and safe_cell(text[1:]) == text else text


def safe_name(text: str) -> str:
    """A text as the name of a file or folder, which leads nowhere else."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", text).lstrip(".") or "_"


def sha256_of(path: Path) -> str:
    """The file's SHA-256 as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def safe_cell(value: object) -> object:
    """A text as a cell of a table: quoted where a spreadsheet would run it, without what steers a terminal."""
    if not isinstance(value, str):
        return value
    return f"'{visible(value)}" if FORMULA.match(value) else visible(value)
