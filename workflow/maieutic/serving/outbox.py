"""Client of a job whose model uses batches: it writes requests into the job's outbox, from which the run sends them."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from maieutic.core.journal import KEY_PREFIX, request_key
from maieutic.serving.answers import Answer
from maieutic.serving.batches import OUTBOX, OutboxHeader, QueuedRequest
from maieutic.serving.budget import Purse
from maieutic.serving.client import Client, Pending, Prepare, ServerSettings, unchanged_request


class Outbox(Client):
    """Client that answers no request whose answer has to come from a batch, and puts each into the job's outbox.

    If the entry does not use batches (any more), only requests that are in a batch in progress are put there, so that
    their answers reach this job's journal; all others are sent one by one.

    The file is written when the job ends as pending. A job that is interrupted leaves none.
    """

    def __init__(
        self,
        server: ServerSettings,
        purse: Purse | None,
        header: OutboxHeader,
        identity: dict[str, Any],
        in_batches: set[str],
    ) -> None:
        """identity: request-key fields of the model; in_batches: keys of the requests in batches in progress."""
        super().__init__(server, purse)
        self.header, self.identity, self.in_batches = header, identity, in_batches
        # Several models may share a journal, as in a curation.
        self.path = Path(header.journal).with_suffix(f".{header.asker}{OUTBOX}")
        self.queued: set[str] = set()
        self._file: IO[str] | None = None

    async def ask(self, request: dict[str, Any], prepare: Prepare = unchanged_request) -> Answer:
        """Put a request into the outbox. Raises Pending; requests that are sent one by one are answered as usual."""
        queued = QueuedRequest(request_key(request, self.identity).removeprefix(KEY_PREFIX), request)
        if self.header.limits is None and queued.key not in self.in_batches:
            return await super().ask(request, prepare)
        if queued.key not in self.queued:
            self.queued.add(queued.key)
            if self._file is None:
                self._file = open(self._draft, "w", encoding="utf-8")  # noqa: ASYNC230, SIM115 (a local file)
                self._file.write(self.header.model_dump_json(exclude_defaults=True) + "\n")
            self._file.write(queued.line)
        raise Pending("in a batch" if queued.key in self.in_batches else "for the next batch")

    @property
    def _draft(self) -> Path:
        """Path of the outbox while the job runs."""
        return self.path.with_name(f".{self.path.name}.tmp")

    def pending_line(self) -> str:
        """Write the outbox, and return the number of its requests as text, such as `40 requests for a batch`, or ""."""
        if self._file is None:
            return ""
        self._file.close()
        self._draft.replace(self.path)
        waiting = len(self.queued & self.in_batches)
        parts = {"in a batch in progress": waiting, "for the next batch": len(self.queued) - waiting}
        return ", ".join(f"{number:,} {what}" for what, number in parts.items() if number)

    async def close(self) -> None:
        """Close the connections, and discard an outbox that was not written."""
        await super().close()
        if self._file is not None:
            self._file.close()
        self._draft.unlink(missing_ok=True)
