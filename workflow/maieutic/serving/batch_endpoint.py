"""Calls of a batch API in OpenAI's form: upload requests, submit a batch, retrieve it, and download its answers."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
from aiohttp.abc import ResolveResult
from aiohttp.resolver import ThreadedResolver

from maieutic.core.errors import UserError
from maieutic.serving.answers import MalformedAnswer, body_excerpt, metadata_word, parse_body, token_count
from maieutic.serving.batches import Batch, RedactingWriter, TooLarge
from maieutic.serving.client import (
    Client,
    ErrorStatus,
    Unanswered,
    never_encrypted,
    stated_seconds,
    wait_unless_shutdown,
)
from maieutic.serving.connections import BLOCK, BodyTooLong, Response, open_session, read_body
from maieutic.serving.refusals import KEY_REFUSED, SERVER_FAILED, Refusal, read_refusal, refusal_in, scope_of
from maieutic.serving.waits import date_in

T = TypeVar("T")
MARK, JOB = "maieutic_batch", "maieutic_job"  # names in a batch's metadata
LONGEST_METADATA = 512  # maximum number of characters of a value in a batch's metadata
TRANSFER_SECONDS = 3600  # timeout of an upload or a download
IDLE_SECONDS = 120  # timeout of a download during which nothing arrives
MOST_REDIRECTS = 10
LEAST_DOWNLOAD, MOST_OF_ANSWER = 64 << 20, 1 << 20  # limit of a download in bytes: at least, and more for each request
PAGE = 100  # number of batches in one page of a listing, the largest allowed
MOST_PAGES = 200
SLACK_SECONDS = 86_400  # a listing is read until its batches are older than the searched one by this much
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAY_BE_ACCEPTED = frozenset({408, 409})  # statuses of a submission that do not show whether it was accepted
FORBIDDEN, NOT_FOUND, GONE = 403, frozenset({404, 405, 501}), frozenset({404, 410})
UNKNOWN = frozenset({400, 404, 405, 410, 422, 501})  # statuses with which endpoints reject an unknown identifier
KEEP_BATCH = "settle this with the provider, and run again: the batch is kept"
SEND_SINGLY = "correct the entry, or remove batch to send single requests"
FINAL = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})
FILE_PENDING, FILE_REFUSED = "pending", "error"  # statuses of an uploaded file
UPLOAD_CHECK_SECONDS = 2.0  # seconds between two checks of a file that the endpoint still processes
MOST_UPLOAD_CHECKS = 60


class UnclearSubmission(Exception):
    """Error for a submission without an answer, after which the batch may or may not exist."""


class BatchStatus(NamedTuple):
    """A batch as its endpoint describes it.

    provider_id: the endpoint's identifier of the batch; status: in lower case; output_file, error_file: identifiers of
    its files, None for a missing file; completed, failed, total: counts of requests, 0 if not stated; is_counted: True
    if counts are stated; faults: errors of the whole batch.
    """

    provider_id: str
    status: str
    output_file: str | None
    error_file: str | None
    completed: int
    failed: int
    total: int
    is_counted: bool
    faults: list[Refusal]

    @property
    def is_final(self) -> bool:
        """True if the batch has ended."""
        return self.status in FINAL

    @property
    def line(self) -> str:
        """Status with the number of finished requests, as text."""
        counts = f", {self.completed + self.failed} of {self.total} done" if self.total else ""
        return f"{self.status or 'unknown status'}{counts}"


def batch_status(content: Any) -> BatchStatus:
    """Return the status in an endpoint's description of a batch. Providers differ in case and in missing fields.

    Raises MalformedAnswer if the description has no identifier.
    """
    provider_id = identifier(content.get("id")) if isinstance(content, dict) else None
    if provider_id is None:
        raise MalformedAnswer("a description of a batch without an id", body_excerpt(repr(content).encode()))
    counts = content.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    completed, failed, total = (token_count(counts.get(name)) or 0 for name in ("completed", "failed", "total"))
    errors = content.get("errors")
    entries = errors.get("data") if isinstance(errors, dict) else errors
    return BatchStatus(
        provider_id=provider_id,
        status=(metadata_word(content.get("status")) or "").lower(),
        output_file=identifier(content.get("output_file_id")),
        error_file=identifier(content.get("error_file_id")),
        completed=completed,
        failed=failed,
        total=total,
        is_counted=bool(counts),
        faults=[fault_of_batch(entry) for entry in entries if entry] if isinstance(entries, list) else [],
    )


def identifier(value: Any) -> str | None:
    """Return the identifier of a batch or a file; None if it is empty, missing or not a plain word."""
    word = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return word if word.isascii() and word.isprintable() and word else None


def fault_of_batch(entry: Any) -> Refusal:
    """Return an error of a whole batch, with the number of the line that it names."""
    line = entry.get("line") if isinstance(entry, dict) else None
    refusal = refusal_in(400, {"error": entry})
    return refusal._replace(message=f"{refusal.message} (line {line})") if line else refusal


def seconds_of(moment: Any) -> float | None:
    """Return a time as seconds since 1970. Providers state times as numbers or as ISO dates; None for anything else."""
    return float(moment) if isinstance(moment, int | float) else date_in(str(moment))


class BatchEndpoint:
    """Batch API of a model's endpoint. It shares the connections and the key of the model's client."""

    def __init__(self, client: Client, place: str) -> None:
        """place: beginning of error messages, such as `models.NAME`."""
        self.client, self.place = client, place
        self.base = client.server.base_url.rstrip("/")

    async def upload(self, requests: Path) -> str:
        """Upload a file of requests, and return its identifier once the endpoint has processed it.

        Raises UserError if the endpoint refuses the file, Unanswered if it does not process it in time.
        """

        def form() -> aiohttp.FormData:
            content = aiohttp.FormData()
            content.add_field("purpose", "batch")
            # The handle is closed by aiohttp after the transfer.
            content.add_field("file", open(requests, "rb"), filename=f"{requests.stem}.jsonl")  # noqa: SIM115
            return content

        described = await self._call("POST", "files", form=form)
        name = identifier(described.get("id"))
        if name is None:
            raise self._malformed("files", described)
        for _ in range(MOST_UPLOAD_CHECKS):
            status = str(described.get("status") or "").lower()
            if status == FILE_REFUSED:
                details = described.get("status_details")
                reason = body_excerpt(str(details).encode()) if details else "the endpoint gives no reason"
                problem = f"{self.base}/files: the file of requests is refused ({reason})"
                raise UserError(f"{self.place}.batch", problem, SEND_SINGLY)
            if status != FILE_PENDING:
                return name
            await wait_unless_shutdown(UPLOAD_CHECK_SECONDS)
            described = await self._call("GET", f"files/{quote(name, safe='')}")
        raise Unanswered(f"{self.base}/files still processes the file of requests")

    async def submit(self, batch: Batch) -> BatchStatus:
        """Submit a batch. Raises UnclearSubmission or MalformedAnswer if the endpoint may have accepted it."""
        body = {
            "input_file_id": batch.input_file,
            "endpoint": batch.url,
            "completion_window": "24h",
            "metadata": {MARK: batch.id, JOB: next(iter(batch.askers), "")[-LONGEST_METADATA:]},
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

    async def search(self, batch: Batch, record: Path) -> BatchStatus | None:
        """Return the batch with the mark of `batch` in its metadata, or of its file; None if the endpoint lists none.

        record: its record on disk, which an error names.

        Raises Unanswered for an answer without a list, UserError if the list cannot be read to its end.
        """
        query, seen = "", set[str]()
        fix = f"delete {record} if this batch was never submitted"
        for _ in range(MOST_PAGES):
            page = await self._call("GET", f"batches?limit={PAGE}{query}", unknown=fix)
            data = page.get("data")
            if not isinstance(data, list):
                raise Unanswered(f"{self.base}/batches answers without a list of batches")
            entries = [entry for entry in data if isinstance(entry, dict) and identifier(entry.get("id"))]
            for entry in entries:
                metadata = entry.get("metadata")
                marked = isinstance(metadata, dict) and metadata.get(MARK)
                same_file = batch.input_file is not None and entry.get("input_file_id") == batch.input_file
                if marked == batch.id or (not marked and same_file):
                    return batch_status(entry)
            times = [moment for entry in entries if (moment := seconds_of(entry.get("created_at"))) is not None]
            newest_first = times == sorted(times, reverse=True)
            last = str(entries[-1]["id"]) if entries else ""
            paging = page.get("paging")
            cursor = paging.get("next_cursor") if isinstance(paging, dict) else None
            is_old = newest_first and bool(times) and times[0] < batch.last_step_seconds - SLACK_SECONDS
            if not entries or page.get("has_more") is False or is_old:
                return None
            if last in seen:  # the endpoint ignores `after`: the first page is all that it lists
                if len(entries) < PAGE:
                    return None
                break
            seen.add(last)
            query = f"&cursor={quote(str(cursor), safe='')}" if cursor else f"&after={quote(last, safe='')}"
        raise UserError(self.place, f"{self.base}/batches: the list of batches cannot be read to its end", fix)

    async def download(self, file: str, out: Path, record: Path, requests: int) -> bool:
        """Download a file to `out`. Returns False if the endpoint no longer has the file.

        A redirect, for example to a cloud's storage, is followed without the API key. record: record of the batch on
        disk, which an error names; requests: number of requests of the batch, which limits the size of the file. Raises
        Unanswered for a file that is too large, and for a redirect to a place that may not be read.
        """
        most = LEAST_DOWNLOAD + requests * MOST_OF_ANSWER
        path = f"files/{quote(file, safe='')}/content"
        url = f"{self.base}/{path}"

        async def fetch() -> bool:
            place, address = url, await self._fetch(self.client.open_session(), url, out, most)
            for _ in range(MOST_REDIRECTS + 1):
                if not isinstance(address, str):
                    return address
                check_redirect(place, address)
                place = address
                resolver = None if is_internal(urlsplit(url).hostname or "") else PublicResolver()
                async with open_session(1, None, TRANSFER_SECONDS, None, address, resolver) as without_key:
                    address = await self._fetch(without_key, address, out, most)
            raise Unanswered(f"{path} is redirected more than {MOST_REDIRECTS} times")

        return await self._repeat(fetch, path, unknown=f"delete {record} to send its requests again")

    async def _fetch(self, session: aiohttp.ClientSession, url: str, out: Path, most: int) -> str | bool:
        """Download an address. Returns True, or False if there is nothing, or the address of a redirect.

        most: maximum number of bytes after decompression.
        """
        timeout = aiohttp.ClientTimeout(total=TRANSFER_SECONDS, sock_read=IDLE_SECONDS)
        async with session.get(url, timeout=timeout, allow_redirects=False) as response:
            if response.status in GONE:
                return False
            if response.status in REDIRECTS and (location := response.headers.get("Location")):
                try:
                    return urljoin(url, location)
                except ValueError as error:
                    raise Unanswered(f"a download is redirected to an invalid address ({error})") from None
            if response.status != 200:
                body = await read_body(response, self.client.server.longest)
                raise ErrorStatus(read_refusal(response.status, body, response.headers), response.headers)
            with open(out, "wb") as handle:  # noqa: ASYNC230 (a local file)
                writer = RedactingWriter(handle, min(self.client.server.longest, most), most)
                try:
                    async for part in response.content.iter_chunked(BLOCK):
                        writer.write(part)
                except TooLarge as error:
                    response.close()
                    raise Unanswered(f"the file has {error}") from None
                writer.end()
        return True

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
                raise ErrorStatus(read_refusal(response.status, response.body, response.headers), response.headers)
            described = parse_body(response.body)
            if not isinstance(described, dict):
                if not repeat:  # the endpoint may have accepted the batch
                    raise MalformedAnswer("no object", body_excerpt(response.body))
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
                if not repeat and (error.refusal.status >= SERVER_FAILED or error.refusal.status in MAY_BE_ACCEPTED):
                    raise UnclearSubmission(error.refusal.words) from None
                if scope_of(error.refusal) != "passing":
                    raise self._fault(error.refusal, what, unknown) from None
                if (limit := self.client.lasting_limit(error)) is not None:
                    raise limit from None
                wait = self.client.note_failure(error, attempt, stated_seconds(error))
            except (aiohttp.ClientError, TimeoutError, ConnectionError, MalformedAnswer, BodyTooLong) as error:
                if never_encrypted(error):
                    raise self.client.untrusted(error) from None
                if not repeat and not is_refused_connection(error):
                    raise UnclearSubmission(type(error).__name__) from None
                wait = self.client.note_failure(error, attempt, stated_seconds(error))
            if attempt < self.client.server.attempts:
                await wait_unless_shutdown(wait)
        raise Unanswered(f"{attempt} attempts to call {what} failed, last {self.client.last}")

    def _malformed(self, path: str, content: Any) -> UserError:
        """Return the error for an answer that does not have the form of OpenAI's batch API."""
        excerpt = body_excerpt(repr(content).encode())
        problem = f"{self.base}/{path} does not answer like OpenAI's batch API: {excerpt}"
        return UserError(f"{self.place}.batch", problem, "remove batch")

    def _fault(self, refusal: Refusal, what: str, unknown: str | None) -> UserError:
        """Return the error for a refused call. unknown: fix if the endpoint does not know what the call names."""
        problem = f"{self.base}/{what}: the server answers {refusal.status} ({refusal.message})"
        if refusal.status in {KEY_REFUSED, FORBIDDEN}:
            fix = "set the environment variable that key_env names to a key that may use files and batches"
            return UserError(self.place, problem, fix)
        if unknown is not None:
            return UserError(self.place, problem, unknown if refusal.status in UNKNOWN else KEEP_BATCH)
        if refusal.status in NOT_FOUND:
            return UserError(f"{self.place}.batch", problem, "remove batch if this endpoint has no batch API")
        return UserError(f"{self.place}.batch", problem, SEND_SINGLY)


