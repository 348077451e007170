"""Batches of requests on disk: the files of each batch beside the journal of its job, and the settings of a run.

A batch is written before anything is sent, and its file is replaced after each step, so that a killed job knows at its
next start what was sent. Its answers stay in a file here, from which the job's journal takes them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

from pydantic import ValidationError

from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, write_text
from maieutic.core.jobs import Job
from maieutic.core.records import Record
from maieutic.core.secrets import redact_sent_keys
from maieutic.serving.answers import MalformedAnswer, body_excerpt, parse_body
from maieutic.serving.refusals import Refusal, error_in, refusal_in, scope_of
from maieutic.serving.responses import parse_reply

# Environment variable through which Snakemake passes the settings of batches to its jobs. They are not job parameters,
# because a changed parameter would make Snakemake recompute results.
BATCH_VARIABLE = "MAIEUTIC_BATCHES"
SUFFIX = ".batches"  # of the folder with a journal's batches
MEGABYTE = 1_000_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MOST_SUBMISSIONS = 3  # maximum number of batches, over all calls, that contain a request without answering it
HTTP_OK, HTTP_ERRORS = 200, range(400, 600)


class BatchLimits(Job):
    """Limits of one batch at an endpoint.

    requests: maximum number of requests; mb: maximum size in MB of 1,000,000 bytes; url_prefix: beginning of the `url`
    in a batch's lines.
    """

    requests: int
    mb: float
    url_prefix: str = "/v1"

    @property
    def size(self) -> int:
        """Maximum size in bytes."""
        return int(self.mb * MEGABYTE)


class BatchSettings(Job):
    """Value of BATCH_VARIABLE: settings of a run's batches.

    run: name of the run; wait: True if jobs wait for their batches; limits: for each registry entry that uses batches,
    the limits of its endpoint; models: for each judge, the registry entry that answers its requests.
    """

    run: str
    wait: bool = False
    limits: dict[str, BatchLimits] = {}
    models: dict[str, str] = {}

    def entry_of(self, asker: str) -> str:
        """Return the registry entry that answers the requests of a tutor or judge."""
        return self.models.get(asker, asker)

    def limits_of(self, asker: str) -> BatchLimits | None:
        """Return the limits of batches of a tutor or judge; None if its requests are sent one by one."""
        return self.limits.get(self.entry_of(asker))


def batch_settings_of(environment: Mapping[str, str]) -> BatchSettings:
    """Return the settings of the run's batches, without any limits if no model of the run uses batches."""
    value = environment.get(BATCH_VARIABLE)
    return BatchSettings.model_validate_json(value) if value else BatchSettings(run="")


class BatchState(StrEnum):
    """Progress of a batch.

    WRITTEN: its requests are on disk, nothing was submitted; SUBMITTING: its file is at the endpoint, and the batch may
    have been submitted; SUBMITTED: its identifier is known; COLLECTED: it has ended, and its answers are on disk.
    """

    WRITTEN = "written"
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    COLLECTED = "collected"


class Batch(Record):
    """One batch of a job.

    id: random name, also in its metadata at the endpoint; run: name of the run; job: journal of the job; entry:
    registry entry of the model; base_url: address of the endpoint; key_env: name of the environment variable with the
    key; model_digest: digest of the model's request-key fields; url: address in the lines; keys: keys of the requests,
    without their prefix; size: number of bytes of the requests; input_file: the endpoint's identifier of the file with
    the requests; provider_id: its identifier of the batch; status: last known status there; at: time of the last step,
    in UTC; submitted: time of the submission, in UTC; reserved_tokens, reserved_usd: what is reserved for its requests
    in the budget of every run until it is collected, 0 if it was sent without a budget; taken: number of its requests
    whose answers were taken from an incomplete file, and whose keys are in another record.
    """

    id: str
    run: str
    job: str
    entry: str
    base_url: str
    key_env: str | None
    model_digest: str
    url: str
    state: BatchState
    keys: list[str]
    size: int
    input_file: str | None = None
    provider_id: str | None = None
    status: str = ""
    at: str
    submitted: str | None = None
    reserved_tokens: int = 0
    reserved_usd: float = 0.0
    taken: int = 0

    @property
    def is_pending(self) -> bool:
        """True if the batch was submitted, or may have been, and its answers are not collected."""
        return self.state in {BatchState.SUBMITTING, BatchState.SUBMITTED}

    @property
    def last_step_seconds(self) -> float:
        """Time of the last step in seconds since 1970."""
        return datetime.fromisoformat(self.at).timestamp()

    @property
    def submitted_at(self) -> str:
        """Time of the submission for people, in UTC; "" before it."""
        return f"{datetime.fromisoformat(self.submitted):%Y-%m-%d %H:%M}" if self.submitted else ""


