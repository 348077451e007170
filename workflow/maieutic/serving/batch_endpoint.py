"""Calls of a batch API in OpenAI's form: upload requests, submit a batch, look it up, and download its answers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote

import aiohttp

from maieutic.core.errors import UserError
from maieutic.serving.answers import MalformedAnswer, body_excerpt, parse_body
from maieutic.serving.batches import Batch
from maieutic.serving.client import Client, ErrorStatus, Unanswered, never_encrypted, wait_unless_shutdown
from maieutic.serving.connections import BLOCK, Response, read_body
from maieutic.serving.refusals import KEY_REFUSED, Refusal, read_refusal, refusal_in, scope_of

T = TypeVar("T")
MARK, JOB = "maieutic_batch", "maieutic_job"  # names in a batch's metadata
LONGEST_METADATA = 512  # maximum number of characters of a value in a batch's metadata
TRANSFER_SECONDS = 3600  # timeout of an upload or a download
PAGE = 100  # number of batches in one page of a listing, the largest allowed
MOST_PAGES = 200
SLACK_SECONDS = 86_400  # a listing is read until its batches are older than the searched one by this much
FORBIDDEN, NOT_FOUND = 403, frozenset({404, 405, 501})
TOO_MANY_QUEUED = "token_limit_exceeded"  # error code of a batch that is refused since too much is waiting
FINAL = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})
UPLOAD_CHECK_SECONDS = 2.0  # seconds between two looks at a file that the endpoint still processes
MOST_UPLOAD_CHECKS = 60


class UnclearSubmission(Exception):
    """Error for a submission without an answer, after which the batch may or may not exist."""


class BatchStatus(NamedTuple):
    """A batch as its endpoint describes it.

    status: in lower case; output_file, error_file: identifiers of its files, None for a missing file; done, total:
    counts of requests, None if not stated; faults: errors of the whole batch.
    """

    batch: str
    status: str
    output_file: str | None
    error_file: str | None
    done: int | None
    total: int | None
    faults: list[Refusal]

    @property
    def is_final(self) -> bool:
        """True if the batch has ended."""
        return self.status in FINAL

    @property
    def line(self) -> str:
        """Status with the number of finished requests, as text."""
        counts = f", {self.done} of {self.total} done" if self.total and self.done is not None else ""
        return f"{self.status or 'unknown status'}{counts}"


def batch_status(content: Any) -> BatchStatus:
    """Return the status in an endpoint's description of a batch. Providers differ in case and in missing fields.

    Raises MalformedAnswer if the description has no identifier.
    """
    batch = content.get("id") if isinstance(content, dict) else None
    if not isinstance(batch, str) or not batch:
        raise MalformedAnswer("a description of a batch without an id", body_excerpt(repr(content).encode()))
    counts = content.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    failed, completed, total = (
        value if isinstance(value := counts.get(name), int) else None for name in ("failed", "completed", "total")
    )
    errors = content.get("errors")
    entries = errors.get("data") if isinstance(errors, dict) else errors
    return BatchStatus(
        batch=batch,
        status=str(content.get("status") or "").lower(),
        output_file=content.get("output_file_id") or None,
        error_file=content.get("error_file_id") or None,
        done=None if completed is None else completed + (failed or 0),
        total=total,
        faults=[fault_of_batch(entry) for entry in entries or () if entry],
    )


def fault_of_batch(entry: Any) -> Refusal:
    """Return an error of a whole batch, with the number of the line that it names."""
    line = entry.get("line") if isinstance(entry, dict) else None
    refusal = refusal_in(400, {"error": entry})
    return refusal._replace(message=f"{refusal.message} (line {line})") if line else refusal


def seconds_of(moment: Any) -> float | None:
    """Return a time as seconds since 1970. Providers state times as numbers or as ISO dates; None for anything else."""
    if isinstance(moment, int | float):
        return float(moment)
    try:
        time_stated = datetime.fromisoformat(str(moment))
    except ValueError:
        return None
    return (time_stated if time_stated.tzinfo else time_stated.replace(tzinfo=UTC)).timestamp()


class BatchEndpoint:
    """Batch API of a model's endpoint. It shares the connections and the key of the model's client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.base = client.server.base_url.rstrip("/")
        self.place = f"models.{client.server.name}" if client.server.name else self.base

    async def upload(self, requests: Path) -> str:
        """Upload a file of requests, and return its identifier once the endpoint has processed it."""

        def form() -> aiohttp.FormData:
            content = aiohttp.FormData()
            content.add_field("purpose", "batch")
            # The handle is closed by aiohttp after the transfer.
            content.add_field("file", open(requests, "rb"), filename=f"{requests.stem}.jsonl")  # noqa: SIM115
            return content

        described = await self._call("POST", "files", form=form)
        name = described.get("id")
        if not isinstance(name, str) or not name:
            raise self._malformed("files", described)
        for _ in range(MOST_UPLOAD_CHECKS):
            if str(described.get("status") or "").lower() != "pending":
                break
            await wait_unless_shutdown(UPLOAD_CHECK_SECONDS)
            described = await self._call("GET", f"files/{quote(name, safe='')}")
        return name

    async def submit(self, batch: Batch) -> BatchStatus:
        """Submit a batch. Raises UnclearSubmission or MalformedAnswer if the endpoint may have accepted it."""
        body = {
            "input_file_id": batch.input_file,
            "endpoint": batch.url,
            "completion_window": "24h",
            "metadata": {MARK: batch.mark, JOB: batch.job[-LONGEST_METADATA:]},
        }
        return batch_status(await self._call("POST", "batches", body=body, repeat=False))

    async def retrieve(self, batch: str, record: Path) -> BatchStatus:
        """Return the status of a batch. record: its record on disk, which an error about an unknown batch names."""
        path = f"batches/{quote(batch, safe='')}"
        unknown = f"delete {record} to send its requests again, or set the key with which the batch was submitted"
        return batch_status(await self._call("GET", path, unknown=unknown))

    async def cancel(self, batch: str) -> BatchStatus:
        """Cancel a batch. Finished requests are still answered."""
        return batch_status(await self._call("POST", f"batches/{quote(batch, safe='')}/cancel", body={}))

    async def search(self, batch: Batch) -> BatchStatus | None:
        """Return the batch with the mark of `batch` in its metadata, or of its file; None if the endpoint lists none.

        Batches that are older than its submission by SLACK_SECONDS end the search.
        """
        query, seen = "", set[str]()
        for _ in range(MOST_PAGES):
            page = await self._call("GET", f"batches?limit={PAGE}{query}")
            entries = [entry for entry in page.get("data") or () if isinstance(entry, dict) and entry.get("id")]
            for entry in entries:
                metadata = entry.get("metadata")
                marked = isinstance(metadata, dict) and metadata.get(MARK)
                same_file = batch.input_file is not None and entry.get("input_file_id") == batch.input_file
                if marked == batch.mark or (not marked and same_file):
                    return batch_status(entry)
            times = [moment for entry in entries if (moment := seconds_of(entry.get("created_at"))) is not None]
            last = str(entries[-1]["id"]) if entries else ""
            paging = page.get("paging")
            cursor = paging.get("next_cursor") if isinstance(paging, dict) else None
            if (
                not entries
                or last in seen
                or page.get("has_more") is False
                or (times and max(times) < batch.began - SLACK_SECONDS)
            ):
                break
            seen.add(last)
            query = f"&cursor={quote(str(cursor), safe='')}" if cursor else f"&after={quote(last, safe='')}"
        return None

    async def download(self, file: str, out: Path) -> bool:
        """Download a file to `out`. Returns False if the endpoint no longer has the file."""
        url = f"{self.base}/files/{quote(file, safe='')}/content"

        async def fetch() -> bool:
            timeout = aiohttp.ClientTimeout(total=TRANSFER_SECONDS)
            async with self.client.open_session().get(url, timeout=timeout, allow_redirects=False) as response:
                if response.status == 404:
                    return False
                if response.status != 200:
                    body = await read_body(response, self.client.server.longest)
                    raise ErrorStatus(read_refusal(response.status, body), response.headers)
                with open(out, "wb") as handle:  # noqa: ASYNC230 (a local file)
                    async for part in response.content.iter_chunked(BLOCK):
                        handle.write(part)
            return True

        return await self._repeat(fetch, "files")

    async def _call(
        self,
        method: Literal["GET", "POST"],
        path: str,
        body: Mapping[str, Any] | None = None,
        form: Callable[[], aiohttp.FormData] | None = None,
        repeat: bool = True,
        unknown: str | None = None,
    ) -> dict[str, Any]:
        """Call the API and return the JSON object in its answer.

        form: function that returns the form to send, called for each attempt; repeat: False for a call that must not be
        repeated after a failure without an answer, which then raises UnclearSubmission; unknown: fix if the endpoint
        does not know what the call names.

        Raises Unanswered after the last attempt, UserError for a refusal.
        """

        async def once() -> dict[str, Any]:
            timeout = aiohttp.ClientTimeout(total=TRANSFER_SECONDS if form else self.client.server.timeout)
            content: dict[str, Any] = {"data": form()} if form else {} if body is None else {"json": body}
            async with self.client.open_session().request(
                method, f"{self.base}/{path}", timeout=timeout, allow_redirects=False, **content
            ) as answer:
                response = Response(answer.status, answer.headers, await read_body(answer, self.client.server.longest))
            if not 200 <= response.status < 300:
                raise ErrorStatus(read_refusal(response.status, response.body), response.headers)
            described = parse_body(response.body)
            if not isinstance(described, dict):
                raise self._malformed(path, described)
            return described

        return await self._repeat(once, path.partition("?")[0], repeat, unknown)

    async def _repeat(
        self, call: Callable[[], Awaitable[T]], what: str, repeat: bool = True, unknown: str | None = None
    ) -> T:
        """Call a function until it succeeds, with the client's pauses between attempts."""
        for attempt in range(1, self.client.server.attempts + 1):
            await self.client.gate.wait_until_open()
            try:
                return await call()
            except ErrorStatus as error:
                if scope_of(error.refusal, "Retry-After" in error.headers) != "passing":
                    raise self._fault(error.refusal, what, unknown) from None
                if not repeat and error.refusal.status >= 500:
                    raise UnclearSubmission(error.refusal.words) from None
                wait = self.client.note_failure(error, attempt)
            except (aiohttp.ClientError, TimeoutError, ConnectionError, MalformedAnswer) as error:
                if never_encrypted(error):
                    raise self.client.untrusted(error) from None
                if not repeat and not is_refused_connection(error):
                    raise UnclearSubmission(type(error).__name__) from None
                wait = self.client.note_failure(error, attempt)
            if attempt < self.client.server.attempts:
                await wait_unless_shutdown(wait)
        raise Unanswered(f"{attempt} attempts to call {what} failed, last {self.client.last}")

    def _malformed(self, path: str, content: Any) -> UserError:
        """Return the error for an answer that does not have the form of OpenAI's batch API."""
        excerpt = body_excerpt(repr(content).encode())
        return UserError(
            f"{self.place}.batch", f"{self.base}/{path} answers in another form: {excerpt}", "remove batch"
        )

    def _fault(self, refusal: Refusal, what: str, unknown: str | None) -> UserError:
        """Return the error for a refused call. unknown: fix if the endpoint does not know what the call names."""
        problem = f"{self.base}/{what}: the server answers {refusal.status} ({refusal.message})"
        if unknown is not None and refusal.status in {FORBIDDEN, *NOT_FOUND}:
            return UserError(self.place, problem, unknown)
        if refusal.status in {KEY_REFUSED, FORBIDDEN}:
            fix = "set the environment variable that key_env names to a key that may use files and batches"
            return UserError(self.place, problem, fix)
        if refusal.status in NOT_FOUND:
            return UserError(f"{self.place}.batch", problem, "remove batch if this endpoint has no batch API")
        return UserError(f"{self.place}.batch", problem, "correct the entry, or remove batch to send single requests")


def is_refused_connection(error: Exception) -> bool:
    """Return True if no connection was opened, so that nothing was sent."""
    return isinstance(error, aiohttp.ClientConnectorError)


async def settle(since: float, seconds: float) -> None:
    """Wait until `seconds` have passed since a time (in seconds since 1970)."""
    while (left := since + seconds - time.time()) > 0:
        await wait_unless_shutdown(min(left, seconds))
