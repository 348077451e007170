"""State of a run while its jobs work: what each model has answered, at which rate and cost, and which jobs failed."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core import paths
from maieutic.core.progress import JobProgress, JournalProgress, format_duration, progress_path, read_progress
from maieutic.launch.messages import STOPPED, Billed, failure_lines, is_pending, registry_cost
from maieutic.launch.requests import NewRequests
from maieutic.launch.snakemake_compat import LOCAL_TWIN
from maieutic.plan.rules import RulePlan

Job = Any  # a Snakemake job
# Wildcards that name a row
ASKERS = ("reader", "tutor", "judge", "tagger", "reward_model", "classifier", "encoder", "model")
WINDOW = 15  # number of the latest versions of a progress file from which the rate of requests is computed
MOST_REASONS = 2  # maximum number of kinds of failed tries that a line names


class Cost(NamedTuple):
    """Cost of answers in US dollars; None without a price. is_least: some answers came without their tokens."""

    usd: float | None = None
    is_least: bool = False

    def plus(self, other: Cost) -> Cost:
        """Return the sum of two costs; a part without a price adds nothing."""
        known = [usd for usd in (self.usd, other.usd) if usd is not None]
        return Cost(sum(known) if known else None, self.is_least or other.is_least)

    def text(self, limit: float | None = None) -> str:
        """Return the cost as text, such as `at least 0.42 of 5 USD`; "" without a price. limit: budget."""
        if self.usd is None:
            return ""
        least = "at least " if self.is_least else ""
        return f"{least}{self.usd:.2f} USD" if limit is None else f"{least}{self.usd:.2f} of {limit:g} USD"


class Row(NamedTuple):
    """Progress of one model in a run.

    done, total: finished and expected units, None if the total is not known; unit: their plural noun; is_about: True
    if the total is an estimate; rate: units per second; failed_tries, missing: numbers by kind; jobs_done, jobs:
    numbers of jobs; message: last log line of a running job that has done nothing.
    """

    name: str
    done: int
    total: int | None
    unit: str
    is_about: bool
    rate: float
    cost: Cost
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
        parts += [self.cost.text(), counts_text(self.failed_tries, "failed tries"), counts_text(self.missing)]
        if self.message and not self.failed_tries:
            parts.append(self.message)
        return ", ".join(filter(None, parts))


def counts_text(counts: Counter[str], what: str = "") -> str:
    """Return counts by kind as text: with `what`, the total and the most frequent kinds, else each kind."""
    kinds = [f"{number} {kind}" for kind, number in counts.most_common()]
    if not what or not kinds:
        return ", ".join(kinds)
    return f"{counts.total()} {what} ({', '.join(kind for kind, _ in counts.most_common(MOST_REASONS))})"


class WatchedJob:
    """A planned job of a run: its names, its files, and the content of its progress file.

    models: registry entry that answers, by the path of its journal; owners: name of the row to which a journal's
    answers belong.
    """

    def __init__(self, plan: RulePlan, job: Job) -> None:
        self.names: dict[str, str] = dict(job.wildcards.items())
        self.rule = str(job.rule.name).removesuffix(LOCAL_TWIN)
        self.asker = next((self.names[kind] for kind in ASKERS if kind in self.names), None)
        self.job = job
        log = Path(str(job.log[0])) if job.log else None
        self.file = progress_path(log) if log is not None else None
        called = plan.models_of(job.wildcards) if job.resources.get("server_gpus") is not None else []
        kept = [str(job.params[name]) for name in ("journal", "student_journal") if job.params.get(name)]
        # The answers of several models in one journal cannot be attributed, and have no price.
        is_shared = len(kept) == 1 and len(set(called)) > 1
        self.models = {} if is_shared or not called else dict(zip(kept, [called[0], called[-1]], strict=False))
        first = self.asker or (self.rule if is_shared or not called else called[0])
        self.owners = dict(zip(kept, [first, self.models.get(kept[-1], first)], strict=False)) if kept else {}
        self.owner = first
        self.state = "planned"
        self.progress: JobProgress | None = None
        self.read_at = 0.0
        self.earlier: list[dict[str, JournalProgress]] = []  # answers of earlier attempts

    @property
    def title(self) -> str:
        """The job's rule and wildcards."""
        return " ".join([self.rule, *self.names.values()])

    def read(self) -> None:
        """Read the job's progress file if it has changed."""
        if self.file is None:
            return
        try:
            changed = self.file.stat().st_mtime
        except OSError:
            return
        if changed == self.read_at or (progress := read_progress(self.file)) is None:
            return
        if self.progress is not None and requests_of_journal(progress.journals) < requests_of_journal(
            self.progress.journals
        ):
            self.earlier.append(self.progress.journals)
        self.read_at, self.progress = changed, progress

    def answers(self) -> Iterator[tuple[str, JournalProgress]]:
        """Yield the path of each journal with the answers that each attempt of the job has appended to it."""
        for journals in [*self.earlier, *([self.progress.journals] if self.progress else [])]:
            yield from journals.items()


