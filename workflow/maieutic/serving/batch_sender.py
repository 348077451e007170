"""Sending of batches: collect requests, write them to a file, upload it, and submit the batch."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file
from maieutic.core.ledger import utc_now
from maieutic.core.shutdown import SHUTDOWN
from maieutic.serving.answers import MalformedAnswer
from maieutic.serving.batch_collector import BatchCollector
from maieutic.serving.batch_endpoint import BatchStatus, UnclearSubmission
from maieutic.serving.batch_register import BatchRegister, end_all
from maieutic.serving.batches import MEGABYTE, Batch, BatchLimits, BatchState, new_batch_id
from maieutic.serving.budget import Amount
from maieutic.serving.client import (
    ADDRESSES,
    SHUTDOWN_REASON,
    Interrupted,
    OverBudget,
    Pending,
    Prepare,
    Unanswered,
    body_of,
    wait_unless_shutdown,
)

log = logging.getLogger(__name__)
JOURNALS = Path(paths.JOURNALS).name
QUIET_SECONDS = 1.0  # a batch is sent once no request was added for this long


class BatchOrigin(NamedTuple):
    """Origin of a batch, as its record states it.

    run: name of the run; entry: registry entry of the model; key_env: name of the environment variable with the
    endpoint's key.
    """

    run: str
    entry: str
    key_env: str | None


class QueuedRequest(NamedTuple):
    """Request that waits for the next batch. ended: set once its batch has ended, or to the error that ends it."""

    key: str
    request: dict[str, Any]
    prepare: Prepare
    ended: asyncio.Future[None]


class BatchSender:
    """Sends requests in batches within the endpoint's limits, and registers the batches."""

    def __init__(
        self, register: BatchRegister, collector: BatchCollector, origin: BatchOrigin, limits: BatchLimits
    ) -> None:
        self.register, self.collector, self.origin, self.limits = register, collector, origin, limits
        self.queue: dict[str, QueuedRequest] = {}
        self.unended: dict[str, asyncio.Future[None]] = {}  # key of a sent or queued request -> its `ended`
        self.last_ask = 0.0
        self.sending = False

    async def send(self, key: str, request: dict[str, Any], prepare: Prepare) -> None:
        """Send a request in the next batch, and wait until the batch has ended.

        key: key of the request without its prefix; prepare: called just before the batch is sent. Raises Pending if the
        job does not wait for batches.
        """
        if key in self.unended:  # an identical request is queued or being sent
            await asyncio.shield(self.unended[key])
            return
        self.collector.queue.keys.discard(key)
        self.last_ask = time.monotonic()
        ended = self.unended[key] = asyncio.get_running_loop().create_future()
        self.queue[key] = QueuedRequest(key, request, prepare, ended)
        if not self.sending:
            self.sending = True
            self.register.tasks.start(self._send_queue())
        try:
            await ended
        finally:
            del self.unended[key]

    async def quiet(self) -> None:
        """Wait until no request was added for QUIET_SECONDS."""
        while (left := self.last_ask + QUIET_SECONDS - time.monotonic()) > 0:
            await asyncio.sleep(left)

    async def _send_queue(self) -> None:
        """Send the queued requests in batches, each once it is full or no request was added for a while."""
        try:
            while self.queue:
                if len(self.queue) < self.limits.requests:
                    await self.quiet()
                with suppress(Interrupted):  # preparing the requests raises the same error
                    await wait_unless_shutdown(self.collector.queue.opens - time.monotonic())
                by_endpoint: defaultdict[str, list[QueuedRequest]] = defaultdict(list)
                for queued in list(islice(self.queue.values(), self.limits.requests)):
                    by_endpoint[queued.request["endpoint"]].append(self.queue.pop(queued.key))
                for endpoint, requests in by_endpoint.items():
                    await self._send(f"{self.limits.url_prefix}/{ADDRESSES[endpoint]}", requests)
        finally:
            self.sending = False

    async def _send(self, url: str, requests: list[QueuedRequest]) -> None:
        """Send requests to one address, in as many batches as their size needs. An error ends these requests."""
        register, lines = self.register, self._lines(url, requests)
        try:
            first = next(lines, None)
            while first is not None:
                batch, sent, first = self._write(url, first, lines)
                register.submitting.add(batch.id)
                try:
                    await self._submit_file(batch)
                except Exception as error:
                    end_all((queued.ended for queued in sent), error)
                    raise
                finally:
                    register.submitting.discard(batch.id)
                if self.collector.waits:
                    for queued in sent:
                        register.waiting[queued.key].append(queued.ended)
                    self.collector.watch()
                else:
                    end_all((queued.ended for queued in sent), Pending(f"in a batch at {register.host}"))
        except Exception as error:  # earlier batches of these requests are not affected
            unsent = [queued for queued in requests if queued.key not in register.batch_of]
            if register.live.purse is not None:
                register.live.purse.release_in_batch(queued.key for queued in unsent)
            end_all((queued.ended for queued in unsent), error)

    def _lines(self, url: str, requests: Iterable[QueuedRequest]) -> Iterator[tuple[QueuedRequest, bytes]]:
        """Yield each request with its line in a batch's file.

        A request that cannot be prepared, for example because the budget is spent, ends with that error.
        """
        purse = self.register.live.purse
        for queued in requests:
            try:
                if SHUTDOWN.is_set:
                    raise Interrupted(SHUTDOWN_REASON)
                if purse is not None:
                    try:
                        purse.reserve_in_batch(queued.request, queued.key)
                    except UserError as error:
                        raise OverBudget(error.problem) from None
                body = body_of(self.register.live.server, queued.prepare(queued.request))
                content = {"custom_id": queued.key, "method": "POST", "url": url, "body": body}
                line = json.dumps(content).encode() + b"\n"
                if len(line) > self.limits.size:
                    size = f"{len(line) / MEGABYTE:.1f} MB"
                    problem = f"a request of {size} is larger than a batch ({self.limits.mb:g} MB)"
                    place = f"models.{self.origin.entry}.batch_mb"
                    raise UserError(place, problem, "raise batch_mb, or remove batch")
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
        register, folder = self.register, self.register.own_folder
        batch = Batch(
            id=new_batch_id(), job=job_name(folder.path), base_url=register.live.server.base_url,
            model_digest=register.digest, url=url, state=BatchState.WRITTEN, keys=[], size=0, at=utc_now(),
            **self.origin._asdict(),
        )  # fmt: skip
        register.claim(folder, batch)
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
        keys = [queued.key for queued in sent]
        purse = register.live.purse
        reserved = purse.reserved_in_batch(keys) if purse is not None else Amount()
        batch = batch.model_copy(
            update={"keys": keys, "size": size, "reserved_tokens": reserved.tokens, "reserved_usd": reserved.usd}
        )
        folder.save(batch)
        return batch, sent, following

    async def _submit_file(self, batch: Batch) -> None:
        """Upload a batch's requests and submit the batch. Raises UserError if the endpoint refuses it."""
        register, folder = self.register, self.register.own_folder
        try:
            input_file = await register.endpoint_of(batch).upload(folder.requests_path(batch))
        except Exception:
            folder.remove(batch)  # nothing was submitted
            raise
        register.needed.add(batch.id)
        await self._submit(register.save(folder, batch, state=BatchState.SUBMITTING, input_file=input_file))

    async def _submit(self, batch: Batch) -> None:
        """Submit a batch whose requests are uploaded.

        A submission without an answer is not repeated before the endpoint's list shows that it did not arrive.

        Raises UserError if the endpoint refuses the batch, Unanswered after the last attempt.
        """
        register, folder = self.register, self.register.own_folder
        for _ in range(register.live.server.attempts):
            try:
                status: BatchStatus | None = await register.endpoint_of(batch).submit(batch)
            except (UnclearSubmission, MalformedAnswer) as error:
                log.warning("%s: no valid answer to the submission of a batch (%s)", register.host, error)
                status = await register.listed_late(folder, batch)
            except UserError:
                register.drop(folder, batch)
                raise
            if status is not None:
                register.submitted(folder, batch, status)
                return
        raise Unanswered(f"no answer to the submission of a batch at {register.host}")


def job_name(folder: Path) -> str:
    """Return the name of a job for a batch's metadata: the path of its journal within the folder of all journals."""
    parts = folder.with_suffix("").parts
    within = parts[parts.index(JOURNALS) + 1 :] if JOURNALS in parts else ()
    return "/".join(within or parts[-1:])
