"""Collection of batches: check those that are pending, and store the answers of those that have ended."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Container, Iterable
from pathlib import Path

from maieutic.core.errors import UserError
from maieutic.serving.answers import MalformedAnswer
from maieutic.serving.batch_endpoint import SEND_SINGLY, BatchStatus
from maieutic.serving.batch_register import CLAIMED, BatchRegister, end_all
from maieutic.serving.batches import (
    Batch,
    BatchAnswers,
    BatchFolder,
    BatchState,
    new_batch_id,
    parse_line,
    store_answers,
)
from maieutic.serving.client import Interrupted, Pending, Unanswered, wait_unless_shutdown

log = logging.getLogger(__name__)
FIRST_POLL, LONGEST_POLL = 5.0, 60.0  # seconds between two checks of a batch, at first and later
TOO_MANY_QUEUED = "token_limit_exceeded"  # error code of a batch that fails because too many tokens are queued
QUEUE_SECONDS = 600.0  # seconds that a waiting job waits after this error
MOST_QUEUE_FAILURES = 144  # a day of such pauses; further failures count as attempts
MOST_DOWNLOADS = 5  # a waiting job ends once the files of a batch lacked lines this often
REPORT_SECONDS = 60.0  # minimum time between two log lines about a waiting job


class TokenQueue:
    """State of the endpoint's queue, whose tokens are limited.

    failures: number of batches that failed because too many tokens were queued; opens: earliest time of the next batch,
    by the monotonic clock; keys: keys of the requests whose last batch failed for this reason.
    """

    def __init__(self) -> None:
        self.failures, self.opens = 0, 0.0
        self.keys: set[str] = set()

    def add_failure(self, keys: Iterable[str], waits: bool) -> None:
        """Count a batch that failed because too many tokens were queued. waits: True if the job waits for batches."""
        self.failures += 1
        if self.failures <= MOST_QUEUE_FAILURES:
            self.keys.update(keys)
        if waits:
            self.opens = time.monotonic() + QUEUE_SECONDS


class BatchCollector:
    """Checks the batches of a register, and stores their answers once they have ended."""

    def __init__(self, register: BatchRegister, waits: bool) -> None:
        """waits: True if the job waits for its batches."""
        self.register, self.waits = register, waits
        self.queue = TokenQueue()
        self.reasons: dict[str, str] = {}  # key of a request -> why its last batch did not answer it
        self.checking = asyncio.Lock()
        self.checked: set[str] = set()  # names of other jobs' batches that were checked
        self.polling = False
        self.incomplete: dict[str, str] = {}  # name of a batch whose files lack lines -> the error
        self.downloads: Counter[str] = Counter()  # number of its downloads by this process

    async def start(self) -> None:
        """Settle cut-off submissions of earlier jobs, and collect their batches that have ended.

        Batches of other jobs are checked when one of their requests is asked for.

        Raises UserError if a batch has failed as a whole, or if the endpoint does not know it.
        """
        pending = self.register.pending
        await self.check_all([name for name, (folder, _) in pending.items() if folder.owned])
        if self.waits and pending:
            self.watch()

    def pending_line(self) -> str:
        """Return this job's pending batches as text, such as `1 batch at api.openai.com with 500 requests`, or ""."""
        register = self.register
        batches = [batch for name, (_, batch) in register.pending.items() if name in register.needed]
        if not batches:
            return ""
        requests = sum(len(batch.keys) for batch in batches)
        number = "1 batch" if len(batches) == 1 else f"{len(batches)} batches"
        times = sorted(batch.submitted_at for batch in batches if batch.submitted_at)
        since = f", submitted {times[0]} UTC" if times else ""
        limit = f"; too many tokens were queued: models.{batches[0].entry}.batch_requests sets smaller batches"
        incomplete = "".join(f"; {self.incomplete[batch.id]}" for batch in batches if batch.id in self.incomplete)
        queued = limit if self.queue.failures else ""
        return f"{number} at {register.host} with {requests:,} requests{since}{queued}{incomplete}"

    async def wait_for(self, key: str) -> None:
        """Wait until the batch with a request has ended. Raises Pending if the job does not wait for batches."""
        register = self.register
        name = register.batch_of[key]
        register.needed.add(name)
        async with self.checking:
            if name in register.pending and not register.pending[name][0].owned and name not in self.checked:
                self.checked.add(name)
                await self.check(*register.pending[name])
        if key not in register.batch_of:
            return
        if not self.waits:
            raise Pending(f"in a batch at {register.host}")
        ended = asyncio.get_running_loop().create_future()
        register.waiting[key].append(ended)
        self.watch()
        await ended

    def watch(self) -> None:
        """Check the batches that requests wait for, until all have ended."""
        if not self.polling:
            self.polling = True
            self.register.tasks.start(self._poll())

    async def _poll(self) -> None:
        """Check the batches that requests wait for with growing pauses. An error ends the waiting requests."""
        pause, reported, waiting = FIRST_POLL, time.monotonic(), self.register.waiting
        try:
            while names := self._watched():
                await wait_unless_shutdown(pause)
                await self.check_all(names)
                pause = min(1.5 * pause, LONGEST_POLL)
                if waiting and time.monotonic() - reported >= REPORT_SECONDS:
                    reported = time.monotonic()
                    log.info("waiting for %s", self.pending_line())
        except Exception as error:
            end_all((ended for futures in waiting.values() for ended in futures), error)
            waiting.clear()
        finally:
            self.polling = False

    def _watched(self) -> list[str]:
        """Return the names of the pending batches of this job, and of those that its requests wait for."""
        register = self.register
        needed = {register.batch_of[key] for key in register.waiting if key in register.batch_of}
        return [
            name
            for name, (folder, _) in register.pending.items()
            if (folder.owned or name in needed) and name not in register.submitting
        ]

    async def check_all(self, names: Iterable[str]) -> None:
        """Check pending batches. Raises UserError at the end, with the errors of all batches that have failed."""
        faults: list[UserError] = []
        for name in names:
            if name in self.register.pending:
                try:
                    await self.check(*self.register.pending[name])
                except UserError as fault:
                    faults.append(fault)
        if faults:
            raise UserError.of(faults)

    async def check(self, folder: BatchFolder, batch: Batch) -> None:
        """Find out whether a pending batch has ended, and collect its answers.

        Raises UserError if it has failed as a whole, or if the endpoint does not know it.
        """
        register = self.register
        current = register.read_again(folder, batch)
        if current is None or (not folder.owned and folder.path / batch.id in CLAIMED):
            return  # another client of this process has collected it, or does
        batch = current
        try:
            if batch.state == BatchState.SUBMITTING:
                await self._settle(folder, batch)
                settled = register.pending.get(batch.id)
                if settled is None or settled[1].state != BatchState.SUBMITTED:
                    return
                batch = settled[1]
            assert batch.provider_id is not None
            status = await register.endpoint_of(batch).retrieve(batch.provider_id, folder.record_path(batch))
            has_answers = status.output_file or status.error_file or status.completed
            if status.is_final and (status.status != "failed" or has_answers):
                await self._collect(folder, batch, status)
            elif status.is_final:
                register.change(folder, batch, lambda: self._fail(folder, batch, status))
            elif folder.owned and status.status != batch.status.partition(",")[0]:
                log.info("%s: batch %s: %s", register.host, batch.provider_id, status.line)
                register.save(folder, batch, status=status.line)
        except Interrupted:
            raise
        except (Unanswered, MalformedAnswer) as error:  # it stays pending
            log.warning("%s: batch %s: %s", register.host, batch.provider_id or batch.id, error)

    async def _settle(self, folder: BatchFolder, batch: Batch) -> None:
        """Find out whether a submission that was cut off arrived.

        If it did not, the batch is dropped, so that its requests are sent with the next batch.
        """
        register = self.register
        status = await register.listed_late(folder, batch)
        if status is None:
            register.change(folder, batch, lambda: register.drop(folder, batch))
            return
        log.info("%s: batch %s was created although its submission was cut off", register.host, status.provider_id)
        register.change(folder, batch, lambda: register.submitted(folder, batch, status))

    def _fail(self, folder: BatchFolder, batch: Batch, status: BatchStatus) -> None:
        """Drop a batch that has failed as a whole.

        If too many tokens were queued, its requests go into the next batch. Raises UserError for any other reason.
        """
        register = self.register
        reason = "; ".join(fault.message for fault in status.faults) or "the endpoint gives no reason"
        if any(TOO_MANY_QUEUED in fault.codes for fault in status.faults):
            log.warning(
                "%s: batch %s failed: %s. If a batch exceeds this limit by itself, set models.%s.batch_requests",
                register.host, batch.provider_id, reason, batch.entry,
            )  # fmt: skip
            self.reasons |= dict.fromkeys(batch.keys, TOO_MANY_QUEUED)
            self.queue.add_failure(batch.keys, self.waits)
            register.drop(folder, batch)
            return
        problem = f"batch {batch.provider_id} failed, and nothing was answered: {reason}"
        register.live.fault = UserError(f"models.{batch.entry}.batch", problem, SEND_SINGLY)
        register.drop(folder, batch)
        raise register.live.fault

    async def _collect(self, folder: BatchFolder, batch: Batch, status: BatchStatus) -> None:
        """Download and store the answers of a batch that has ended.

        Raises UserError in a waiting job if the endpoint has no file with the answers; other jobs leave it pending.
        """
        register, record = self.register, folder.record_path(batch)
        files = {file: register.own_folder.new_download() for file in (status.output_file, status.error_file) if file}
        downloads = {path.with_suffix("") for path in files.values()}
        CLAIMED.update(downloads)
        try:
            endpoint, requests = register.endpoint_of(batch), len(batch.keys)
            received = [file for file, path in files.items() if await endpoint.download(file, path, record, requests)]
            for file in files.keys() - received:
                log.warning("%s: file %s of batch %s no longer exists", register.host, file, status.provider_id)
            if (status.completed or status.output_file) and status.output_file not in received:
                problem = f"batch {status.provider_id} has answers, but {register.host} has no file with them"
                fault = UserError(f"models.{batch.entry}.batch", problem, f"delete {record} to send its requests again")
                if self.waits:
                    raise fault
                log.warning("%s", fault.line)
                return
            parts = [files[file] for file in received]
            present = keys_in(parts, batch)
            if missing := max(expected_lines(batch, status) - len(present), 0):
                if present:
                    register.change(folder, batch, lambda: self._take(folder, batch, status, parts, present))
                self._note_incomplete(batch, status, missing, record)
                return
            self.incomplete.pop(batch.id, None)
            register.change(folder, batch, lambda: self._store(folder, batch, status, parts))
        finally:
            CLAIMED.difference_update(downloads)
            for path in files.values():
                path.unlink(missing_ok=True)

    def _note_incomplete(self, batch: Batch, status: BatchStatus, missing: int, record: Path) -> None:
        """Note that the files of a batch lack lines, so that it stays pending and is downloaded again.

        Raises UserError in a waiting job after MOST_DOWNLOADS.
        """
        problem = f"batch {status.provider_id}: the files of {self.register.host} lack {missing} of its answers"
        fix = f"run again later, or delete {record} to send these requests again"
        fault = UserError(f"models.{batch.entry}.batch", problem, fix)
        self.incomplete[batch.id] = fault.line
        self.downloads[batch.id] += 1
        if self.waits and self.downloads[batch.id] >= MOST_DOWNLOADS:
            raise fault
        log.warning("%s", fault.line)

    def _take(
        self, folder: BatchFolder, batch: Batch, status: BatchStatus, parts: list[Path], present: Container[str]
    ) -> None:
        """Store the answers in the files of an incomplete batch as a batch of their own. The rest stays pending."""
        keys = [key for key in batch.keys if key in present]
        rest = [key for key in batch.keys if key not in present]
        share = len(rest) / len(batch.keys)
        taken = batch.model_copy(update={"id": new_batch_id(), "keys": keys, "size": 0})
        self._store(folder, taken, status, parts)
        self.register.wake(batch.model_copy(update={"keys": keys}))
        self.register.save(
            folder, batch, keys=rest, taken=batch.taken + len(keys), status=status.line,
            reserved_tokens=round(batch.reserved_tokens * share), reserved_usd=batch.reserved_usd * share,
        )  # fmt: skip

    def _store(self, folder: BatchFolder, batch: Batch, status: BatchStatus, parts: list[Path]) -> None:
        """Store the downloaded answers of a batch, and wake the requests that wait for it."""
        register = self.register
        store_answers(parts, folder.answers_path(batch))
        batch = register.save(folder, batch, state=BatchState.COLLECTED, status=status.line)
        folder.requests_path(batch).unlink(missing_ok=True)
        answers = BatchAnswers(batch, folder.answers_path(batch))
        register.collected.append(answers)
        register.collected_now.add(batch.id)
        log.info("%s: batch %s %s: %s", register.host, status.provider_id, status.status, answers.summary())
        register.wake(batch, first=answers.index.answered)


def keys_in(files: Iterable[Path], batch: Batch) -> set[str]:
    """Return the keys of a batch's requests about which its files have a line."""
    keys, present = frozenset(batch.keys), set[str]()
    for path in files:
        with open(path, "rb") as lines:
            present |= {parsed.key for line in lines if (parsed := parse_line(line)) and parsed.key in keys}
    return present


def expected_lines(batch: Batch, status: BatchStatus) -> int:
    """Return the number of the batch's requests about which its files must have a line.

    A 200 is no proof that a file is whole: it may be an error page, empty or cut. Its lines are counted against the
    provider's `completed` and `failed`, or, where it states no counts, against what was sent. A batch that was expired
    or cancelled needs a line only for the requests that the provider counts as finished. Without any line of its own, a
    batch is whole only if the provider states that nothing was finished.
    """
    finished = status.completed + status.failed
    if not (status.output_file or status.error_file or status.completed) and status.failed:
        return 0  # the provider states that nothing was answered, and has no file
    if status.status == "completed" and not finished:  # no counts, or counts that contradict the status
        return len(batch.keys)
    if status.total or finished:
        return min(max(finished - batch.taken, 0), len(batch.keys))
    return 1
