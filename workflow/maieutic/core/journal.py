"""The journal: every finished request, appended at once, so that nothing is asked twice.

One file per job, one line per answer, keyed by everything that can change the answer. Outputs are rebuilt from it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Generic, TypeVar

from pydantic import ValidationError

from maieutic.core.errors import UserError
from maieutic.core.records import Record

log = logging.getLogger(__name__)
CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"))
SYNC_SECONDS = 1.0  # a power cut may cost the answers of the last second; a killed process costs none


class Line(Record):
    """A line of a journal names what it answers."""

    key: str


class Entry(Line):
    """One finished request. `error` is a permanent refusal by the server, which is an answer too.

    raw: the text as the server sent it, its inline reasoning included, where `text` differs; no_text: it sent none;
    cached_tokens: of the prompt's, those that the server had in its cache, where it says so.
    """

    text: str
    reasoning: str | None = None
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float
    attempts: int
    error: str | None = None
    raw: str | None = None
    no_text: bool = False
    cached_tokens: int | None = None


class Scored(Line):
    """One conversation that a reward model has scored; `seconds` is its share of the forward pass.

    `score` is None where the model gave no finite number.
    """

    score: float | None
    seconds: float


L = TypeVar("L", bound=Line)


def digest(content: Any) -> str:
    """`sha256:` and the hash of canonical JSON."""
    return "sha256:" + hashlib.sha256(CANONICAL.encode(content).encode()).hexdigest()


REPEAT = "repeat"  # of a request that is asked again on purpose; no part of what is sent


def request_key(request: dict[str, Any], model_identity: dict[str, Any]) -> str:
    """The key of one request: what is asked and of which weights. Neither machine nor secret enters it."""
    return digest({"request": request, "model": model_identity})


class Answers(Mapping[str, L]):
    """The answers in a journal's file by their keys, each read when it is asked for.

    In memory is only where each stands: a hundred thousand answers are hundreds of megabytes. What this file lacks is
    looked up in `others`; only the file's own answers are counted and gone through.
    """

    def __init__(self, path: Path, kind: type[L], others: Sequence[Answers[L]] = ()) -> None:
        self.path, self.kind, self.others = path, kind, others
        self.places: dict[str, int] = {}  # bytes before an answer's line
        self._file: IO[bytes] | None = None

    def __getitem__(self, key: str) -> L:
        if key not in self.places:
            for answers in self.others:
                if key in answers:
                    return answers[key]
        place = self.places[key]
        if self._file is None:
            self._file = open(self.path, "rb")  # noqa: SIM115 (open as long as the journal is in use)
        self._file.seek(place)
        try:
            return self.kind.model_validate_json(self._file.readline())
        except ValidationError:
            raise UserError(
                f"{self.path}, byte {place}", "a line that could be read before cannot any more", "run again"
            ) from None

    def __contains__(self, key: object) -> bool:
        return key in self.places or any(key in answers for answers in self.others)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def close(self) -> None:
        """Close the file; it is opened again when an answer is asked for."""
        if self._file is not None:
            self._file.close()
            self._file = None
        for answers in self.others:
            answers.close()


class Journal(Generic[L]):
    """The answers on file at `path`, and the only writer of new ones. `kind` is what a line holds.

    others: further journals whose answers count, and which are left as they are.

    Entering takes an exclusive lock that the kernel drops when the process dies, however it dies.
    """

    def __init__(self, path: Path, kind: type[L], others: Iterable[Path] = ()) -> None:
        self.path, self.kind = path, kind
        self.answers: Answers[L] = Answers(path, kind, [answers_on_file(other, kind) for other in others])
        self.broken = 0
        self._lock: IO[str] | None = None
        self._file: IO[bytes] | None = None
        self._end = 0
        self._synced = 0.0

    def __enter__(self) -> Journal[L]:
        self._lock = take_lock(self.path.with_suffix(".lock"))
        if self.path.exists():
            self._load()
        self._file = open(self.path, "ab")
        if self._ends_torn():
            self._file.write(b"\n")
        self._end = self._file.tell()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        self.answers.close()
        if self._lock:
            self._lock.close()

    def append(self, *entries: L) -> None:
        """Put answers on file, in one piece. They survive the death of this process from the moment this returns."""
        if self._file is None:
            raise RuntimeError("the journal is not open")
        fresh = [entry for entry in entries if entry.key not in self.answers]
        if not fresh:
            return
        lines = [entry.model_dump_json().encode() + b"\n" for entry in fresh]
        self._file.write(b"".join(lines))
        self._file.flush()
        for entry, line in zip(fresh, lines, strict=True):
            self.answers.places.setdefault(entry.key, self._end)
            self._end += len(line)
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def _load(self) -> None:
        """Read what is whole; a torn or damaged line is counted and left out, a repeated key keeps its first answer."""
        place = 0
        with open(self.path, "rb") as handle:
            for line in handle:
                begins, place = place, place + len(line)
                if not line.strip():
                    continue
                try:
                    entry = self.kind.model_validate_json(line)
                except ValidationError:
                    self.broken += 1
                    continue
                self.answers.places.setdefault(entry.key, begins)
        if self.broken:
            log.warning("%s: %d unreadable line(s) left out; those requests are asked again", self.path, self.broken)

    def _ends_torn(self) -> bool:
        """Whether the last line lacks its end, as after a kill in the middle of a write."""
        with open(self.path, "rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            if size == 0:
                return False
            handle.seek(-1, os.SEEK_END)
            return handle.read(1) != b"\n"


def answers_on_file(path: Path, kind: type[L], others: Iterable[Path] = ()) -> Answers[L]:
    """The answers of a journal by their keys, for who only looks: without its lock. None where there is no journal."""
    journal = Journal(path, kind, others)
    if path.is_file():
        journal._load()
    return journal.answers


def journals_of(folder: Path, name: str) -> list[Path]:
    """The journals of somebody's replies to a benchmark: that of the whole, and those of shards of it.

    folder: of the benchmark's journals.
    """
    return sorted(folder.rglob(f"{escape(name)}.jsonl"))


def take_lock(path: Path) -> IO[str]:
    """Lock `path` for this process and leave its host and pid in it, for the message and for `recover`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open(path, "a+", encoding="utf-8")  # noqa: SIM115 (open as long as the lock is held)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        owner = handle.read().strip() or "another process"
        handle.close()
        raise UserError(
            str(path), f"its journal is being written by {owner}", "wait for it, or end it with `make recover`"
        ) from None
    handle.seek(0)
    handle.truncate()
    job = f" slurm job {os.environ['SLURM_JOB_ID']}" if "SLURM_JOB_ID" in os.environ else ""
    handle.write(f"host {socket.gethostname()} pid {os.getpid()}{job}\n")
    handle.flush()
    return handle
