"""Journals: append-only files of finished requests, so that no request is sent twice.

Each job has one journal, with one line per answer. The key of a line covers everything that can change the answer. The
job's outputs are rebuilt from its journal.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Generic, TypeVar

from pydantic import ValidationError

from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, ends_torn
from maieutic.core.locks import is_other_owner_here, lock_exclusively, owner_line
from maieutic.core.progress import PROGRESS_FILE
from maieutic.core.records import Batched, Record
from maieutic.core.states import state_of

log = logging.getLogger(__name__)
CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"))
# Minimum time between two syncs to disk. A power cut can lose the answers since the last sync; a kill loses none.
SYNC_SECONDS = 1.0


class JournalLine(Record):
    """Line of a journal. `key` identifies the answered request."""

    key: str


class FinishedRequest(JournalLine):
    """One finished request. `error` is the message of a permanent refusal by the server, which counts as an answer.

    raw: the text as the server sent it, inline reasoning included, if it differs from `text`; no_text: True if the
    server sent null instead of a text; cached_tokens: number of prompt tokens that the server reported as read from
    its cache; batched: True if the request was in a batch of a provider's batch API.
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
    batched: Batched = False


class ScoredConversation(JournalLine):
    """One conversation scored by a reward model. `seconds` is the conversation's share of its batch's forward pass.

    `score` is None if the model's output was not finite.
    """

    score: float | None
    seconds: float


L = TypeVar("L", bound=JournalLine)


KEY_PREFIX = "sha256:"


def canonical_digest(content: Any) -> str:
    """Return KEY_PREFIX and the SHA-256 of the content as canonical JSON."""
    return KEY_PREFIX + hashlib.sha256(CANONICAL.encode(content).encode()).hexdigest()


# Field that gives deliberate repetitions of a request different keys. It is not sent to the server.
REPEAT = "repeat"


def request_key(request: dict[str, Any], model_identity: dict[str, Any]) -> str:
    """Return the key of a request to a model. The key depends neither on the machine nor on secrets."""
    return canonical_digest({"request": request, "model": model_identity})


class JournalAnswers(Mapping[str, L]):
    """Mapping from keys to the answers in a journal's file. Each access reads the answer from the file.

    Only file offsets are kept in memory, since a hundred thousand answers would take hundreds of megabytes. Keys that
    this file lacks are looked up in `others`; length and iteration cover only this file.
    """

    def __init__(self, path: Path, kind: type[L], others: Sequence[JournalAnswers[L]] = ()) -> None:
        self.path, self.kind, self.others = path, kind, others
        self.places: dict[str, int] = {}  # byte offset of each answer's line
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
                f"{self.path}, byte {place}", "a line that was valid before is now damaged", "run again"
            ) from None

    def __contains__(self, key: object) -> bool:
        return key in self.places or any(key in answers for answers in self.others)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def close(self) -> None:
        """Close the file. A later access opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
        for answers in self.others:
            answers.close()


class Journal(Generic[L]):
    """Journal in the file `path`: reads the stored answers and appends new ones. `kind` is the type of a line.

    others: further journals, from which answers are read but which are never changed.

    Entering the context takes an exclusive lock, which the kernel releases when the process ends, even after a kill.
    """

    def __init__(self, path: Path, kind: type[L], others: Iterable[Path] = ()) -> None:
        self.path, self.kind = path, kind
        self.answers: JournalAnswers[L] = JournalAnswers(
            path, kind, [load_journal_answers(other, kind) for other in others]
        )
        self.broken = 0
        self._lock: IO[str] | None = None
        self._file: IO[bytes] | None = None
        self._end = 0
        self._synced = 0.0

    def __enter__(self) -> Journal[L]:
        self._lock = take_lock(lock_path(self.path))
        if self.path.exists():
            self._load()
        self._file = open(self.path, "ab")
        if ends_torn(self.path):
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
        """Append the answers with new keys in one write. Once this method returns, a kill cannot lose them."""
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
        for entry in fresh:
            if isinstance(entry, FinishedRequest):
                report_answer(self.path, entry)
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def _load(self) -> None:
        """Index the valid lines. Damaged lines are counted and skipped. For a repeated key, the first answer counts."""
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
            log.warning("%s: %d damaged line(s) skipped; their requests are sent again", self.path, self.broken)


def report_answer(journal: Path, entry: FinishedRequest) -> None:
    """Count an answer in the job's progress file."""
    tokens = (entry.prompt_tokens, entry.completion_tokens, entry.cached_tokens)
    PROGRESS_FILE.count_answer(journal, entry.key, entry.text, entry.error, tokens)
    if entry.error is not None:
        PROGRESS_FILE.count_missing(state_of(entry.error))