def requests_of_journal(journals: Mapping[str, JournalProgress]) -> int:
    """Return the number of answers in journals."""
    return sum(counts.requests for counts in journals.values())


class RunWatch:
    """The jobs of a run by Snakemake's number, with their states and progress."""

    def __init__(
        self,
        plan: RulePlan,
        jobs: Iterable[Job],
        planned: Sequence[NewRequests],
        since: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """planned: new requests of the jobs; since: start of the run, in seconds since 1970."""
        self.plan, self.since, self.clock = plan, since, clock
        self.jobs = {job.jobid: WatchedJob(plan, job) for job in jobs}
        self.planned: dict[str, list[NewRequests]] = {}
        for part in planned:
            self.planned.setdefault(part.asker, []).append(part)
        self.failures: dict[int, str] = {}
        self.notices: list[str] = []
        self.known_notices: set[tuple[str, str]] = set()
        # times and numbers of answers, by the name of the row
        self.history: dict[str, deque[tuple[float, int]]] = defaultdict(lambda: deque(maxlen=WINDOW))

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
            self.jobs[number].read()
            self.failures.pop(number, None)

    def fail(self, number: int, reasons: Mapping[int, str]) -> list[str]:
        """Note that a job has failed, and return the lines with the reason; none for a job that waits for a batch.

        reasons: messages of the executor by job number.
        """
        if (watched := self.jobs.get(number)) is None:
            return []
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
        """Read the progress of the jobs, and return their new warnings.

        The last version of a job's file can become visible some time after the job's end, as on NFS.
        """
        new = []
        for watched in self.jobs.values():
            if watched.state != "planned" and not (watched.progress and watched.progress.ended):
                watched.read()
            for notice in watched.progress.notices if watched.progress else ():
                alike = watched.asker or watched.title, re.sub(r"\d+", "", notice)
                if alike not in self.known_notices:
                    self.known_notices.add(alike)
                    new.append(f"{watched.title}: {notice}")
        self.notices += new
        answered, now = self.answered(), self.clock()
        for name in {*self.planned, *answered}:
            self.history[name].append((now, answered[name]))
        return new

    def answered(self) -> Counter[str]:
        """Return the number of answers by the name of the row."""
        answered = Counter[str]()
        for watched in self.jobs.values():
            for journal, counts in watched.answers():
                answered[watched.owners.get(journal, watched.owner)] += counts.requests
        return answered

    def rate(self, name: str) -> float:
        """Return a row's answers per second over its latest readings."""
        readings = self.history[name]
        if len(readings) < 2 or readings[-1][0] <= readings[0][0]:
            return 0.0
        return max((readings[-1][1] - readings[0][1]) / (readings[-1][0] - readings[0][0]), 0.0)

    def count(self, state: str) -> int:
        """Return the number of jobs in a state."""
        return sum(watched.state == state for watched in self.jobs.values())

    def costs(self) -> tuple[dict[str, Cost], Cost]:
        """Return the cost of the answers so far by the name of the row, and of all, by the prices of the registry."""
        by_name, total = dict[str, Cost](), Cost()
        for watched in self.jobs.values():
            for journal, counts in watched.answers():
                model, name = watched.models.get(journal), watched.owners.get(journal, watched.owner)
                tokens = (counts.prompt_tokens, counts.completion_tokens, counts.cached_tokens)
                usd = registry_cost(self.plan, Billed(model, *tokens, False)) if model is not None else None
                part = Cost(usd, counts.unreported > 0)
                by_name[name] = by_name.get(name, Cost()).plus(part)
                total = total.plus(part._replace(is_least=part.is_least or (usd is None and counts.requests > 0)))
        return by_name, total

    def rows(self) -> list[Row]:
        """Return a row for each model that is asked or works, in the order of the plan. Baselines have none."""
        by_name: dict[str, list[WatchedJob]] = {}
        for watched in self.jobs.values():
            names = {watched.owner, *watched.owners.values()} if watched.owners or watched.progress else set()
            for name in names:
                if name in self.planned or watched.progress is not None:
                    by_name.setdefault(name, []).append(watched)
        order = {name: place for place, name in enumerate([*self.plan.run.tutors, *self.plan.run.judges])}
        names_in_order = sorted(by_name, key=lambda name: (order.get(name, len(order)), name))
        answered, (costs, _) = self.answered(), self.costs()
        return [self.row(name, by_name[name], answered[name], costs.get(name, Cost())) for name in names_in_order]

    def row(self, name: str, jobs: Sequence[WatchedJob], answered: int, cost: Cost) -> Row:
        """Return the row of one model. jobs: its jobs; answered: number of its answers; cost: their cost."""
        running = [watched for watched in jobs if watched.state == "running"]
        reports = [watched.progress for watched in jobs if watched.progress is not None and watched.owner == name]
        planned = self.planned.get(name, [])
        failed, missing = Counter[str](), Counter[str]()
        for report in reports:
            failed.update(report.failed_tries)
            missing.update(report.missing)
        if planned or answered:
            known = [part.requests for part in planned if part.requests is not None]
            total = sum(known) if planned and len(known) == len(planned) else None
            done, unit, is_about = answered, "requests", not all(part.exact for part in planned)
            rate = self.rate(name)
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
            cost=cost,
            failed_tries=failed,
            missing=missing,
            jobs_done=sum(watched.state == "done" for watched in jobs),
            jobs=len(jobs),
            is_running=bool(running),
            message=first,
        )

    def head(self, rows: Sequence[Row] | None = None) -> str:
        """Return the state of the run in one line: jobs, requests, rate, time left and cost. rows: the run's rows."""
        rows = self.rows() if rows is None else rows
        running = Counter(watched.rule for watched in self.jobs.values() if watched.state == "running")
        parts = [f"{self.count('done')} of {len(self.jobs)} jobs"]
        if running:
            parts[0] += (
                f" ({', '.join(name if number == 1 else f'{number} {name}' for name, number in running.items())})"
            )
        of_requests = [row for row in rows if row.unit == "requests"]
        if of_requests:
            totals = [row.total for row in of_requests]
            together = of_requests[0]._replace(
                done=sum(row.done for row in of_requests),
                total=sum(total for total in totals if total is not None) if None not in totals else None,
                is_about=any(row.is_about for row in of_requests),
                rate=sum(row.rate for row in of_requests if row.is_running),
                cost=Cost(),
                failed_tries=Counter(),
                missing=Counter(),
                is_running=any(row.is_running for row in of_requests),
                message="",
            )
            parts.append(together.text())
        parts.append(self.costs()[1].text(self.plan.run.budget.usd))
        parts += [f"{number} {word}" for state, word in STATES.items() if (number := self.count(state))]
        if tries := sum(row.failed_tries.total() for row in rows):
            parts.append(f"{tries} failed tries")
        parts.append(counts_text(sum((row.missing for row in rows), Counter())))
        return ", ".join(filter(None, parts))


STATES = {  # words for jobs that have ended without a result
    "failed": "failed jobs",
    "stopped": "jobs stopped by the budget",
    "waiting": "jobs wait for batches",
}


def remove_old_progress() -> None:
    """Delete the progress files and the live page of earlier runs."""
    shutil.rmtree(paths.PROGRESS, ignore_errors=True)
    with suppress(OSError):
        Path(paths.LIVE_PAGE).unlink(missing_ok=True)
