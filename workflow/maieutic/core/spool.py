"""Records that wait on disk until their turn to be written comes: what is in memory is where each stands."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from maieutic.core.records import Record

R = TypeVar("R", bound=Record)
K = TypeVar("K", bound=Hashable)


class Spool(Generic[K, R]):
    """Records by key, in a file without a name in `folder`, which the system removes however the process ends.

    It is written in the order in which records come, and read in any other one.
    """

    def __init__(self, folder: Path, kind: type[R]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.kind = kind
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (open as long as the spool is in use)
        self._places: dict[K, int] = {}
        self._end = 0

    def __contains__(self, key: K) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[K]:
        return iter(self._places)

    def put(self, key: K, record: R) -> None:
        """Keep a record."""
        line = record.model_dump_json().encode() + b"\n"
        self._file.write(line)
        self._places[key] = self._end
        self._end += len(line)

    def records(self, keys: Iterable[K]) -> Iterator[R]:
        """The records of some keys, one at a time, in their order. Raises KeyError for one that was not put."""
        self._file.flush()
        for key in keys:
            self._file.seek(self._places[key])
            yield self.kind.model_validate_json(self._file.readline())
        self._file.seek(self._end)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
