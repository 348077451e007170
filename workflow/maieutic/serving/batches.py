"""Requests in batches on disk: the outboxes of jobs, the records of batches, and the lines that providers send back.

A job writes each request that has no answer yet into its outbox. The run sends what is in the outboxes, and collects
the answers into the journals (`maieutic.launch.batches`). A batch's record is on disk before anything is sent, and is
replaced after each step, so that the next call of a killed one knows what was sent.
"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import ValidationError

from maieutic.config.models import HostedModel, Price
from maieutic.core import paths
from maieutic.core.errors import RUN_FILES_VARIABLE, UserError, raise_all
from maieutic.core.extensions import extension_folders
from maieutic.core.files import atomic_file, write_text
from maieutic.core.jobs import Job
from maieutic.core.records import Record
from maieutic.core.secrets import redact_sent_keys
from maieutic.serving.answers import MalformedAnswer, body_excerpt, parse_body
from maieutic.serving.refusals import Refusal, error_in, refusal_in, scope_of

# Environment variable through which Snakemake passes the settings of batches to its jobs. They are not job parameters,
# because a changed parameter would make Snakemake recompute results.
BATCH_VARIABLE = "MAIEUTIC_BATCHES"
FORMER = ".batches"  # suffix of the folders in which an earlier version kept batches beside their journals
OUTBOX = ".outbox"  # suffix of a job's outbox, which is beside the job's journal
MEGABYTE = 1_000_000
NO_NAME = "(no name)"  # shown for a run whose run file does not set `run.name`
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HTTP_OK, HTTP_ERRORS = 200, range(400, 600)


class BatchLimits(Job):
    """Limits of one batch at an endpoint.

    requests: maximum number of requests; mb: maximum size in MB of 1,000,000 bytes; url_prefix: beginning of the `url`
    in a batch's lines.
    """

    requests: int
    mb: float
    url_prefix: str = "/v1"


class BatchSettings(Job):
    """Value of BATCH_VARIABLE: settings of a run's batches.

    run: name of the run; limits, prices: for each registry entry that uses batches, the limits of its endpoint and the
    entry's prices; models: for each judge, the registry entry that answers its requests.
    """

    run: str
    limits: dict[str, BatchLimits] = {}
    prices: dict[str, Price] = {}
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


def settings_files(environment: Mapping[str, str]) -> list[str]:
    """Return the run files of a job and the folders of its extensions, whose edits change what the run asks."""
    return [*shlex.split(environment.get(RUN_FILES_VARIABLE, "")), *map(str, extension_folders())]


# outboxes -------------------------------------------------------------------------------------------------------------


class OutboxHeader(Record):
    """First line of an outbox.

    run: name of the run; entry: registry entry of the model; model: the entry itself; asker: name of the tutor or judge
    that asks; journal: path of the job's journal; pictures: folder of the pictures in messages; limits: limits of a
    batch, None if the entry does not use batches, so that the outbox only asks for answers of batches in progress;
    price: prices of the model; settings: run files and folders of extensions; allowance: the run's budget, as in
    `serving.budget.BUDGET_VARIABLE`.
    """

    run: str
    entry: str
    model: HostedModel
    asker: str
    journal: str
    pictures: str | None = None
    limits: BatchLimits | None = None
    price: Price | None = None
    settings: list[str] = []
    allowance: str = ""


class QueuedRequest(NamedTuple):
    """Request in an outbox or in a batch. key: its key without the prefix, which is its `custom_id` in a batch."""

    key: str
    request: dict[str, Any]

    @property
    def line(self) -> str:
        """The request as a line of a file."""
        return json.dumps([self.key, self.request]) + "\n"


def read_requests(path: Path, skipped: int = 0) -> Iterator[QueuedRequest]:
    """Yield the requests in the lines of a file. skipped: number of other lines at its beginning."""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number >= skipped:
                yield QueuedRequest(*json.loads(line))


def outboxes(journals: Path) -> dict[Path, OutboxHeader]:
    """Return the headers of all outboxes of a folder of journals by path. Raises UserError for a damaged one."""
    headers = {}
    for path in sorted(journals.glob(f"**/*{OUTBOX}")):
        with open(path, encoding="utf-8") as lines:
            try:
                headers[path] = OutboxHeader.model_validate_json(lines.readline())
            except ValidationError:
                raise UserError(str(path), "the outbox cannot be read", "delete it, and run again") from None
    return headers


def has_batches(journals: Path) -> bool:
    """Return True if a folder of journals has outboxes or batches, also of an earlier version."""
    names = {Path(paths.BATCHES).name}
    return any(path.suffix in {OUTBOX, FORMER} or path.name in names for path in journals.rglob("*"))


# records --------------------------------------------------------------------------------------------------------------


class BatchState(StrEnum):
    """Progress of a batch.

    WRITTEN: its requests are on disk, nothing was submitted; SUBMITTING: its file is at the endpoint, and the batch may
    have been submitted; SUBMITTED: its identifier is known; DOWNLOADED: it has ended, and its answers are on disk;
    COLLECTED: its answers are in the journals.
    """

    WRITTEN = "written"
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    DOWNLOADED = "downloaded"
    COLLECTED = "collected"


class Asker(Record):
    """Job that asked for answers of a batch. name: its tutor or judge; keys: keys of its requests, without prefix."""

    name: str
    keys: list[str]


class Batch(Record):
    """One batch.

    id: random name, also in its metadata at the endpoint; run: name of the run; entry: registry entry of the model;
    model: the entry as it was when the batch was sent; askers: the jobs that asked for its answers, by their journals,
    and once it is collected only the requests that it did not answer; url: address in the lines; size: number of bytes
    of its lines; pictures: folder of the pictures in its messages; input_file: the endpoint's identifier of the file
    with the requests; provider_id: its identifier of the batch; status: last known status there; at: time of the last
    step, in UTC; submitted: time of the submission, in UTC; reserved_tokens, reserved_usd: what is reserved for its
    requests in the budget of every run until it is collected, 0 if it was sent without a budget; allowance: as in
    OutboxHeader; taken: number of its requests whose answers were taken from an incomplete file;
    usd: about its cost in US dollars, None without prices.
    """

    id: str
    run: str
    entry: str
    model: HostedModel
    askers: dict[str, Asker]
    url: str
    state: BatchState
    size: int = 0
    pictures: str | None = None
    input_file: str | None = None
    provider_id: str | None = None
    status: str = ""
    at: str
    submitted: str | None = None
    reserved_tokens: int = 0
    reserved_usd: float = 0.0
    allowance: str = ""
    taken: int = 0
    usd: float | None = None

    @property
    def keys(self) -> list[str]:
        """Keys of its requests, without prefix."""
        return list(dict.fromkeys(key for asker in self.askers.values() for key in asker.keys))

    @property
    def is_pending(self) -> bool:
        """True if the batch was submitted, or may have been, and its answers are not in the journals."""
        return self.state in {BatchState.SUBMITTING, BatchState.SUBMITTED, BatchState.DOWNLOADED}

    @property
    def host(self) -> str:
        """Host of its endpoint."""
        return urlsplit(self.model.base_url).netloc

    @property
    def last_step_seconds(self) -> float:
        """Time of the last step in seconds since 1970."""
        return datetime.fromisoformat(self.at).timestamp()

    @property
    def submitted_at(self) -> str:
        """Time of the submission for people, in UTC; "" before it."""
        return f"{datetime.fromisoformat(self.submitted):%Y-%m-%d %H:%M}" if self.submitted else ""

    def with_keys(self, kept: Collection[str]) -> dict[str, Asker]:
        """Return its askers with those of their keys that are kept."""
        left = {
            journal: asker.model_copy(update={"keys": [key for key in asker.keys if key in kept]})
            for journal, asker in self.askers.items()
        }
        return {journal: asker for journal, asker in left.items() if asker.keys}


def new_batch_id() -> str:
    """Return a random name for a batch."""
    return secrets.token_hex(8)


class BatchFolder:
    """Folder with the batches of all runs: for each, a record, its requests, and its answers once it has ended."""

    def __init__(self, path: Path = Path(paths.BATCHES)) -> None:
        self.path = path

    def file(self, batch: Batch, suffix: str) -> Path:
        """Return the path of a batch's file: `json` (the record), `requests`, `upload`, `answers` or `part`."""
        return self.path / f"{batch.id}.{suffix}"

    def save(self, batch: Batch) -> None:
        """Write a batch's record. Once this method returns, a kill cannot lose it."""
        write_text(self.file(batch, "json"), batch.model_dump_json(exclude_defaults=True) + "\n")

    def remove(self, batch: Batch) -> None:
        """Remove all files of a batch."""
        for suffix in ("json", "requests", "answers"):
            self.file(batch, suffix).unlink(missing_ok=True)

    def remove_leftovers(self) -> None:
        """Remove what a killed call leaves: batches that were not submitted, and files without a record."""
        for batch in self.batches()[0]:
            if batch.state == BatchState.WRITTEN:
                self.remove(batch)
        for path in self.path.glob("*.*"):
            record = path.with_name(f"{path.name.partition('.')[0]}.json")
            if path.suffix in {".part", ".upload"} or not record.exists():
                path.unlink(missing_ok=True)

    def batches(self) -> tuple[list[Batch], list[UserError]]:
        """Return the batches whose records can be read, the oldest first, and the errors of the other records."""
        batches, faults = list[Batch](), list[UserError]()
        for path in sorted(self.path.glob("*.json")):
            try:
                batches.append(Batch.model_validate_json(path.read_bytes()))
            except ValidationError:
                fix = "restore the file; without it, the requests of this batch would be sent again"
                faults.append(UserError(str(path), "the record of a batch cannot be read", fix))
        return sorted(batches, key=lambda batch: (batch.at, batch.id)), faults

    def pending(self) -> list[Batch]:
        """Return the batches in progress, the oldest first. Raises UserError that lists the unreadable records."""
        batches, faults = self.batches()
        raise_all(faults)
        return [batch for batch in batches if batch.is_pending]

    def pending_keys(self) -> set[str]:
        """Return the keys, without prefix, of requests in batches in progress. Raises UserError like `pending`."""
        return {key for batch in self.pending() for key in batch.keys}

    def forget_unanswered(self, journal: str) -> None:
        """Forget the requests of a journal that collected batches left unanswered, so that they may be sent again."""
        for batch in self.batches()[0]:
            if batch.state == BatchState.COLLECTED and journal in batch.askers:
                left = {path: asker for path, asker in batch.askers.items() if path != journal}
                self.save(batch.model_copy(update={"askers": left}))


# lines of answers -----------------------------------------------------------------------------------------------------

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
    """Index of a batch's answers: byte offset of each request's line, and keys of the requests with an answer."""

    places: dict[str, int]
    answered: set[str]


def index_answers(path: Path, keys: Collection[str]) -> AnswerIndex:
    """Index a file of answers. Of several lines about a request, the first answer counts, or else the first line.

    keys: keys of the batch's requests.
    """
    places, answered, place = dict[str, int](), set[str](), 0
    with open(path, "rb") as handle:
        for line in handle:
            begins, place = place, place + len(line)
            if (parsed := parse_line(line)) is None or parsed.key not in keys:
                continue
            is_answer = isinstance(parsed.outcome, dict) and parsed.key not in answered
            if parsed.key not in places or is_answer:
                places[parsed.key] = begins
            if is_answer:
                answered.add(parsed.key)
    return AnswerIndex(places, answered)


def outcome_at(path: Path, place: int | None) -> Outcome:
    """Return the outcome in the line of a file of answers at a byte offset; None for a request without a line."""
    if place is None:
        return "no line in the batch's files"
    with open(path, "rb") as handle:
        handle.seek(place)
        parsed = parse_line(handle.readline())
    return parsed.outcome if parsed is not None else "a damaged line"


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
