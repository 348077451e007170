"""Batches of requests on disk: the files of each batch beside the journal of its job, and the settings of a run.

A batch is written before anything is sent, and its file is replaced after each step, so that a killed job knows at its
next start what was sent. Its answers stay in a file here, from which the job's journal takes them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, write_text
from maieutic.core.jobs import Job
from maieutic.core.records import Record
from maieutic.core.secrets import redact_sent_keys
from maieutic.serving.answers import MalformedAnswer, body_excerpt, parse_body
from maieutic.serving.refusals import Refusal, error_in, refusal_in, scope_of

# Environment variable through which Snakemake passes the settings of batches to its jobs. They are not job parameters,
# because a changed parameter would make Snakemake recompute results.
BATCH_VARIABLE = "MAIEUTIC_BATCHES"
SUFFIX = ".batches"  # of the folder with a journal's batches
HTTP_OK, HTTP_ERRORS = 200, range(400, 600)


class BatchLimits(Job):
    """Limits of one batch at an endpoint.

    requests, mb: maximum number of requests, and of megabytes; path: beginning of the address in a batch's lines.
    """

    requests: int
    mb: float
    path: str = "/v1"


class BatchSettings(Job):
    """Value of BATCH_VARIABLE: settings of a run's batches.

    run: name of the run; wait: True if jobs wait for their batches; limits: for each registry entry that uses batches,
    the limits of its endpoint; models: for each judge, the registry entry that answers its requests.
    """

    run: str
    wait: bool = False
    limits: dict[str, BatchLimits] = {}
    models: dict[str, str] = {}

    def limits_of(self, asker: str) -> BatchLimits | None:
        """Return the limits of batches of a tutor or judge; None if its requests are sent one by one."""
        return self.limits.get(self.models.get(asker, asker))


def batch_settings_of(environment: Mapping[str, str]) -> BatchSettings:
    """Return the settings of the run's batches, without any limits if no model of the run uses batches."""
    value = environment.get(BATCH_VARIABLE)
    return BatchSettings.model_validate_json(value) if value else BatchSettings(run="")


class BatchState(StrEnum):
    """Progress of a batch.

    WRITTEN: its requests are on disk, nothing was submitted; SUBMITTING: its file is at the endpoint, and the batch may
    have been submitted; POSTPONED: the endpoint refused it for now, since too much is waiting there; SUBMITTED: its
    identifier is known; COLLECTED: it has ended, and its answers are on disk.
    """

    WRITTEN = "written"
    SUBMITTING = "submitting"
    POSTPONED = "postponed"
    SUBMITTED = "submitted"
    COLLECTED = "collected"


class Batch(Record):
    """One batch of a job.

    id: random name of its files; submission: number of times that it was submitted; run: name of the run; job: journal
    of the job; entry: registry entry of the model; base_url: address of the endpoint; key_env: name of the environment
    variable with the key; model_digest: digest of the model's request-key fields; url: address in the lines; keys: keys
    of the requests, without their prefix; size: number of bytes of the requests; input_file: the endpoint's identifier
    of the file with the requests; provider_id: its identifier of the batch; status: last known status there; at: time
    of the last step, in UTC; submitted: time of the submission, in UTC.
    """

    id: str
    submission: int = 1
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

    @property
    def is_pending(self) -> bool:
        """True if the batch was submitted, or may have been, and its answers are not collected."""
        return self.state in {BatchState.SUBMITTING, BatchState.POSTPONED, BatchState.SUBMITTED}

    @property
    def began(self) -> float:
        """Time of the last step in seconds since 1970."""
        return datetime.fromisoformat(self.at).timestamp()

    @property
    def submitted_at(self) -> str:
        """Time of the submission for people, in UTC; "" before it."""
        return f"{datetime.fromisoformat(self.submitted):%Y-%m-%d %H:%M}" if self.submitted else ""

    @property
    def mark(self) -> str:
        """Text in the batch's metadata at the endpoint by which a job recognises it."""
        return f"{self.id}.{self.submission}"


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
        path = self.record_path(batch)
        return self._read(path) if path.exists() else None

    def batches(self) -> list[Batch]:
        """Return the batches, the oldest first. Raises UserError for a record that cannot be read."""
        batches = [self._read(path) for path in self.path.glob("*.json")] if self.path.is_dir() else []
        return sorted(batches, key=lambda batch: (batch.at, batch.id))

    def _read(self, path: Path) -> Batch:
        """Return the batch in a record. Raises UserError if it cannot be read, or if its answers are missing."""
        try:
            batch = Batch.model_validate_json(path.read_bytes())
        except ValidationError:
            fix = "restore the file; without it, the requests of this batch would be sent again"
            raise UserError(str(path), "the record of a batch cannot be read", fix) from None
        if batch.state == BatchState.COLLECTED and not (answers := self.answers_path(batch)).is_file():
            fix = f"restore the file, or delete {path} to send its requests again"
            raise UserError(str(answers), "the answers of a batch are missing", fix)
        return batch

    def drop_refusals(self) -> None:
        """Remove all lines but answers from the collected batches, so that refused requests are sent again."""
        for path in sorted(self.path.glob("*.answers")):
            lines = path.read_bytes().split(b"\n")
            kept = [line for line in lines if line and (parsed := parse_line(line)) and is_answer(parsed.outcome)]
            with atomic_file(path, "wb") as handle:
                handle.writelines(line + b"\n" for line in kept)


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


