"""Register of a client's batches: those that are pending, their requests, and the answers that were collected."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from maieutic.core.errors import UserError
from maieutic.core.journal import lock_path, take_lock
from maieutic.core.ledger import utc_now
from maieutic.serving.batch_endpoint import BatchEndpoint, BatchStatus
from maieutic.serving.batches import MEGABYTE, Batch, BatchAnswers, BatchFolder, BatchState
from maieutic.serving.client import Client, wait_unless_shutdown

log = logging.getLogger(__name__)
CLAIMED: set[Path] = set()  # batches and downloads, without a suffix, for which a client of this process is responsible
# A submission that was cut off may reach the endpoint's list of batches this much later.
SETTLE_SECONDS = 30.0


class BackgroundTasks:
    """Coroutines that run until they end or are cancelled."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def cancel(self) -> None:
        """Cancel all coroutines, and wait until they have ended."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class BatchRegister:
    """Batches of one client, with the requests that wait for them. It changes their records on disk."""

    def __init__(self, live: Client, folders: Sequence[BatchFolder], digest: str) -> None:
        """live: client of single requests; folders: folders with batches, of which the first belongs to this job.

        digest: digest of the model's request-key fields.
        """
        self.live, self.folders, self.digest = live, list(folders), digest
        self.host = urlsplit(live.server.base_url).netloc
        self.pending: dict[str, tuple[BatchFolder, Batch]] = {}  # batches without answers, by the name of their files
        self.batch_of: dict[str, str] = {}  # key of a request -> name of the pending batch that contains it
        self.needed: set[str] = set()  # names of the batches that contain a request of this job
        self.submitting: set[str] = set()  # names of the batches whose submission is in progress
        self.waiting: defaultdict[str, list[asyncio.Future[None]]] = defaultdict(list)  # by the key of the request
        self.collected: list[BatchAnswers] = []
        self.collected_now: set[str] = set()  # names of the batches that this process has collected
        self.claims: set[Path] = set()
        self.tasks = BackgroundTasks()

    @property
    def own_folder(self) -> BatchFolder:
        """Folder with the batches of this job."""
        return self.folders[0]

    def load(self) -> None:
        """Read the batches of earlier jobs. Those that were never submitted are removed."""
        self.own_folder.remove_leftovers(CLAIMED)
        for shared in self.folders:
            for batch in shared.batches():
                folder = self.claim(shared, batch)
                if batch.state == BatchState.WRITTEN:
                    if folder.owned:
                        folder.remove(batch)  # its requests are sent with the next batch
                elif batch.model_digest != self.digest:
                    continue
                elif batch.state == BatchState.COLLECTED:
                    self.collected.append(BatchAnswers(batch, folder.answers_path(batch)))
                else:
                    self.add(folder, batch)

    def claim(self, folder: BatchFolder, batch: Batch) -> BatchFolder:
        """Return the folder as this client may use it for a batch.

        Of two clients in this process with one journal, the first one is responsible for a batch.
        """
        path = folder.path / batch.id
        if folder.owned and path not in CLAIMED and batch.model_digest == self.digest:
            CLAIMED.add(path)
            self.claims.add(path)
        is_ours = path in self.claims or (folder.owned and path not in CLAIMED)
        return folder if is_ours else BatchFolder(folder.path, owned=False)

    async def close(self) -> None:
        """End the work in progress. Another client of this process may then be responsible for the batches."""
        await self.tasks.cancel()
        CLAIMED.difference_update(self.claims)

    def endpoint_of(self, batch: Batch) -> BatchEndpoint:
        """Return the batch API of this client's endpoint. Its errors name the registry entry of the batch."""
        return BatchEndpoint(self.live, f"models.{batch.entry}")

    # records ----------------------------------------------------------------------------------------------------------

    def add(self, folder: BatchFolder, batch: Batch) -> None:
        """Register a pending batch."""
        self.pending[batch.id] = folder, batch
        self.batch_of |= dict.fromkeys(batch.keys, batch.id)

    def save(self, folder: BatchFolder, batch: Batch, **changes: Any) -> Batch:
        """Save a step of a pending batch, and return the changed batch."""
        batch = batch.model_copy(update={"at": utc_now(), **changes})
        folder.save(batch)
        self.add(folder, batch)
        return batch

    def drop(self, folder: BatchFolder, batch: Batch) -> None:
        """Forget a batch without answers, so that its requests are sent again."""
        folder.remove(batch)
        if self.live.purse is not None:
            self.live.purse.release_in_batch(batch.keys)
        self.wake(batch)

    def change(self, folder: BatchFolder, batch: Batch, change: Callable[[], None]) -> None:
        """Change the record of a batch. That of another job is changed only while the job does not run."""
        if folder.owned:
            change()
            return
        try:
            lock = take_lock(lock_path(folder.path))
        except UserError:  # that job runs, or another client of this one is responsible
            return
        try:
            if self.read_again(folder, batch) == batch:
                change()
        finally:
            lock.close()

    def read_again(self, folder: BatchFolder, batch: Batch) -> Batch | None:
        """Return the current record of a batch; None if another client collected it, or if it was removed."""
        current = folder.read(batch)
        if current is not None and current.state != BatchState.COLLECTED:
            self.add(folder, current)
            return current
        if current is not None:
            self.collected.append(BatchAnswers(current, folder.answers_path(current)))
        self.wake(batch)
        return None

    def wake(self, batch: Batch, first: Container[str] = ()) -> None:
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

    # submissions ------------------------------------------------------------------------------------------------------

    def submitted(self, folder: BatchFolder, batch: Batch, status: BatchStatus) -> None:
        """Record that a batch was submitted."""
        log.info(
            "%s: batch %s submitted, %s requests (%.1f MB), answers within a day",
            self.host, status.provider_id, f"{len(batch.keys):,}", batch.size / MEGABYTE,
        )  # fmt: skip
        known = {"provider_id": status.provider_id, "status": status.line, "submitted": utc_now()}
        self.save(folder, batch, state=BatchState.SUBMITTED, **known)

    async def listed_late(self, folder: BatchFolder, batch: Batch) -> BatchStatus | None:
        """Return the batch that a cut-off submission created, None if the endpoint does not list it.

        A batch may appear in the list with a delay.
        """
        record = folder.record_path(batch)
        if (status := await self.endpoint_of(batch).search(batch, record)) is not None:
            return status
        await wait_unless_shutdown(SETTLE_SECONDS)
        return await self.endpoint_of(batch).search(batch, record)


def end_all(futures: Iterable[asyncio.Future[None]], error: Exception) -> None:
    """Set an error in the futures that are not done."""
    for future in futures:
        if not future.done():
            future.set_exception(error)
