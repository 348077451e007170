"""Batches of this folder's runs whose answers are not collected yet: list them, and cancel them (`maieutic cancel`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from maieutic.config.registry import unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.terminal import say
from maieutic.serving.backends import key_in_variable
from maieutic.serving.batches import Batch, BatchFolder, folders_with_batches

NO_NAME = "(no name)"  # shown for a run whose run file does not set `run.name`
CALL_SECONDS = 15.0  # timeout of a call about one batch


class PendingBatch(NamedTuple):
    """Batch whose answers are not collected.

    status: its status at the endpoint, or the last known one; fault: reason why the endpoint did not state it or did
    not cancel the batch.
    """

    folder: BatchFolder
    batch: Batch
    status: str
    fault: str = ""

    @property
    def run(self) -> str:
        """Name of the run that sent the batch."""
        return self.batch.run or NO_NAME

    @property
    def line(self) -> str:
        """Line about the batch for people."""
        name, host = self.batch.provider_id or "not submitted yet", urlsplit(self.batch.base_url).netloc
        since = f", submitted {self.batch.submitted_at} UTC" if self.batch.submitted_at else ""
        state = ", ".join(filter(None, [self.status, self.fault]))
        return f"{name} at {host}: {len(self.batch.keys):,} requests of {self.batch.job}{since}: {state}"


def uncollected_batches(journals: Path) -> tuple[list[tuple[BatchFolder, Batch]], list[UserError]]:
    """Return the batches without collected answers, the oldest first, and the errors of unreadable records.

    journals: folder of all journals.
    """
    pending, faults = list[tuple[BatchFolder, Batch]](), list[UserError]()
    for folder in folders_with_batches(journals):
        batches, unreadable = folder.readable_batches()
        pending += [(folder, batch) for batch in batches if batch.is_pending]
        faults += unreadable
    return sorted(pending, key=lambda each: (each[1].submitted or each[1].at, each[1].id)), faults


def pending_batches(journals: Path = Path(paths.JOURNALS)) -> tuple[list[PendingBatch], list[UserError]]:
    """Return the batches without collected answers, and the errors of unreadable records.

    The endpoint of each batch is called for its status.
    """
    batches, faults = uncollected_batches(journals)
    return asyncio.run(call_endpoints(batches, cancels=False)), faults


async def call_endpoints(batches: Iterable[tuple[BatchFolder, Batch]], cancels: bool) -> list[PendingBatch]:
    """Retrieve batches from their endpoints, or cancel them there, and return them with their status."""
    return list(await asyncio.gather(*(call_endpoint(folder, batch, cancels) for folder, batch in batches)))


async def call_endpoint(folder: BatchFolder, batch: Batch, cancels: bool) -> PendingBatch:
    """Retrieve a batch from its endpoint, or cancel it there, and return it with its status."""
    from maieutic.serving.answers import MalformedAnswer
    from maieutic.serving.batch_endpoint import BatchEndpoint
    from maieutic.serving.client import Client, ServerSettings, Unanswered

    known = PendingBatch(folder, batch, batch.status)
    try:
        key = key_in_variable(f"models.{batch.entry}.key_env", batch.key_env) if batch.key_env else None
    except UserError as error:
        return known._replace(fault=f"its current status needs the key: {error.fix}")
    client = Client(ServerSettings(batch.base_url, batch.entry, api_key=key, timeout=CALL_SECONDS, attempts=2))
    endpoint = BatchEndpoint(client, f"models.{batch.entry}")
    try:
        name = batch.provider_id
        if name is None:
            listed = await endpoint.search(batch, folder.record_path(batch))
            if listed is None:
                return known._replace(fault="its submission was cut off, and the endpoint does not list it")
            name = listed.provider_id
        try:
            status = await (endpoint.cancel(name) if cancels else endpoint.retrieve(name, folder.record_path(batch)))
        except (UserError, Unanswered):  # a batch that has ended cannot be cancelled
            status = await endpoint.retrieve(name, folder.record_path(batch))
            if not status.is_final:
                raise
        return known._replace(status=status.line)
    except (UserError, Unanswered, MalformedAnswer) as error:
        return known._replace(fault=str(error))
    finally:
        await client.close()


def cancel(run: str | None = None) -> None:
    """Cancel the pending batches of a run at their endpoints. Answers that are finished by then are still collected.

    run: name of the run, as listed by `maieutic runs`. It may be omitted if only one run has pending batches.

    Raises UserError at the end for batches that were not cancelled, and for records that cannot be read.
    """
    batches, faults = uncollected_batches(Path(paths.JOURNALS))
    names = sorted({batch.run or NO_NAME for _, batch in batches})
    if not names and faults:
        raise UserError.of(faults)
    if not names:
        say("No run of this folder has pending batches.")
        return
    if run is None and len(names) > 1:
        raise UserError("maieutic cancel", f"several runs have pending batches: {', '.join(names)}", "name one of them")
    if run is not None and run not in names:
        raise unknown_name("maieutic cancel", run, names, "the runs with pending batches")
    chosen = [(folder, batch) for folder, batch in batches if run in (None, batch.run or NO_NAME)]
    kept = []
    for pending in asyncio.run(call_endpoints(chosen, cancels=True)):
        say(pending.line)
        if pending.fault:
            kept.append(pending.batch.provider_id or pending.batch.id)
    if kept:
        problem = f"not cancelled: {', '.join(kept)}"
        faults = [UserError("maieutic cancel", problem, "see the reasons above, and repeat this"), *faults]
    if faults:
        raise UserError.of(faults)
    say("The next run collects the finished answers, and requests the others again if they are part of it.")