def new_batch_id() -> str:
    """Return a random name for a batch."""
    return secrets.token_hex(8)


class BatchFolder:
    """Folder with the batches of one journal: for each, a file with its state, its requests, and its answers."""

    def __init__(self, path: Path, owned: bool = True) -> None:
        """path: the folder, which need not exist; owned: True if it belongs to this job, which holds its lock."""
        self.path, self.owned = path, owned

    @classmethod
    def beside(cls, journal: Path, owned: bool = True) -> BatchFolder:
        """Return the folder with the batches of a journal."""
        return cls(journal.with_suffix(SUFFIX), owned)

    def requests_path(self, batch: Batch) -> Path:
        """Return the path of a batch's requests, in the form in which they are uploaded."""
        return self.path / f"{batch.id}.requests"

    def answers_path(self, batch: Batch) -> Path:
        """Return the path of a batch's answers: the lines of the endpoint's output file and error file."""
        return self.path / f"{batch.id}.answers"

    def new_download(self) -> Path:
        """Return a new path for a download in this folder, which must belong to this job."""
        self.path.mkdir(parents=True, exist_ok=True)
        return self.path / f"{new_batch_id()}.part"

    def remove_leftovers(self, in_use: Container[Path]) -> None:
        """Remove the files that a killed job leaves: partial downloads, and requests without a record.

        in_use: paths of batches and downloads, without a suffix, that this process is working on.
        """
        for path in self.path.glob(".*.tmp"):
            path.unlink(missing_ok=True)
        for path in [*self.path.glob("*.part"), *self.path.glob("*.requests")]:
            name = self.path / path.name.partition(".")[0]
            if name not in in_use and (path.suffix == ".part" or not name.with_suffix(".json").exists()):
                path.unlink(missing_ok=True)

    def record_path(self, batch: Batch) -> Path:
        """Return the path of a batch's record."""
        return self.path / f"{batch.id}.json"

    def save(self, batch: Batch) -> None:
        """Write a batch's record. Once this method returns, a kill cannot lose it."""
        write_text(self.record_path(batch), batch.model_dump_json() + "\n")

    def remove(self, batch: Batch) -> None:
        """Remove the record and the requests of a batch without answers."""
        self.record_path(batch).unlink(missing_ok=True)
        self.requests_path(batch).unlink(missing_ok=True)

    def read(self, batch: Batch) -> Batch | None:
        """Return the current record of a batch; None if it was removed. Raises UserError if it cannot be read."""
        return self._read(self.record_path(batch))

    def batches(self) -> list[Batch]:
        """Return the batches, the oldest first. Raises UserError that lists the records that cannot be read."""
        batches, faults = self.readable_batches()
        if faults:
            raise UserError.of(faults)
        return batches

    def readable_batches(self) -> tuple[list[Batch], list[UserError]]:
        """Return the batches whose records can be read, the oldest first, and the errors of the other records."""
        batches, faults = list[Batch](), list[UserError]()
        for path in sorted(self.path.glob("*.json")):
            try:
                batches += filter(None, [self._read(path)])
            except UserError as fault:
                faults.append(fault)
        return sorted(batches, key=lambda batch: (batch.at, batch.id)), faults

    def _read(self, path: Path) -> Batch | None:
        """Return the batch in a record; None if another job removed it. Raises UserError if it cannot be read.

        A missing file of answers is an error too.
        """
        try:
            batch = Batch.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            fix = "restore the file; without it, the requests of this batch would be sent again"
            raise UserError(str(path), "the record of a batch cannot be read", fix) from None
        if batch.state == BatchState.COLLECTED and not (answers := self.answers_path(batch)).is_file():
            raise missing_answers(answers, path)
        return batch

    def drop_failed(self) -> int:
        """Take the requests that collected batches left unanswered out of these batches, and return their number.

        They may then be submitted again, although they were in as many batches as are allowed.
        """
        dropped = 0
        for batch in self.batches():
            if batch.state != BatchState.COLLECTED:
                continue
            index = BatchAnswers(batch, self.answers_path(batch)).index
            kept = [key for key in batch.keys if key in index.answered or key in index.refused]
            if len(kept) < len(batch.keys):
                self.save(batch.model_copy(update={"keys": kept}))
                dropped += len(batch.keys) - len(kept)
        return dropped

    def drop_answers(self, is_dropped: Callable[[str, bool], bool]) -> None:
        """Remove lines from the collected batches, so that their requests are sent again.

        is_dropped: function of a request's key, without its prefix, and of True for a line that is no answer.
        """
        for path in sorted(self.path.glob("*.answers")):
            with open(path, "rb") as lines, atomic_file(path, "wb") as kept:
                kept.writelines(
                    line
                    for line in lines
                    if (parsed := parse_line(line)) and not is_dropped(parsed.key, not isinstance(parsed.outcome, dict))
                )


