"""State of a run while its jobs work: what each model has answered, at which rate and cost, and which jobs failed."""

from __future__ import annotations

import re
import shutil
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core import paths
from maieutic.core.progress import JobProgress, format_duration, progress_path, read_progress
from maieutic.launch.messages import STOPPED, Billed, failure_lines, is_pending, registry_cost
from maieutic.launch.requests import NewRequests
from maieutic.launch.snakemake_compat import LOCAL_TWIN
from maieutic.plan.rules import RulePlan

Job = Any  # a Snakemake job
ASKERS = ("tutor", "judge", "tagger", "reward_model", "classifier", "encoder", "model")  # wildcards that name a row
WINDOW = 15  # number of the latest versions of a progress file from which the rate of requests is computed
MOST_REASONS = 2  # maximum number of kinds of failed tries that a line names


class Row(NamedTuple):
    """Progress of one model in a run, or of a stage without a model.

    done, total: finished and expected units, None if the total is not known; unit: their plural noun; is_about: True
    if the total is an estimate; rate: units per second; usd: cost so far, None without a price; failed_tries, missing:
    numbers by kind; jobs_done, jobs: numbers of jobs; message: last log line of a running job that has done nothing.
    """

    name: str
    done: int
    total: int | None
    unit: str
    is_about: bool
    rate: float
    usd: float | None
    failed_tries: Counter[str]
    missing: Counter[str]
    jobs_done: int
    jobs: int
    is_running: bool
    message: str

    @property
    def seconds_left(self) -> float | None:
        """Time until all units are finished, in seconds, at the present rate; None if it is not known."""
        if not self.rate or self.total is None or self.total <= self.done:
            return None
        return (self.total - self.done) / self.rate

    def text(self) -> str:
        """Return the row's counts as text, such as `120 of 400 requests, 8.2/s, 0:34 left, 0.03 USD`."""
        of = f" of {'about ' if self.is_about else ''}{self.total:,}" if self.total is not None else ""
        parts = [f"{self.done:,}{of} {self.unit}"]
        if self.is_running and self.rate:
            parts.append(f"{self.rate:.1f}/s")
        if self.is_running and (left := self.seconds_left) is not None:
            parts.append(f"{format_duration(left)} left")
        if self.usd is not None:
            parts.append(f"{self.usd:.2f} USD")
        parts += [text for text in (counts_text(self.failed_tries, "failed tries"), counts_text(self.missing)) if text]
        if self.message and not self.failed_tries:
            parts.append(self.message)
        return ", ".join(parts)


def counts_text(counts: Counter[str], what: str = "") -> str:
    """Return counts by kind as text: with `what`, the total and the most frequent kinds, else each kind."""
    kinds = [f"{number} {kind}" for kind, number in counts.most_common()]
    if not what or not kinds:
        return ", ".join(kinds)
    return f"{counts.total()} {what} ({', '.join(kind for kind, _ in counts.most_common(MOST_REASONS))})"


class WatchedJob:
    """A planned job of a run: its names, its files, and the content of its progress file."""

    def __init__(self, plan: RulePlan, job: Job) -> None:
        self.names: dict[str, str] = dict(job.wildcards.items())
        self.rule = str(job.rule.name).removesuffix(LOCAL_TWIN)
        self.asker = next((self.names[kind] for kind in ASKERS if kind in self.names), None)
        self.job = job
        log = Path(str(job.log[0])) if job.log else None
        self.file = progress_path(log) if log is not None else None
        self.calls_model = job.resources.get("server_gpus") is not None
        models = plan.models_of(job.wildcards) if self.calls_model else []
        # registry entry that answers, by the path of its journal
        kept = [str(job.params[name]) for name in ("journal", "student_journal") if job.params.get(name)]
        self.models = dict(zip(kept, [*models, *models[-1:] * len(kept)], strict=False)) if models else {}
        self.state = "planned"
        self.progress: JobProgress | None = None
        self.read_at = 0.0
        self.counts: deque[tuple[float, int]] = deque(maxlen=WINDOW)  # times and numbers of answers

    @property
    def title(self) -> str:
        """The job's rule and wildcards."""
        return " ".join([self.rule, *self.names.values()])

    def read(self, since: float) -> None:
        """Read the job's progress file if it has changed. since: start of the run, in seconds since 1970."""
        if self.file is None:
            return
        try:
            changed = self.file.stat().st_mtime
        except OSError:
            return
        if changed > max(self.read_at, since) and (progress := read_progress(self.file)) is not None:
            self.read_at, self.progress = changed, progress
            self.counts.append((progress.time, self.answered))

    @property
    def answered(self) -> int:
        """Number of new answers."""
        return sum(counts.requests for counts in self.progress.journals.values()) if self.progress else 0

    @property
    def request_rate(self) -> float:
        """New answers per second over the last versions of the progress file."""
        (began, before), (ended, after) = (self.counts[0], self.counts[-1]) if self.counts else ((0, 0), (0, 0))
        return (after - before) / (ended - began) if ended > began else 0.0