def is_answer(outcome: Outcome) -> bool:
    """Return True for the body of a response."""
    return isinstance(outcome, dict)


def parse_line(line: bytes) -> ParsedLine | None:
    """Parse a line of an output file or error file; return None for a line without an identifier.

    Endpoints state an error as a code without a response (the batch ended before the request was answered), as a
    response with an error status, or as a text (vLLM's `run_batch`).
    """
    try:
        content = parse_body(line)
    except MalformedAnswer:
        return None
    key = content.get("custom_id") if isinstance(content, dict) else None
    return ParsedLine(key, outcome_of(content)) if isinstance(key, str) else None


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
        return body_excerpt(str(error["code"]).encode())
    return body_excerpt(json.dumps(error).encode()) if error else "neither an answer nor an error"


def passing_reason(refusal: Refusal) -> str | None:
    """Return a refusal as text if it is transient, else None."""
    return refusal.words if scope_of(refusal, retry_after=False) == "passing" else None


class BatchAnswers:
    """Answers of a collected batch. Its file is read when the first of them is needed."""

    def __init__(self, batch: Batch, path: Path) -> None:
        self.batch, self.path, self.keys = batch, path, frozenset(batch.keys)
        self.foreign = self.repeated = 0  # numbers of lines about other requests, and of further lines about a request
        self.refused: set[str] = set()

    @cached_property
    def places(self) -> dict[str, int]:
        """Byte offset of each request's line. Of several lines, the first answer counts, or else the first line."""
        places, answered, place = dict[str, int](), set[str](), 0
        with open(self.path, "rb") as handle:
            for line in handle:
                begins, place = place, place + len(line)
                parsed = parse_line(line) if line.strip() else None
                if parsed is None:
                    continue
                if parsed.key not in self.keys:
                    self.foreign += 1
                    continue
                self.repeated += parsed.key in places
                if is_answer(parsed.outcome) and parsed.key not in answered:
                    answered.add(parsed.key)
                    places[parsed.key] = begins
                elif places.setdefault(parsed.key, begins) == begins and isinstance(parsed.outcome, Refusal):
                    self.refused.add(parsed.key)
        self.refused -= answered
        self._answered = answered
        return places

    @property
    def answered(self) -> set[str]:
        """Keys of the requests with an answer."""
        _ = self.places
        return self._answered

    def outcome(self, key: str) -> Outcome:
        """Return the outcome of a request of this batch."""
        if key not in self.places:
            return "no line in the batch's files"
        with open(self.path, "rb") as handle:
            handle.seek(self.places[key])
            parsed = parse_line(handle.readline())
        return parsed.outcome if parsed is not None else "a damaged line"

    def summary(self) -> str:
        """Return the numbers of answered, refused and unanswered requests, and of unexpected lines, as text."""
        unanswered = len(self.keys) - len(self.answered) - len(self.refused)
        counts = {
            "refused": len(self.refused),
            "unanswered": unanswered,
            "repeated lines": self.repeated,
            "lines about other requests": self.foreign,
        }
        return ", ".join(
            [f"{len(self.answered)} answered", *(f"{number} {what}" for what, number in counts.items() if number)]
        )


def store_answers(sources: Iterable[Path], out: Path) -> None:
    """Join the downloaded files of a batch into one file, with API keys redacted.

    Lines end at line feeds only: texts may contain other line separators.
    """
    with atomic_file(out, "wb") as handle:
        for source in sources:
            with open(source, "rb") as lines:
                for line in lines:
                    text = redact_sent_keys(line.decode("utf-8", "replace").rstrip("\n"))
                    handle.write(text.encode() + b"\n" if text.strip() else b"")
