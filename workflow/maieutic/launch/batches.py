"""Batches of this folder's runs whose answers are not collected yet: list them, and cancel them (`maieutic cancel`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from maieutic.config.registry import unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.journal import take_lock
from maieutic.serving.batches import Batch, BatchFolder, BatchState, folders_with_batches

NO_NAME = "(no name)"  # shown for a run whose run file does not set `run.name`
LOOK_SECONDS = 15.0  # timeout of a look at a batch


class PendingBatch(NamedTuple):
    """Batch whose answers are not collected. state: its state at the endpoint, or the reason why it is unknown."""

    folder: BatchFolder
    batch: Batch
    state: str

    @property
    def run(self) -> str:
        """Name of the run that sent the batch."""
        return self.batch.run or NO_NAME

    @property
    def line(self) -> str:
        """Line about the batch for people."""
        batch = self.batch
        name = batch.submitted_as or "not submitted yet"
        since = f", submitted {datetime.fromisoformat(batch.submitted):%Y-%m-%d %H:%M} UTC" if batch.submitted else ""
        host = urlsplit(batch.base_url).netloc
        return f"{name} at {host}: {len(batch.keys):,} requests of {batch.job}{since}: {self.state}"


def uncollected_batches(journals: Path) -> list[tuple[BatchFolder, Batch]]:
    """Return the batches without collected answers, the oldest first. journals: folder of all journals."""
    pending = [
        (folder, batch) for folder in folders_with_batches(journals) for batch in folder.batches() if batch.is_pending
    ]
    return sorted(pending, key=lambda each: (each[1].submitted or each[1].at, each[1].id))


def pending_batches(journals: Path = Path(paths.JOURNALS)) -> list[PendingBatch]:
    """Return the batches without collected answers, each with its state at the endpoint, which is asked for it."""
    return asyncio.run(looked_up(uncollected_batches(journals), cancel=False))


async def looked_up(batches: Iterable[tuple[BatchFolder, Batch]], cancel: bool) -> list[PendingBatch]:
    """Look up batches, or cancel them, and return them with their states."""
    return list(await asyncio.gather(*(look_up(folder, batch, cancel) for folder, batch in batches)))


async def look_up(folder: BatchFolder, batch: Batch, cancel: bool) -> PendingBatch:
    """Look up a batch, or cancel it, and return it with its state."""
    from maieutic.serving.batch_endpoint import BatchEndpoint
    from maieutic.serving.client import Client, ServerSettings, Unanswered

    known = batch.status or "state unknown"
    if batch.state == BatchState.POSTPONED:
        return PendingBatch(folder, batch, known)
    key = os.environ.get(batch.key_env, "").strip() if batch.key_env else ""
    if batch.key_env and not key:
        return PendingBatch(folder, batch, f"{known} (to see more: export {batch.key_env}=...)")
    client = Client(ServerSettings(batch.base_url, batch.entry, api_key=key or None, timeout=LOOK_SECONDS, attempts=2))
    endpoint = BatchEndpoint(client)
    try:
        name = batch.submitted_as
        if name is None:
            listed = await endpoint.search(batch.mark, batch.input_file, datetime.fromisoformat(batch.at).timestamp())
            if listed is None:
                return PendingBatch(folder, batch, "the submission was cut off, and the endpoint does not list it")
            name = listed.batch
        status = await (endpoint.cancel(name) if cancel else endpoint.look(name))
        return PendingBatch(folder, batch, status.line)
    except (UserError, Unanswered) as error:
        return PendingBatch(folder, batch, f"{known} ({error})")
    finally:
        await client.close()


def cancel(run: str | None = None) -> None:
    """Cancel the pending batches of a run at their endpoints. Answers that are finished by then are still collected.

    run: name of the run, as listed by `maieutic runs`; all runs of this folder if omitted.
    """
    batches = uncollected_batches(Path(paths.JOURNALS))
    names = sorted({batch.run or NO_NAME for _, batch in batches})
    if not names:
        raise UserError("maieutic cancel", "no run of this folder has pending batches", "nothing needs to be cancelled")
    if run is not None and run not in names:
        raise unknown_name("maieutic cancel", run, names, "the runs with pending batches")
    chosen = [(folder, batch) for folder, batch in batches if run in (None, batch.run or NO_NAME)]
    for pending in asyncio.run(looked_up(chosen, cancel=True)):
        if pending.batch.state == BatchState.POSTPONED:
            drop_postponed(pending)
        print(pending.line)
    print("The next run collects the finished answers, and sends the other requests again unless they are left out.")


def drop_postponed(pending: PendingBatch) -> None:
    """Forget a batch that waits to be submitted. Raises UserError if a job is using it."""
    lock = take_lock(pending.folder.path.with_suffix(".lock"))
    try:
        pending.folder.remove(pending.batch)
    finally:
        lock.close()