class RunWatch:
    """The jobs of a run by Snakemake's number, with their states and progress."""

    def __init__(self, plan: RulePlan, jobs: Iterable[Job], planned: Sequence[NewRequests], since: float) -> None:
        """planned: new requests of the jobs; since: start of the run, in seconds since 1970."""
        self.plan, self.since = plan, since
        self.jobs = {job.jobid: WatchedJob(plan, job) for job in jobs}
        self.planned: dict[str, list[NewRequests]] = {}
        for part in planned:
            self.planned.setdefault(part.asker, []).append(part)
        self.failures: dict[int, str] = {}
        self.notices: list[str] = []
        self.shown_notices: set[str] = set()

    # events of Snakemake

    def start(self, numbers: Iterable[int]) -> None:
        """Note that jobs have been started or submitted."""
        for number in numbers:
            if number in self.jobs:
                self.jobs[number].state = "running"

    def finish(self, number: int) -> None:
        """Note that a job is finished."""
        if number in self.jobs:
            self.jobs[number].state = "done"
            self.jobs[number].read(self.since)
            self.failures.pop(number, None)

    def fail(self, number: int, reasons: Mapping[int, str]) -> list[str]:
        """Note that a job has failed, and return the lines that say why. A job that waits for a batch has no line.

        reasons: messages of the executor by job number.
        """
        if (watched := self.jobs.get(number)) is None:
            return []
        watched.read(self.since)
        if is_pending(watched.job, self.since):
            watched.state = "waiting"
            return []
        [line] = failure_lines([watched.job], self.since, reasons)
        watched.state = "stopped" if line.startswith(STOPPED) else "failed"
        is_new = self.failures.get(number) != line
        self.failures[number] = line
        return [line] if is_new else []

    # state

    def read(self) -> list[str]:
        """Read the progress of the running jobs, and return their new warnings."""
        new = []
        for watched in self.jobs.values():
            if watched.state == "running":
                watched.read(self.since)
            for notice in watched.progress.notices if watched.progress else ():
                if (alike := re.sub(r"\d+", "", notice)) not in self.shown_notices:
                    self.shown_notices.add(alike)
                    new.append(f"{watched.title}: {notice}")
        self.notices += new
        return new

    def count(self, state: str) -> int:
        """Return the number of jobs in a state."""
        return sum(watched.state == state for watched in self.jobs.values())

    @property
    def usd(self) -> float | None:
        """Cost of the answers so far in US dollars; None if no answering model has a price."""
        return total_usd(self.plan, self.jobs.values())

    def rows(self) -> list[Row]:
        """Return a row for each model that is asked or works, in the order of the plan. Baselines have none."""
        by_asker: dict[str, list[WatchedJob]] = {}
        for watched in self.jobs.values():
            if watched.asker is not None and (watched.asker in self.planned or watched.progress is not None):
                by_asker.setdefault(watched.asker, []).append(watched)
        order = {name: place for place, name in enumerate([*self.plan.run.tutors, *self.plan.run.judges])}
        names = sorted(by_asker, key=lambda name: (order.get(name, len(order)), name))
        return [self.row(name, by_asker[name]) for name in names]

    def row(self, name: str, jobs: Sequence[WatchedJob]) -> Row:
        """Return the row of one model. jobs: its jobs."""
        reports = [watched.progress for watched in jobs if watched.progress is not None]
        running = [watched for watched in jobs if watched.state == "running"]
        planned = self.planned.get(name, [])
        failed, missing = Counter[str](), Counter[str]()
        for report in reports:
            failed.update(report.failed_tries)
            missing.update(report.missing)
        if planned:
            known = [part.requests for part in planned if part.requests is not None]
            total = sum(known) if len(known) == len(planned) else None
            done, unit, is_about = (
                sum(watched.answered for watched in jobs),
                "requests",
                not all(part.exact for part in planned),
            )
            rate = sum(watched.request_rate for watched in running)
        else:
            works = [work for report in reports for work in report.work]
            done, total = sum(work.done for work in works), sum(work.total for work in works) or None
            unit, is_about = works[-1].unit if works else "items", False
            rate = sum(work.rate for watched in running if watched.progress for work in watched.progress.work[-1:])
        first = next((watched.progress.message for watched in running if watched.progress and not done), "")
        return Row(
            name=name,
            done=done,
            total=None if total is not None and is_about and total < done else total,
            unit=unit,
            is_about=is_about,
            rate=rate,
            usd=total_usd(self.plan, jobs),
            failed_tries=failed,
            missing=missing,
            jobs_done=sum(watched.state == "done" for watched in jobs),
            jobs=len(jobs),
            is_running=bool(running),
            message=first,
        )

    def head(self) -> str:
        """Return the state of the run in one line: jobs, requests, rate, time left and cost."""
        rows = self.rows()
        running = Counter(watched.rule for watched in self.jobs.values() if watched.state == "running")
        parts = [f"{self.count('done')} of {len(self.jobs)} jobs"]
        if running:
            parts[0] += (
                f" ({', '.join(name if number == 1 else f'{number} {name}' for name, number in running.items())})"
            )
        of_requests = [row for row in rows if row.unit == "requests"]
        if of_requests:
            totals = [row.total for row in of_requests]
            whole = sum(total for total in totals if total is not None) if None not in totals else None
            together = of_requests[0]._replace(
                done=sum(row.done for row in of_requests),
                total=whole,
                is_about=any(row.is_about for row in of_requests),
                rate=sum(row.rate for row in of_requests if row.is_running),
                usd=None,
                failed_tries=Counter(),
                missing=Counter(),
                is_running=any(row.is_running for row in of_requests),
                message="",
            )
            parts.append(together.text())
        if (usd := self.usd) is not None:
            limit = self.plan.run.budget.usd
            parts.append(f"{usd:.2f} of {limit:g} USD" if limit is not None else f"{usd:.2f} USD")
        parts += [f"{number} {word}" for state, word in STATES.items() if (number := self.count(state))]
        if tries := sum(row.failed_tries.total() for row in rows):
            parts.append(f"{tries} failed tries")
        parts += filter(None, [counts_text(sum((row.missing for row in rows), Counter()))])
        return ", ".join(parts)


STATES = {  # words for jobs that have ended without a result
    "failed": "failed jobs",
    "stopped": "jobs stopped by the budget",
    "waiting": "jobs wait for batches",
}


def total_usd(plan: RulePlan, jobs: Iterable[WatchedJob]) -> float | None:
    """Return the cost of the answers that jobs have received, in US dollars; None without a price."""
    costs = [
        registry_cost(plan, Billed(model, counts.prompt_tokens, counts.completion_tokens, counts.cached_tokens, False))
        for watched in jobs
        if watched.progress is not None
        for journal, counts in watched.progress.journals.items()
        if (model := watched.models.get(journal)) is not None
    ]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def remove_old_progress() -> None:
    """Delete the progress files of earlier runs."""
    shutil.rmtree(paths.PROGRESS, ignore_errors=True)
