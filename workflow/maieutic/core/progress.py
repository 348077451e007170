"""Progress of a job: a file that the run's terminal and live page read, and lines in the job's log."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import threading
import time
from collections import Counter, deque
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from maieutic.core import paths
from maieutic.core.secrets import redact

log = logging.getLogger(__name__)
EVERY_SECONDS = 5.0  # minimum time between two log lines, in seconds
FILE_SECONDS = 2.0  # time between two versions of a job's progress file, in seconds
MOST_REASONS = 3  # maximum number of failure reasons in the summary
MOST_ANSWERS = 10  # number of latest answers in the progress file
MOST_NOTICES = 20  # maximum number of warnings in the progress file
LONGEST_ANSWER = 1500  # maximum number of characters of an answer in the progress file
SHORT_SECONDS = 1.0  # the rate is computed from the latest requests only if they span at least this time, in seconds
BATCH_SECONDS = 0.05  # requests that finish within this time of each other belong to one batch of a reward model
WINDOW = 200  # number of latest finished requests from which the rate is computed


def format_duration(seconds: float) -> str:
    """Return a duration in the format 1:02:03 (hours, minutes, seconds), or 2:03 if it is under an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# the progress file ----------------------------------------------------------------------------------------------------


class Content(BaseModel):
    """Base class of what a progress file contains. The records of results would make the start of each job slower."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class WorkProgress(Content):
    """Progress of one piece of a job's work, such as the items of a benchmark.

    done, total: numbers of finished and of all units; known: finished units whose answers were on file; rate: finished
    units per second; unit: plural noun for a unit.
    """

    title: str
    unit: str
    done: int
    total: int
    known: int = 0
    rate: float = 0.0


class JournalProgress(Content):
    """Answers that a job has appended to one journal, their tokens, and how many the endpoint gave without usage."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    unreported: int = 0


class LatestAnswer(Content):
    """One of a job's latest answers. key: its request key; error: why it is missing, None if the model answered."""

    key: str
    time: float
    text: str
    tokens: int | None
    error: str | None


class JobProgress(Content):
    """Content of a job's progress file.

    time: time of writing, in seconds since 1970; ended: True once the job has ended; journals: answers by the path of
    the journal; failed_tries: failed requests by status or kind of error, retried ones included; missing: requests
    without an answer by their state; message: the job's last log line; notices: its warnings.
    """

    time: float
    ended: bool
    work: list[WorkProgress]
    journals: dict[str, JournalProgress] = {}
    failed_tries: dict[str, int] = {}
    missing: dict[str, int] = {}
    message: str = ""
    notices: list[str] = []
    latest: list[LatestAnswer] = []


class LiveRow(Content):
    """One model of a run in progress. text: its counts; total: None if it is not known."""

    name: str
    text: str
    done: int
    total: int | None
    is_running: bool


class LiveRun(Content):
    """State of a run in progress, which Snakemake's process writes for the live page.

    time: time of writing, in seconds since 1970; head: jobs, requests and cost in one line; page: the report, once it
    is written.
    """

    time: float
    ended: bool
    head: str
    rows: list[LiveRow]
    failures: list[str]
    notices: list[str]
    page: str | None = None


def progress_path(log_file: Path) -> Path | None:
    """Return the path of a job's progress file; None if the job's log is not in the folder of the logs."""
    logs, folder = Path(paths.LOGS), Path(paths.PROGRESS)
    return folder / log_file.relative_to(logs).with_suffix(".json") if log_file.is_relative_to(logs) else None


def read_progress(path: Path) -> JobProgress | None:
    """Return the content of a progress file; None if the file is missing or damaged."""
    try:
        return JobProgress.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def write_unsynced(path: Path, text: str) -> None:
    """Write a file that serves for seconds: atomically, but without waiting for the disk, and without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)


class ProgressFile:
    """The progress file of this process. Nothing is counted before `open`, so interactive commands have none."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.work: list[Progress] = []
        self.journals: dict[str, JournalProgress] = {}
        self.failed_tries: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self.message, self.notices = "", list[str]()
        self.alike: set[str] = set()  # warnings without their numbers
        self.latest: deque[LatestAnswer] = deque(maxlen=MOST_ANSWERS)
        self.is_written_regularly = False
        self.lock = threading.Lock()

    def open(self, path: Path) -> None:
        """Set the file's path. The last version is written when the process ends."""
        self.path = path
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        atexit.register(self.write, ended=True)

    def add_work(self, work: Progress) -> None:
        """Report a piece of work, from now on every FILE_SECONDS."""
        if self.path is None:
            return
        self.work.append(work)
        if not self.is_written_regularly:
            self.is_written_regularly = True
            threading.Thread(target=self.write_regularly, name="progress", daemon=True).start()

    def write_regularly(self) -> None:
        """Write the file every FILE_SECONDS until the process ends."""
        while True:
            self.write()
            time.sleep(FILE_SECONDS)

    def count_answer(
        self, journal: Path, key: str, text: str, error: str | None, tokens: tuple[int | None, int | None, int | None]
    ) -> None:
        """Count an answer that was appended to a journal. tokens: prompt, completion and cached tokens."""
        if self.path is None:
            return
        prompt, completion, cached = tokens
        counts = self.journals.get(str(journal), JournalProgress())
        self.journals[str(journal)] = JournalProgress(
            requests=counts.requests + 1,
            prompt_tokens=counts.prompt_tokens + (prompt or 0),
            completion_tokens=counts.completion_tokens + (completion or 0),
            cached_tokens=counts.cached_tokens + (cached or 0),
            unreported=counts.unreported + (prompt is None and error is None),
        )
        answer = LatestAnswer(
            key=key, time=time.time(), text=text[:LONGEST_ANSWER], tokens=completion, error=error and redact(error)
        )
        self.latest.append(answer)

    def count_missing(self, state: str) -> None:
        """Count a request without an answer, by its state."""
        self.missing[state] += 1

    def count_failed_try(self, kind: str) -> None:
        """Count a failed request, which is often sent again."""
        self.failed_tries[kind] += 1

    def note(self, line: str, is_warning: bool) -> None:
        """Keep the latest log line, and warnings for the terminal. A warning is written at once."""
        self.message = line
        if is_warning and len(self.notices) < MOST_NOTICES and (alike := re.sub(r"\d+", "", line)) not in self.alike:
            self.alike.add(alike)
            self.notices.append(line)
            self.write()

    def write(self, ended: bool = False) -> None:
        """Write the file, unless nothing was reported. A file that cannot be written is left out."""
        if self.path is None or not (self.work or self.notices):
            return
        content = JobProgress(
            time=time.time(),
            ended=ended,
            work=[work.as_record() for work in list(self.work)],
            journals=dict(self.journals),
            failed_tries=dict(self.failed_tries),
            missing=dict(self.missing),
            message=self.message,
            notices=list(self.notices),
            latest=list(self.latest),
        )
        with self.lock:
            write_unsynced(self.path, content.model_dump_json())