def check_redirect(place: str, address: str) -> None:
    """Raise Unanswered for a redirect from https to http, or from elsewhere to this machine or its own network link.

    place: URL that is redirected to the URL `address`.
    """
    before, after = urlsplit(place), urlsplit(address)
    if after.scheme not in {"http", "https"} or (before.scheme, after.scheme) == ("https", "http"):
        raise Unanswered(
            f"a download is redirected from {before.scheme} to {after.scheme or 'no address'}, unencrypted"
        )
    if is_internal(after.hostname or "") and not is_internal(before.hostname or ""):
        problem = f"a download from {before.hostname} is redirected to this machine or its network ({after.hostname})"
        raise Unanswered(problem)


def is_internal(host: str) -> bool:
    """Return True if a host's name or address is that of this machine, or of its own network."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.rstrip(".").lower() == "localhost" or host.lower().endswith(".localhost")
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_private or address.is_loopback or address.is_link_local or address.is_unspecified


class PublicResolver(ThreadedResolver):
    """Resolver of host names that refuses the addresses of this machine and its network. Raises OSError for them."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = await super().resolve(host, port, family)
        if any(is_internal(entry["host"]) for entry in addresses):
            raise OSError(errno.EACCES, f"{host} is in this machine's own network")
        return addresses


def is_refused_connection(error: Exception) -> bool:
    """Return True if no connection was opened, so that nothing was sent."""
    return isinstance(error, aiohttp.ClientConnectorError)
