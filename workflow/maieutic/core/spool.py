"""Spool of records on disk, from which they can be written in an order other than that of their creation."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from maieutic.core.files import atomic_file
from maieutic.core.records import Record

R = TypeVar("R", bound=Record)
K = TypeVar("K", int, str)


class Spool(Generic[K, R]):
    """Records by key, stored in an unnamed temporary file in `folder`. Only their offsets are in memory.

    The operating system removes the file at the end of the process, even after a kill. Records can be added and read in
    any order.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (open as long as the spool is in use)
        self._places: dict[K, int] = {}
        self._end = 0

    def __contains__(self, key: K) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def put(self, key: K, record: R) -> None:
        """Add a record under a key."""
        line = record.model_dump_json().encode() + b"\n"
        self._file.write(line)
        self._places[key] = self._end
        self._end += len(line)

    def lines(self, keys: Iterable[K]) -> Iterator[bytes]:
        """Yield the records of some keys as JSON lines, in the given order. Raises KeyError for an unknown key."""
        for key in keys:
            self._file.seek(self._places[key])
            yield self._file.readline()
        self._file.seek(self._end)

    def write(self, path: Path) -> None:
        """Write all records to `path` as JSON lines, sorted by key, atomically."""
        with atomic_file(path, "wb") as handle:
            handle.writelines(self.lines(sorted(self._places)))

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()
