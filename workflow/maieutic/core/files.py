"""Readers and atomic writers of files, and checksums."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from maieutic.core.visible import visible_text

MB = BLOCK = 1 << 20  # one mebibyte, in bytes
# Start of a cell that a spreadsheet would interpret as a formula. Blanks and zero-width characters may precede the
# sign, which may be full-width.
FORMULA = re.compile(r"[\s\x00-\x20\u00ad\u200b-\u200f\u2060\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")


@contextmanager
def atomic_file(path: Path, mode: str = "w") -> Iterator[IO]:
    """Open a temporary file beside `path` for writing and rename it to `path` if the block succeeds.

    Readers therefore never see a partial file under the final name, and the previous file remains after an error.
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
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a library that opens the file itself; rename it to `path` if the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def ends_torn(path: Path) -> bool:
    """Return True if the last line of a file is truncated, as after a kill during a write, or on a full disk."""
    with open(path, "rb") as handle:
        if handle.seek(0, os.SEEK_END) == 0:
            return False
        handle.seek(-1, os.SEEK_END)
        return handle.read(1) != b"\n"


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    with atomic_file(path) as handle:
        json.dump(content, handle, indent=1)


def write_json_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write records as JSON lines atomically."""
    with atomic_file(path) as handle:
        for record in records:
            handle.write(json.dumps(record, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_file(path) as handle:
        handle.write(text)


def remove(path: Path) -> bool:
    """Remove a file, or a folder with its content. Returns False if it does not exist."""
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    else:
        return False
    return True


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file atomically. Cells that a spreadsheet would execute are quoted."""
    with atomic_file(path) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([safe_cell(cell) for cell in row] for row in rows)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records in a JSON-lines file."""
    with open(path, encoding="utf-8") as handle:
        return [json.loads(line) for line in handle]


def unquote_cell(text: str) -> str:
    """Return the original text of a cell written by `safe_cell`."""
    return text[1:] if text.startswith("'") and safe_cell(text[1:]) == text else text


def safe_name(text: str) -> str:
    """Return a file or folder name made from a text: unsafe characters are replaced, leading dots removed."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", text).lstrip(".") or "_"


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def safe_cell(value: object) -> object:
    """Return a table cell with control characters made visible, quoted if a spreadsheet would execute it."""
    if not isinstance(value, str):
        return value
    return f"'{visible_text(value)}" if FORMULA.match(value) else visible_text(value)