def load_journal_answers(path: Path, kind: type[L], others: Iterable[Path] = ()) -> JournalAnswers[L]:
    """Return the answers in a journal, for reading only, without taking its lock; empty if the file does not exist."""
    journal = Journal(path, kind, others)
    if path.is_file():
        journal._load()
    return journal.answers


def reply_journals(folder: Path, name: str) -> list[Path]:
    """Return the journals with one tutor's replies to a benchmark, which may be split into shards.

    folder: folder of the benchmark's journals; name: the tutor's name.
    """
    return sorted(folder.rglob(f"{escape(name)}.jsonl"))


def lock_path(journal: Path) -> Path:
    """Return the path of a journal's lock."""
    return journal.with_suffix(".lock")


def unparsed_path(journal: Path) -> Path:
    """Return the path of the list of a judge's answers that could not be read, with one key of the journal a line."""
    return journal.with_suffix(".unparsed")


def failed_path(journal: Path) -> Path:
    """Return the path of the requests that failed in all tries while others were answered, with an answer a line."""
    return journal.with_suffix(".failed")


class FailedRequests:
    """Requests of a journal that failed in all tries while others were answered.

    They are no answers, so they stand beside the journal. A later run asks each of them once more.
    """

    def __init__(self, journal: Path, asks_again: bool) -> None:
        """asks_again: False for a job of the run in which they failed, which takes a failure as the answer."""
        self.path, self.asks_again = failed_path(journal), asks_again
        self.known: dict[str, FinishedRequest] = {}
        self.times: Counter[str] = Counter()
        self.now: set[str] = set()  # keys that failed in this process
        if self.path.is_file():
            for line in self.path.read_bytes().split(b"\n"):
                with contextlib.suppress(ValidationError):
                    entry = FinishedRequest.model_validate_json(line)
                    self.known[entry.key] = entry
                    self.times[entry.key] += 1

    def settled(self, key: str) -> FinishedRequest | None:
        """Return the failure of a request that is not asked again; None if it is to be asked."""
        is_settled = key in self.now or self.times[key] > 1 or not self.asks_again
        return self.known.get(key) if is_settled else None

    def add(self, entry: FinishedRequest) -> None:
        """Append a failure."""
        with open(self.path, "ab") as handle:
            handle.write(entry.model_dump_json().encode() + b"\n")
        self.known[entry.key] = entry
        self.times[entry.key] += 1
        self.now.add(entry.key)
        PROGRESS_FILE.count_missing("failed")


def take_lock(path: Path) -> IO[str]:
    """Lock `path` for this process, and return the open file.

    Host and pid are written into the file, for error messages and `make recover`. On a file system without locks, they
    are the lock (core.locks). Raises UserError if another process has the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open(path, "a+", encoding="utf-8")  # noqa: SIM115 (open as long as the lock is held)
    try:
        has_lock = lock_exclusively(handle)
    except BlockingIOError:
        handle.seek(0)
        owner = handle.read().strip() or "another process"
        handle.close()
        raise locked_by(path, owner) from None
    if not has_lock:
        handle.seek(0)
        if is_other_owner_here(owner := handle.read().strip()):
            handle.close()
            raise locked_by(path, owner)
    handle.seek(0)
    handle.truncate()
    handle.write(f"{owner_line()}\n")
    handle.flush()
    return handle


def locked_by(path: Path, owner: str) -> UserError:
    """Return the error for a journal that another process writes."""
    problem = f"the journal is being written by {owner}"
    return UserError(str(path), problem, "wait for the other process, or stop it with `make recover`")


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
