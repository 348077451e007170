"""Client that sends a job's requests in batches, and collects the answers of batches that earlier jobs have sent.

It is used like the client of single requests. A request ends with `Pending` while its batch is not finished, unless the
run waits for its batches. Requests whose answers have to be sent again go into the next batch.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Container, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file
from maieutic.core.journal import KEY_PREFIX, canonical_digest, lock_path, request_key, take_lock
from maieutic.core.ledger import utc_now
from maieutic.core.shutdown import SHUTDOWN
from maieutic.serving.answers import Answer, MalformedAnswer
from maieutic.serving.batch_endpoint import BatchEndpoint, BatchStatus, UnclearSubmission
from maieutic.serving.batches import (
    MEGABYTE,
    Batch,
    BatchAnswers,
    BatchFolder,
    BatchSettings,
    BatchState,
    Outcome,
    new_batch_id,
    store_answers,
)
from maieutic.serving.client import (
    ADDRESSES,
    SHUTDOWN_REASON,
    Client,
    ErrorStatus,
    Interrupted,
    Pending,
    Prepare,
    Unanswered,
    body_of,
    unchanged_request,
    wait_unless_shutdown,
)
from maieutic.serving.refusals import Refusal, scope_of
from maieutic.serving.silent_changes import SilentChangeWatcher

log = logging.getLogger(__name__)
CLAIMED: set[Path] = set()  # batches and downloads, without a suffix, for which a client of this process is responsible
JOURNALS = Path(paths.JOURNALS).name
QUIET_SECONDS = 1.0  # a batch is sent once no request was added for this long
# A submission that was cut off may reach the endpoint's list of batches this much later.
SETTLE_SECONDS = 30.0
FIRST_POLL, LONGEST_POLL = 5.0, 60.0  # seconds between two checks of a batch, at first and later
TOO_MANY_QUEUED = "token_limit_exceeded"  # error code of a batch that fails because too many tokens are queued
NOT_ACCEPTED = "its batch was not accepted"
QUEUE_SECONDS = 600.0  # seconds that a waiting job waits after this error
MOST_QUEUE_FAILURES = 144  # a day of such pauses; further failures count as attempts
REPORT_SECONDS = 60.0  # minimum time between two log lines about a waiting job


class QueuedRequest(NamedTuple):
    """Request that waits for the next batch. ended: set once its batch has ended, or to the error that ends it."""

    key: str
    request: dict[str, Any]
    prepare: Prepare
    ended: asyncio.Future[None]


class BatchClient:
    """Client of one hosted endpoint that sends requests in batches, if the entry's `batch` is true.

    If `batch` was set to false in the meantime, new requests are sent one by one, but those in a batch are not.
    """

    def __init__(
        self,
        live: Client,
        folders: Sequence[BatchFolder],
        identity: dict[str, Any],
        settings: BatchSettings,
        asker: str,
        key_env: str | None = None,
    ) -> None:
        """live: client of single requests; folders: folders with batches, of which the first belongs to this job.

        identity: request-key fields of the model; settings: settings of the run's batches; asker: name of the tutor or
        judge; key_env: name of the environment variable with the endpoint's key.
        """
        self.live, self.folders, self.identity, self.key_env = live, list(folders), identity, key_env
        self.run, self.waits = settings.run, settings.wait
        self.limits = settings.limits_of(asker)  # None to send new requests one by one
        self.entry = settings.entry_of(asker)
        self.host = urlsplit(live.server.base_url).netloc
        self.digest = canonical_digest(identity)
        self.pending: dict[str, tuple[BatchFolder, Batch]] = {}  # batches without answers, by the name of their files
        self.batch_of: dict[str, str] = {}  # key of a request -> name of the pending batch that contains it
        self.needed: set[str] = set()  # names of the batches that contain a request of this job
        self.collected: list[BatchAnswers] = []
        self.collected_now: set[str] = set()  # names of the batches that this process has collected
        self.claims: set[Path] = set()
        self.queue: dict[str, QueuedRequest] = {}
        self.unended: dict[str, asyncio.Future[None]] = {}  # key of a sent or queued request -> its `ended`
        self.waiting: defaultdict[str, list[asyncio.Future[None]]] = defaultdict(list)
        self.reasons: dict[str, str] = {}  # key of a request -> why its last batch did not answer it
        self.counted: set[tuple[str, str]] = set()  # names of batches, with the requests that they did not answer
        self.checking = asyncio.Lock()
        self.checked: set[str] = set()  # names of other jobs' batches that were checked
        self.submitting: set[str] = set()  # names of the batches that are being submitted
        self.queue_failures = 0  # number of batches that failed since too many tokens were queued
        self.tasks: set[asyncio.Task[None]] = set()
        self.sending = self.polling = False
        self.last_ask = 0.0
        self.queue_opens = 0.0  # earliest time of the next batch, after one failed because too many tokens were queued
        self.over_queue: set[str] = set()  # keys of the requests whose last batch failed for this reason

    # the interface of the client of single requests -------------------------------------------------------------------

    @property
    def retries(self) -> dict[str, int]:
        """Number of failed attempts by kind."""
        return self.live.retries

    @property
    def probe_answers(self) -> list[Answer]:
        """Answers to probes that are not counted yet."""
        return self.live.probe_answers

    @property
    def watcher(self) -> SilentChangeWatcher:
        """Watcher for silent changes."""
        return self.live.watcher

    async def close(self) -> None:
        """End the work in progress and close the connections."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        CLAIMED.difference_update(self.claims)
        await self.live.close()

    def key_of(self, request: dict[str, Any]) -> str:
        """Return the `custom_id` of a request: its key without the prefix, since 64 characters are allowed."""
        return request_key(request, self.identity).removeprefix(KEY_PREFIX)

    def is_in_batch(self, key: str) -> bool:
        """Return True if a request is in a batch whose answers are not collected. key: key of the request."""
        return key.removeprefix(KEY_PREFIX) in self.batch_of

    def pending_line(self) -> str:
        """Return this job's pending batches as text, such as `1 batch at api.openai.com with 500 requests`, or ""."""
        batches = [batch for name, (_, batch) in self.pending.items() if name in self.needed]
        if not batches:
            return ""
        requests = sum(len(batch.keys) for batch in batches)
        number = "1 batch" if len(batches) == 1 else f"{len(batches)} batches"
        times = sorted(batch.submitted_at for batch in batches if batch.submitted_at)
        since = f", submitted {times[0]} UTC" if times else ""
        limit = f"; too many tokens were queued: models.{batches[0].entry}.batch_requests sets smaller batches"
        return f"{number} at {self.host} with {requests:,} requests{since}{limit if self.queue_failures else ''}"

    # before the first request -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the batches of earlier jobs, settle cut-off submissions, and collect the batches that have ended.

        Batches of other jobs are checked when one of their requests is asked for.

        Raises UserError if a batch has failed as a whole, or if the endpoint does not know it.
        """
        self.folders[0].remove_leftovers(CLAIMED)
        for shared in self.folders:
            for batch in shared.batches():
                folder = self._claimed(shared, batch)
                if batch.state == BatchState.WRITTEN:
                    if folder.owned:
                        folder.remove(batch)  # it was never submitted: its requests are sent with the next batch
                elif batch.model_digest != self.digest:
                    continue
                elif batch.state == BatchState.COLLECTED:
                    self.collected.append(BatchAnswers(batch, folder.answers_path(batch)))
                else:
                    self._add_pending(folder, batch)
        await self._check_all([name for name, (folder, _) in self.pending.items() if folder.owned])
        if self.waits and self.pending:
            self._watch()

    def _claimed(self, folder: BatchFolder, batch: Batch) -> BatchFolder:
        """Return the folder as this client may use it for a batch.

        Of two clients in this process with one journal, the first one is responsible for a batch.
        """
        path = folder.path / batch.id
        if folder.owned and path not in CLAIMED and batch.model_digest == self.digest:
            CLAIMED.add(path)
            self.claims.add(path)
        is_ours = path in self.claims or (folder.owned and path not in CLAIMED)
        return folder if is_ours else BatchFolder(folder.path, owned=False)

    def _endpoint_of(self, batch: Batch) -> BatchEndpoint:
        """Return the batch API of this client's endpoint. Its errors name the registry entry of the batch."""
        return BatchEndpoint(self.live, f"models.{batch.entry}")

    def _add_pending(self, folder: BatchFolder, batch: Batch) -> None:
        """Record a batch as pending."""
        self.pending[batch.id] = folder, batch
        self.batch_of |= dict.fromkeys(batch.keys, batch.id)

    def _save(self, folder: BatchFolder, batch: Batch, **changes: Any) -> Batch:
        """Save a step of a pending batch, and return the changed batch."""
        batch = batch.model_copy(update={"at": utc_now(), **changes})
        folder.save(batch)
        self._add_pending(folder, batch)
        return batch

    # requests ---------------------------------------------------------------------------------------------------------

    async def ask(self, request: dict[str, Any], prepare: Prepare = unchanged_request) -> Answer:
        """Return the answer to a request from a batch. prepare: called just before the request's batch is sent.

        Raises Pending if the run does not wait for batches and the batch has not ended, Unanswered if the request was
        not answered in as many batches as the entry has `attempts`, UserError if every request would be refused.
        """
        key, batches = self.key_of(request), 0
        while True:
            if key not in self.batch_of and (answer := await self._received(key, request)) is not None:
                return replace(answer, seconds=0.0, attempts=max(batches, 1), batched=True)
            if self.live.fault is not None:
                raise self.live.fault
            if key in self.batch_of:
                await self._wait_for_batch(key)
            elif self.limits is None:
                return await self.live.ask(request, prepare)
            elif batches == self.live.server.attempts:
                raise Unanswered(f"no answer after {batches} batches, last {self.reasons.get(key, NOT_ACCEPTED)}")
            else:
                await self._enqueue(key, request, prepare)
                batches += key not in self.over_queue

    async def _received(self, key: str, request: dict[str, Any]) -> Answer | None:
        """Return the answer to a request in the collected batches; None if it has to be sent (again)."""
        holding = [answers for answers in reversed(self.collected) if key in answers.keys]
        for answers in sorted(holding, key=lambda answers: key not in answers.index.answered):
            outcome = answers.outcome(key)
            try:
                answer = await self._answer_in(outcome, request, fresh=answers.batch.id in self.collected_now)
            except MalformedAnswer as error:
                outcome, answer = str(error), None
            if answer is not None:
                return answer
            self._count_failure(answers.batch.id, key, outcome)
        return None

    def _count_failure(self, name: str, key: str, outcome: Outcome) -> None:
        """Count a batch that did not answer a request, once. name: name of the batch's files."""
        if (name, key) in self.counted:
            return
        self.counted.add((name, key))
        reason = self.reasons[key] = outcome.words if isinstance(outcome, Refusal) else str(outcome)
        if name in self.collected_now:  # an earlier run has counted the others
            self.retries[reason] = self.retries.get(reason, 0) + 1

    async def _answer_in(self, outcome: Outcome, request: dict[str, Any], fresh: bool) -> Answer | None:
        """Return an outcome as an answer, or None if the request has to be sent again.

        fresh: True if this process collected it. An older refusal of all requests may since have been mended.
        """
        if isinstance(outcome, Refusal):
            if scope_of(outcome, retry_after=False) == "one":
                return Answer("", None, "error", None, None, 0.0, 1, error=outcome.words)
            if not fresh:
                return None
            await self._quiet()  # by then, answers to requests with the same parameters are known
            return await self.live.answer_to_refusal(ErrorStatus(outcome, {}), 1, request)
        if not isinstance(outcome, dict):
            return None
        answer = self.live.read_reply(request, body_of(self.live.server, request), outcome, 0.0, 1)
        self.live.note_answer(request)
        return answer

    async def _wait_for_batch(self, key: str) -> None:
        """Wait until the batch with a request has ended. Raises Pending if the run does not wait."""
        name = self.batch_of[key]
        self.needed.add(name)
        async with self.checking:
            if name in self.pending and not self.pending[name][0].owned and name not in self.checked:
                self.checked.add(name)
                await self._check(*self.pending[name])
        if key not in self.batch_of:
            return
        if not self.waits:
            raise Pending(f"in a batch at {self.host}")
        ended = asyncio.get_running_loop().create_future()
        self.waiting[key].append(ended)
        self._watch()
        await ended

    async def _enqueue(self, key: str, request: dict[str, Any], prepare: Prepare) -> None:
        """Add a request to the next batch, and wait until it has ended. Raises Pending if the run does not wait."""
        if key in self.unended:  # an identical request is queued or being sent
            await asyncio.shield(self.unended[key])
            return
        self.over_queue.discard(key)
        self.last_ask = time.monotonic()
        ended = self.unended[key] = asyncio.get_running_loop().create_future()
        self.queue[key] = QueuedRequest(key, request, prepare, ended)
        if not self.sending:
            self.sending = True
            self._start(self._send_queue())
        try:
            await ended
        finally:
            del self.unended[key]

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background until the client is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _quiet(self) -> None:
        """Wait until no request was added for QUIET_SECONDS."""
        while (left := self.last_ask + QUIET_SECONDS - time.monotonic()) > 0:
            await asyncio.sleep(left)

    # sending ----------------------------------------------------------------------------------------------------------

    async def _send_queue(self) -> None:
        """Send the queued requests in batches, each once it is full or no request was added for a while."""
        assert self.limits is not None
        try:
            while self.queue:
                if len(self.queue) < self.limits.requests:
                    await self._quiet()
                with suppress(Interrupted):  # the requests then end with the same error
                    await wait_unless_shutdown(self.queue_opens - time.monotonic())
                by_endpoint: defaultdict[str, list[QueuedRequest]] = defaultdict(list)
                for queued in list(islice(self.queue.values(), self.limits.requests)):
                    by_endpoint[queued.request["endpoint"]].append(self.queue.pop(queued.key))
                for endpoint, requests in by_endpoint.items():
                    await self._send(f"{self.limits.url_prefix}/{ADDRESSES[endpoint]}", requests)
        finally:
            self.sending = False

    async def _send(self, url: str, requests: list[QueuedRequest]) -> None:
        """Send requests to one address, in as many batches as their size needs. An error ends these requests."""
        lines = self._lines(url, requests)
        try:
            first = next(lines, None)
            while first is not None:
                batch, sent, first = self._write(url, first, lines)
                self.submitting.add(batch.id)
                try:
                    await self._submit_file(batch)
                except Exception as error:
                    end_all((queued.ended for queued in sent), error)
                    raise
                finally:
                    self.submitting.discard(batch.id)
                if self.waits:
                    for queued in sent:
                        self.waiting[queued.key].append(queued.ended)
                    self._watch()
                else:
                    end_all((queued.ended for queued in sent), Pending(f"in a batch at {self.host}"))
        except Exception as error:  # earlier batches of these requests are not affected
            end_all((queued.ended for queued in requests if queued.key not in self.batch_of), error)

    def _lines(self, url: str, requests: Iterable[QueuedRequest]) -> Iterator[tuple[QueuedRequest, bytes]]:
        """Yield each request with its line in a batch's file.

        A request that cannot be prepared, for example because the budget is spent, ends with that error.
        """
        assert self.limits is not None
        for queued in requests:
            try:
                if SHUTDOWN.is_set:
                    raise Interrupted(SHUTDOWN_REASON)
                body = body_of(self.live.server, queued.prepare(queued.request))
                content = {"custom_id": queued.key, "method": "POST", "url": url, "body": body}
                line = json.dumps(content).encode() + b"\n"
                if len(line) > self.limits.size:
                    size = f"{len(line) / MEGABYTE:.1f} MB"
                    problem = f"a request of {size} is larger than a batch ({self.limits.mb:g} MB)"
                    raise UserError(f"models.{self.entry}.batch_mb", problem, "raise batch_mb, or remove batch")
            except Exception as error:
                end_all([queued.ended], error)
                continue
            yield queued, line

    def _write(
        self, url: str, first: tuple[QueuedRequest, bytes], lines: Iterator[tuple[QueuedRequest, bytes]]
    ) -> tuple[Batch, list[QueuedRequest], tuple[QueuedRequest, bytes] | None]:
        """Write the next batch to disk. Returns it, its requests, and the first request of the batch after it.

        first: first request with its line; lines: the requests after it.
        """
        assert self.limits is not None
        folder = self.folders[0]
        batch = Batch(
            id=new_batch_id(), run=self.run, job=job_name(folder.path), entry=self.entry,
            base_url=self.live.server.base_url, key_env=self.key_env, model_digest=self.digest, url=url,
            state=BatchState.WRITTEN, keys=[], size=0, at=utc_now(),
        )  # fmt: skip
        self._claimed(folder, batch)
        sent, size = list[QueuedRequest](), 0
        following: tuple[QueuedRequest, bytes] | None = first
        with atomic_file(folder.requests_path(batch), "wb") as handle:
            while following is not None and len(sent) < self.limits.requests:
                queued, line = following
                if size + len(line) > self.limits.size:
                    break
                handle.write(line)
                sent.append(queued)
                size += len(line)
                following = next(lines, None)
        batch = batch.model_copy(update={"keys": [queued.key for queued in sent], "size": size})
        folder.save(batch)
        return batch, sent, following

    async def _submit_file(self, batch: Batch) -> None:
        """Upload a batch's requests and submit the batch. Raises UserError if the endpoint refuses it."""
        folder = self.folders[0]
        try:
            input_file = await self._endpoint_of(batch).upload(folder.requests_path(batch))
        except Exception:
            folder.remove(batch)  # nothing was submitted
            raise
        self.needed.add(batch.id)
        await self._submit(folder, self._save(folder, batch, state=BatchState.SUBMITTING, input_file=input_file))

    async def _submit(self, folder: BatchFolder, batch: Batch) -> None:
        """Submit a batch whose requests are uploaded.

        A submission without an answer is not repeated before the endpoint's list shows that it did not arrive.

        Raises UserError if the endpoint refuses the batch, Unanswered after the last attempt.
        """
        for _ in range(self.live.server.attempts):
            try:
                status: BatchStatus | None = await self._endpoint_of(batch).submit(batch)
            except (UnclearSubmission, MalformedAnswer) as error:
                log.warning("%s: no valid answer to the submission of a batch (%s)", self.host, error)
                status = await self._listed_late(folder, batch)
            except UserError:
                self._drop(folder, batch)
                raise
            if status is not None:
                self._submitted(folder, batch, status)
                return
        raise Unanswered(f"no answer to the submission of a batch at {self.host}")

    def _submitted(self, folder: BatchFolder, batch: Batch, status: BatchStatus) -> None:
        """Record that a batch was submitted."""
        log.info(
            "%s: batch %s submitted, %s requests (%.1f MB), answers within a day",
            self.host, status.provider_id, f"{len(batch.keys):,}", batch.size / MEGABYTE,
        )  # fmt: skip
        known = {"provider_id": status.provider_id, "status": status.line, "submitted": utc_now()}
        self._save(folder, batch, state=BatchState.SUBMITTED, **known)

    async def _listed_late(self, folder: BatchFolder, batch: Batch) -> BatchStatus | None:
        """Return the batch that a cut-off submission created, None if the endpoint does not list it.

        A batch may appear in the list with a delay.
        """
        record = folder.record_path(batch)
        if (status := await self._endpoint_of(batch).search(batch, record)) is not None:
            return status
        await wait_unless_shutdown(SETTLE_SECONDS)
        return await self._endpoint_of(batch).search(batch, record)

    async def _settle(self, folder: BatchFolder, batch: Batch) -> None:
        """Find out whether a submission that was cut off arrived.

        If it did not, the batch is dropped, so that its requests are sent with the next batch.
        """
        status = await self._listed_late(folder, batch)
        if status is None:
            self._change(folder, batch, lambda: self._drop(folder, batch))
            return
        log.info("%s: batch %s was created although its submission was cut off", self.host, status.provider_id)
        self._change(folder, batch, lambda: self._submitted(folder, batch, status))

    def _drop(self, folder: BatchFolder, batch: Batch) -> None:
        """Forget a batch without answers, so that its requests are sent again."""
        folder.remove(batch)
        self._wake(batch)

    # collecting -------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Check the batches that requests wait for, until all have ended."""
        if not self.polling:
            self.polling = True
            self._start(self._poll())

    async def _poll(self) -> None:
        """Check the batches that requests wait for with growing pauses. An error ends the waiting requests."""
        pause, reported = FIRST_POLL, time.monotonic()
        try:
            while names := self._watched():
                await wait_unless_shutdown(pause)
                await self._check_all(names)
                pause = min(1.5 * pause, LONGEST_POLL)
                if self.waiting and time.monotonic() - reported >= REPORT_SECONDS:
                    reported = time.monotonic()
                    log.info("waiting for %s", self.pending_line())
        except Exception as error:
            end_all((ended for waiting in self.waiting.values() for ended in waiting), error)
            self.waiting.clear()
        finally:
            self.polling = False

    def _watched(self) -> list[str]:
        """Return the names of the pending batches of this client, and of those that its requests wait for."""
        needed = {self.batch_of[key] for key in self.waiting if key in self.batch_of}
        return [
            name
            for name, (folder, _) in self.pending.items()
            if (folder.owned or name in needed) and name not in self.submitting
        ]

    async def _check_all(self, names: Iterable[str]) -> None:
        """Check pending batches. Raises UserError at the end, with the errors of all batches that have failed."""
        faults: list[UserError] = []
        for name in names:
            if name in self.pending:
                try:
                    await self._check(*self.pending[name])
                except UserError as fault:
                    faults.append(fault)
        if faults:
            raise UserError.of(faults)

    async def _check(self, folder: BatchFolder, batch: Batch) -> None:
        """Find out whether a pending batch has ended, and collect its answers.

        Raises UserError if it has failed as a whole, or if the endpoint does not know it.
        """
        current = self._read_again(folder, batch)
        if current is None or (not folder.owned and folder.path / batch.id in CLAIMED):
            return  # another client of this process has collected it, or does
        batch = current
        try:
            if batch.state == BatchState.SUBMITTING:
                await self._settle(folder, batch)
                settled = self.pending.get(batch.id)
                if settled is None or settled[1].state != BatchState.SUBMITTED:
                    return
                batch = settled[1]
            assert batch.provider_id is not None
            status = await self._endpoint_of(batch).retrieve(batch.provider_id, folder.record_path(batch))
            if status.is_final and (status.status != "failed" or status.output_file or status.error_file):
                await self._collect(folder, batch, status)
            elif status.is_final:
                self._change(folder, batch, lambda: self._fail(folder, batch, status))
            elif folder.owned and status.status != batch.status.partition(",")[0]:
                log.info("%s: batch %s: %s", self.host, batch.provider_id, status.line)
                self._save(folder, batch, status=status.line)
        except Interrupted:
            raise
        except (Unanswered, MalformedAnswer) as error:  # it stays pending
            log.warning("%s: batch %s: %s", self.host, batch.provider_id or batch.id, error)

    def _change(self, folder: BatchFolder, batch: Batch, change: Callable[[], None]) -> None:
        """Change the record of a batch. That of another job is changed only while the job does not run."""
        if folder.owned:
            change()
            return
        try:
            lock = take_lock(lock_path(folder.path))
        except UserError:  # that job runs, or another client of this one is responsible
            return
        try:
            if self._read_again(folder, batch) == batch:
                change()
        finally:
            lock.close()

    def _read_again(self, folder: BatchFolder, batch: Batch) -> Batch | None:
        """Return the current record of a batch; None if another client collected it, or if it was removed."""
        current = folder.read(batch)
        if current is not None and current.state != BatchState.COLLECTED:
            self._add_pending(folder, current)
            return current
        if current is not None:
            self.collected.append(BatchAnswers(current, folder.answers_path(current)))
        self._wake(batch)
        return None

    def _fail(self, folder: BatchFolder, batch: Batch, status: BatchStatus) -> None:
        """Drop a batch that has failed as a whole.

        If too many tokens were queued, its requests go into the next batch. Raises UserError for any other reason.
        """
        reason = "; ".join(fault.message for fault in status.faults) or "the endpoint gives no reason"
        if any(TOO_MANY_QUEUED in fault.codes for fault in status.faults):
            log.warning(
                "%s: batch %s failed: %s. If a batch exceeds this limit by itself, set models.%s.batch_requests",
                self.host, batch.provider_id, reason, batch.entry,
            )  # fmt: skip
            self.queue_failures += 1
            self.reasons |= dict.fromkeys(batch.keys, TOO_MANY_QUEUED)
            if self.queue_failures <= MOST_QUEUE_FAILURES:
                self.over_queue |= set(batch.keys)
            if self.waits:
                self.queue_opens = time.monotonic() + QUEUE_SECONDS
            self._drop(folder, batch)
            return
        problem = f"batch {batch.provider_id} failed, and nothing was answered: {reason}"
        fix = "correct the entry, or remove batch to send single requests"
        self.live.fault = UserError(f"models.{batch.entry}.batch", problem, fix)
        self._drop(folder, batch)
        raise self.live.fault

    async def _collect(self, folder: BatchFolder, batch: Batch, status: BatchStatus) -> None:
        """Download and store the answers of a batch that has ended.

        Raises UserError in a waiting job if the endpoint has no file with the answers; other jobs leave it pending.
        """
        files = {file: self.folders[0].new_download() for file in (status.output_file, status.error_file) if file}
        downloads, record = {path.with_suffix("") for path in files.values()}, folder.record_path(batch)
        CLAIMED.update(downloads)
        try:
            received = [
                file for file, path in files.items() if await self._endpoint_of(batch).download(file, path, record)
            ]
            for file in files.keys() - received:
                log.warning("%s: file %s of batch %s no longer exists", self.host, file, status.provider_id)
            if (status.completed or status.output_file) and status.output_file not in received:
                problem = f"batch {status.provider_id} has answers, but {self.host} has no file with them"
                fault = UserError(f"models.{batch.entry}.batch", problem, f"delete {record} to send its requests again")
                if self.waits:
                    raise fault
                log.warning("%s", fault.line)
                return
            parts = [files[file] for file in received]
            self._change(folder, batch, lambda: self._store(folder, batch, status, parts))
        finally:
            CLAIMED.difference_update(downloads)
            for path in files.values():
                path.unlink(missing_ok=True)

    def _store(self, folder: BatchFolder, batch: Batch, status: BatchStatus, parts: list[Path]) -> None:
        """Store the downloaded answers of a batch, and wake the requests that wait for it."""
        store_answers(parts, folder.answers_path(batch))
        batch = self._save(folder, batch, state=BatchState.COLLECTED, status=status.line)
        folder.requests_path(batch).unlink(missing_ok=True)
        answers = BatchAnswers(batch, folder.answers_path(batch))
        self.collected.append(answers)
        self.collected_now.add(batch.id)
        log.info("%s: batch %s %s: %s", self.host, status.provider_id, status.status, answers.summary())
        self._wake(batch, first=answers.index.answered)

    def _wake(self, batch: Batch, first: Container[str] = ()) -> None:
        """End the wait for a batch that is no longer pending.

        first: keys of the answered requests, since answers show whether a refusal concerns one request or all.
        """
        self.pending.pop(batch.id, None)
        for key in sorted(batch.keys, key=lambda key: key not in first):
            if self.batch_of.get(key) == batch.id:
                del self.batch_of[key]
            for ended in self.waiting.pop(key, ()):
                if not ended.done():
                    ended.set_result(None)


def end_all(futures: Iterable[asyncio.Future[None]], error: Exception) -> None:
    """Set an error in the futures that are not done."""
    for future in futures:
        if not future.done():
            future.set_exception(error)


def job_name(folder: Path) -> str:
    """Return the name of a job for a batch's metadata: the path of its journal within the folder of all journals."""
    parts = folder.with_suffix("").parts
    within = parts[parts.index(JOURNALS) + 1 :] if JOURNALS in parts else ()
    return "/".join(within or parts[-1:])