def missing_answers(answers: Path, record: Path) -> UserError:
    """Return the error for a collected batch whose answers are missing."""
    fix = f"restore the file, or delete {record} to send its requests again"
    return UserError(str(answers), "the answers of a batch are missing", fix)


def folders_with_batches(journals: Path) -> Iterator[BatchFolder]:
    """Yield the folders with batches within the folder of all journals."""
    yield from (BatchFolder(path, owned=False) for path in sorted(journals.glob(f"**/*{SUFFIX}")))


Outcome = dict[str, Any] | Refusal | str


class ParsedLine(NamedTuple):
    """Line of a batch's output file or error file.

    key: key of the request, without its prefix; outcome: the response's body, the refusal of this request, or, if it
    should be sent again, the reason as text.
    """

    key: str
    outcome: Outcome


def parse_line(line: bytes) -> ParsedLine | None:
    """Parse a line of an output file or error file; return None for a line without an identifier.

    Endpoints state an error as a code without a response (the batch ended before the request was answered), as a
    response with an error status, or as a text (vLLM's `run_batch`).
    """
    if b"\0" in line:  # it may be UTF-16, which was stored as if it were UTF-8
        return None
    try:
        content = parse_body(line.removeprefix(BYTE_ORDER_MARK))
    except MalformedAnswer:
        return None
    key = content.get("custom_id") if isinstance(content, dict) else None
    if not isinstance(key, str):
        return None
    try:
        return ParsedLine(key, outcome_of(content))
    except Exception as error:  # whatever is odd in one line concerns this line alone
        return ParsedLine(key, f"a line that cannot be read ({type(error).__name__})")


def outcome_of(content: Mapping[str, Any]) -> Outcome:
    """Return the outcome of one request of a batch. content: the parsed line."""
    response, error = content.get("response"), content.get("error")
    if isinstance(response, dict):
        status, body = response.get("status_code"), response.get("body")
        if status == HTTP_OK and not error:
            if (failure := error_in(body)) is not None:
                return passing_reason(failure) or failure
            return body if isinstance(body, dict) else "an answer without a body"
        if isinstance(status, int) and status in HTTP_ERRORS:
            refusal = refusal_in(status, body or {"error": error or ""})
            return passing_reason(refusal) or refusal
        if not error:
            return f"status {status}"
    if isinstance(error, dict) and error.get("code"):
        return body_excerpt(str(error["code"]).encode("utf-8", "replace"))
    return body_excerpt(json.dumps(error).encode()) if error else "neither an answer nor an error"


def passing_reason(refusal: Refusal) -> str | None:
    """Return a refusal as text if it is transient, else None."""
    return refusal.words if scope_of(refusal) == "passing" else None


class AnswerIndex(NamedTuple):
    """Index of the lines of a batch's answers.

    places: byte offset of each request's line; answered, refused: keys of the requests with an answer or a refusal;
    repeated, foreign: numbers of further lines about the same request, and of lines about other requests.
    """

    places: dict[str, int]
    answered: set[str]
    refused: set[str]
    repeated: int
    foreign: int