PROGRESS_FILE = ProgressFile()
os.register_at_fork(after_in_child=lambda: setattr(PROGRESS_FILE, "path", None))  # forks are no jobs of their own


class Progress:
    """Counter of finished units of work, which logs a line every few seconds."""

    def __init__(self, what: str, total: int, unit: str = "items") -> None:
        """what: name of the work; total: number of its units; unit: plural noun for a unit."""
        self.title, self.total, self.unit = what, total, unit
        self.done = self.known = self.failed = self.later = self.unsent = self.tokens = 0
        self.began = self.logged_at = time.monotonic()
        self.recent: deque[float] = deque(maxlen=WINDOW)
        self.failure_reasons: Counter[str] = Counter()
        PROGRESS_FILE.add_work(self)

    def as_record(self) -> WorkProgress:
        """Return the counts for the progress file."""
        rate = self.rate(time.monotonic())
        return WorkProgress(
            title=self.title, unit=self.unit, done=self.done, total=self.total, known=self.known, rate=rate
        )

    def fail(self, why: str, later: bool = False, sent: bool = True) -> None:
        """Count one request without an answer.

        why: reason shown in the summary; later: True if a later run collects the answer; sent: False if the request was
        not sent because the job is ending.
        """
        if not later:
            self.failure_reasons[why] += 1
        self.later += later
        self.unsent += not sent
        self.step(failed=True, sent=sent and not later)

    def reasons(self) -> str:
        """Return the most frequent reasons for failures with their counts."""
        return ", ".join(f"{why}: {number}" for why, number in self.failure_reasons.most_common(MOST_REASONS))

    def step(self, known: bool = False, failed: bool = False, tokens: int = 0, sent: bool = True) -> None:
        """Count one finished request.

        known: True if the journal had the answer; failed: True if there is no answer; tokens: number of generated
        tokens; sent: False if the request was not sent, or has no result yet.
        """
        self.done += 1
        self.known += known
        self.failed += failed
        self.tokens += tokens
        if not known and sent:
            self.recent.append(time.monotonic())
        if time.monotonic() - self.logged_at >= EVERY_SECONDS and self.done < self.total:
            self.log_line()

    def rate(self, now: float) -> float:
        """Return the rate of the last WINDOW requests, in requests per second.

        If they span less than SHORT_SECONDS, the rate of all requests is returned. Answers from the journal are not
        counted. The rate is 0 for fewer than two finished requests.
        """
        recent = list(self.recent)  # a copy, because the progress file is written in a thread of its own
        if len(recent) < 2:
            return 0.0
        span = now - recent[0]
        if span < SHORT_SECONDS:
            return (self.done - self.known - self.later - self.unsent) / (now - self.began) if now > self.began else 0.0
        # The time before the first request in the window is unknown. Requests that finished together with it therefore
        # count as one.
        together = sum(moment - recent[0] < BATCH_SECONDS for moment in recent)
        return (len(recent) - together + 1) / span

    def log_line(self) -> None:
        """Log the counts, the rate and the remaining time in one line."""
        now = self.logged_at = time.monotonic()
        line = f"{self.title}: {self.done}/{self.total}"
        if self.known:
            line += f", {self.known} from the journal"
        counts = {"failed": self.failed - self.later - self.unsent, "not sent": self.unsent, "in batches": self.later}
        line += "".join(f", {number} {what}" for what, number in counts.items() if number > 0)
        if self.done > self.known + self.later + self.unsent and (rate := self.rate(now)):
            line += f", {rate:.1f} requests/s, {self.tokens / (now - self.began):.0f} tokens/s"
            if self.done < self.total:
                line += f", {format_duration((self.total - self.done) / rate)} left"
        log.info(line)
