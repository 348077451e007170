"""Records that wait on disk until their turn to be written comes: what is in memory is where each stands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from maieutic.core.files import whole_file
from maieutic.core.records import Record

R = TypeVar("R", bound=Record)
K = TypeVar("K", int, str)


class Spool(Generic[K, R]):
    """Records by key, in a file without a name in `folder`, which the system removes however the process ends.

    It is written in the order in which records come, and read in any other one.
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
        """Keep a record."""
        line = record.model_dump_json().encode() + b"\n"
        self._file.write(line)
        self._places[key] = self._end
        self._end += len(line)

    def lines(self, keys: Iterable[K]) -> Iterator[bytes]:
        """The records of some keys as lines of JSON, in their order. Raises KeyError for one that was not put."""
        for key in keys:
            self._file.seek(self._places[key])
            yield self._file.readline()
        self._file.seek(self._end)

    def write(self, path: Path) -> None:
        """Write all records in the order of their keys; the file appears whole or not at all."""
        with whole_file(path, "wb") as handle:
            handle.writelines(self.lines(sorted(self._places)))

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