class BatchAnswers:
    """Answers of a collected batch. Its file is read when the first of them is needed."""

    def __init__(self, batch: Batch, path: Path) -> None:
        self.batch, self.path, self.keys = batch, path, frozenset(batch.keys)

    @cached_property
    def index(self) -> AnswerIndex:
        """Index of the file. Of several lines about a request, the first answer counts, or else the first line."""
        places, answered, refused = dict[str, int](), set[str](), set[str]()
        place = repeated = foreign = 0
        with self._opened() as handle:
            for line in handle:
                begins, place = place, place + len(line)
                parsed = parse_line(line)
                if parsed is None:
                    continue
                key, outcome = parsed
                if key not in self.keys:
                    foreign += 1
                    continue
                is_first = key not in places
                repeated += not is_first
                if isinstance(outcome, dict) and key not in answered:
                    answered.add(key)
                    places[key] = begins
                elif is_first:
                    places[key] = begins
                    if isinstance(outcome, Refusal):
                        refused.add(key)
        return AnswerIndex(places, answered, refused - answered, repeated, foreign)

    def _opened(self) -> IO[bytes]:
        """Open the file. Raises UserError if it was removed."""
        try:
            return open(self.path, "rb")
        except FileNotFoundError:
            raise missing_answers(self.path, self.path.with_suffix(".json")) from None

    def outcome(self, key: str) -> Outcome:
        """Return the outcome of a request of this batch."""
        for _ in range(2):
            if key not in self.index.places:
                return "no line in the batch's files"
            with self._opened() as handle:
                handle.seek(self.index.places[key])
                parsed = parse_line(handle.readline())
            if parsed is not None and parsed.key == key:
                return parsed.outcome
            del self.__dict__["index"]  # `maieutic forget` has rewritten the file
        return "a damaged line"

    def settles(self, key: str, request: Mapping[str, Any]) -> bool:
        """Return True if a request need not be sent again: it was answered, or its refusal concerns it alone."""
        outcome = self.outcome(key)
        if isinstance(outcome, Refusal):
            return scope_of(outcome) == "one"
        if not isinstance(outcome, dict):
            return False
        try:
            parse_reply(request, outcome)
        except MalformedAnswer:
            return False
        return True

    @property
    def present(self) -> int:
        """Number of this batch's requests about which the file has a line."""
        return len(self.index.places)

    def summary(self) -> str:
        """Return the numbers of answered, refused and unanswered requests, and of unexpected lines, as text."""
        answered, refused = len(self.index.answered), len(self.index.refused)
        counts = {
            "refused": refused,
            "unanswered": len(self.keys) - answered - refused,
            "repeated lines": self.index.repeated,
            "lines about other requests": self.index.foreign,
        }
        return ", ".join([f"{answered} answered", *(f"{number} {what}" for what, number in counts.items() if number)])


def store_answers(sources: Iterable[Path], out: Path) -> None:
    """Join the downloaded files of a batch into one file."""
    with atomic_file(out, "wb") as handle:
        for source in sources:
            with open(source, "rb") as lines:
                handle.writelines(line.rstrip(b"\n") + b"\n" for line in lines if line.strip())


class TooLarge(Exception):
    """Error for a download that is larger than the answers of its batch can be. The rest of it is not read."""


class RedactingWriter:
    """Writer of a downloaded file. Only whole lines are written, with API keys redacted.

    Lines end at line feeds only: texts may contain other line separators.
    """

    def __init__(self, handle: IO[bytes], longest_line: int, most: int) -> None:
        """longest_line, most: maximum number of bytes of a line and of the file, after decompression."""
        self.handle, self.longest_line, self.most = handle, longest_line, most
        self.rest: list[bytes] = []  # parts of a line that has not ended yet
        self.rest_size = self.size = 0

    def write(self, part: bytes) -> None:
        """Write the lines that end in the next part of the file. Raises TooLarge."""
        self.size += len(part)
        first, *others = part.split(b"\n")
        self._keep(first)
        for line in others:
            self.end()
            self._keep(line)

    def _keep(self, part: bytes) -> None:
        """Keep a part of a line until the line ends."""
        self.rest.append(part)
        self.rest_size += len(part)
        if self.rest_size > self.longest_line or self.size > self.most:
            limit = self.longest_line if self.rest_size > self.longest_line else self.most
            raise TooLarge(
                f"more than {limit / MEGABYTE:.0f} MB in a {'line' if limit == self.longest_line else 'file'}"
            )

    def end(self) -> None:
        """Write the line that has ended."""
        line = b"".join(self.rest)
        self.rest, self.rest_size = [], 0
        if line:
            self._write_line(line)

    def _write_line(self, line: bytes) -> None:
        self.handle.write(redact_sent_keys(line.decode("utf-8", "replace")).encode() + b"\n")
