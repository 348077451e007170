"""One client for every OpenAI-compatible server: ours on a unix socket, or somebody else's at an address."""

from __future__ import annotations

import asyncio
import email.utils
import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from maieutic.core.ending import ENDING
from maieutic.core.errors import UserError
from maieutic.core.journal import REPEAT
from maieutic.core.secrets import redacted, use_key
from maieutic.serving.answers import Answer, MalformedAnswer, json_of, read_answer, refusal_of
from maieutic.serving.connections import Response, TooLong, post, session_of
from maieutic.serving.responses import as_chat_answer, as_response_request

log = logging.getLogger(__name__)
FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
LONGEST_MESSAGE = 300
LONGEST_DATE = 64  # characters
LOOK_SECONDS = 0.5  # within which who waits notices that the job is to end
TOLD = "the job was told to end"
SAID_WAIT = 5.0  # seconds: a longer wait that the server asks for is said
PASSING = frozenset({408, 409, 425, 429})  # asking again may help
# Refusals of this one request, for good, in the words of the servers that we know: it is too long, or its content is
# filtered. They are recorded as its answer. Any other refusal would meet every request, and ends the job.
REFUSED = re.compile(
    r"context.?(?:length|window|size|limit)|maximum context|too many (?:input )?tokens|less than \d+ `?tokens"
    r"|(?:prompt|inputs?|messages?|text|request)\b.{0,80}\b(?:too (?:long|large)|longer than|exceeds?)"
    r"|(?:input|prompt) token count.{0,60}exceeds|exceeds the maximum number of tokens|max_new_tokens`? must be <="
    r"|content.?(?:filter|policy|management)|inappropriate content|content exists risk|violates? our (?:usage )?polic",
    re.IGNORECASE,
)
# ... unless it is about a parameter or an account.
SWEEPING = re.compile(
    r"unsupported|not supported|unknown parameter|unrecognized|extra inputs|invalid (?:parameter|value|api)|header"
    r"|account|billing|credit|quota|api.?key|max_(?:completion_)?tokens.{0,20}too (?:large|high)",
    re.IGNORECASE,
)
ANSWERS = frozenset({400, 413, 422})
NOT_THERE = frozenset({400, 404, 405, 501})
ADDRESSES = {"chat": "chat/completions", "completions": "completions", "responses": "responses"}


@dataclass(frozen=True)
class Server:
    """Where a model answers, and what it may be asked."""

    base_url: str
    model: str
    socket: str | None = None
    api_key: str | None = None  # never logged, never in a key
    timeout: float = 600.0
    attempts: int = 8
    concurrency: int = 256
    omit: tuple[str, ...] = ()
    extra_body: dict[str, object] = field(default_factory=dict)
    patience: float = 3600.0  # seconds that one Retry-After may make everybody wait
    longest: int = 32 << 20  # bytes of an answer's body


class Unanswered(Exception):
    """Every attempt failed for a passing reason; a later run may ask again."""


class Interrupted(Unanswered):
    """The job has been told to end: what is asked already is waited for, nothing else is asked."""


class Failed(Exception):
    """A status that is no answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(str(response.status))
        self.response = response


Prepare = Callable[[dict[str, Any]], dict[str, Any]]


def as_it_is(request: dict[str, Any]) -> dict[str, Any]:
    """The request itself."""
    return request


class Gate:
    """Holds every request back until the time that the server's last Retry-After named."""

    def __init__(self) -> None:
        self.opens = 0.0

    def close_for(self, seconds: float) -> bool:
        """Hold back for so many seconds from now. Whether that is longer than before, by what is worth saying."""
        before, until = self.opens, time.monotonic() + seconds
        self.opens = max(before, until)
        return until - max(before, time.monotonic()) > SAID_WAIT

    async def passed(self) -> None:
        while (wait := self.opens - time.monotonic()) > 0:
            await pause(wait + random.uniform(0, 0.05))


async def pause(seconds: float) -> None:
    """Wait, and no longer than until the job is told to end. Raises Interrupted then."""
    until = time.monotonic() + seconds
    while not ENDING.is_set:
        left = until - time.monotonic()
        if left <= 0:
            return
        await asyncio.sleep(min(left, LOOK_SECONDS))
    raise Interrupted(TOLD)


class Client:
    """Asks one server, at most `concurrency` requests at once, and tries again what failed for a passing reason."""

    def __init__(self, server: Server) -> None:
        self.server = server
        if server.api_key:
            use_key(server.api_key)
        self.slots = asyncio.Semaphore(server.concurrency)
        self.gate = Gate()
        self.retries: dict[str, int] = {}
        self.last = ""  # kind of the last failure
        self.session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self.session is not None:
            await self.session.close()

    async def ask(self, request: dict[str, Any], prepare: Prepare = as_it_is) -> Answer:
        """Send one request until it is answered. Raises Unanswered after the last attempt, UserError for a bad key.

        prepare: makes what is sent, once the request has its turn: pictures of waiting requests would fill the memory.
        """
        for attempt in range(1, self.server.attempts + 1):
            async with self.slots:
                await self.gate.passed()
                if ENDING.is_set:
                    raise Interrupted(TOLD)
                try:
                    return await self._once(prepare(request), attempt)
                except Exception as error:
                    if (refused := self._refusal(error, attempt, request["endpoint"])) is not None:
                        return refused
                    wait = self._note(error, attempt)
            if attempt < self.server.attempts:
                await pause(wait)
        raise Unanswered(f"{self.last} at try {attempt}")

    async def _once(self, request: dict[str, Any], attempt: int) -> Answer:
        """One attempt. Raises Failed for a status that is no answer."""
        server, endpoint = self.server, request["endpoint"]
        if self.session is None:
            self.session = session_of(server.concurrency, server.socket, server.timeout, server.api_key)
        began = time.monotonic()
        url = f"{server.base_url.rstrip('/')}/{ADDRESSES[endpoint]}"
        response = await post(self.session, url, self._body(request), server.longest)
        if not 200 <= response.status < 300:
            raise Failed(response)
        said = json_of(response.body)
        if endpoint == "responses":
            said = as_chat_answer(said)
        return read_answer(said, endpoint != "completions", request["stop"], time.monotonic() - began, attempt)

    def _body(self, request: dict[str, Any]) -> dict[str, Any]:
        """What is sent for a request: without what the server refuses, with what the registry entry adds."""
        body = {key: value for key, value in request.items() if key not in {"endpoint", REPEAT, *self.server.omit}}
        if not body.get("stop"):
            body.pop("stop", None)
        if request["endpoint"] == "completions":
            body["prompt"] = body.pop("messages")[0]["content"]
        if request["endpoint"] == "responses":
            body = as_response_request(body)
        return {**body, "model": self.server.model, **self.server.extra_body}

    def _refusal(self, error: Exception, attempt: int, endpoint: str) -> Answer | None:
        """The answer to record to a refusal of this request; raises UserError where every request would be refused."""
        if not isinstance(error, Failed) or not 300 <= error.response.status < 500:
            return None
        status = error.response.status
        if status in PASSING:
            return None
        message = redacted(refusal_of(error.response.body, f"HTTP {status}"))[:LONGEST_MESSAGE]
        if status not in ANSWERS or not is_refusal_of_one(message):
            fix = "check base_url, the model's name and the key variable"
            if endpoint == "completions" and status in NOT_THERE:
                fix += ", and set endpoint: chat where the model takes no raw completions"
            raise UserError(self.server.base_url, f"the server answers {status} ({message})", fix) from None
        return Answer("", None, "error", None, None, 0.0, attempt, error=f"{status}: {message}")

    def _note(self, error: Exception, attempt: int) -> float:
        """Count a passing failure; return the seconds before the next attempt. Raises what is not passing."""
        asked = None
        if isinstance(error, Failed):
            kind = str(error.response.status)
            asked = retry_after(error.response.headers, self.server.patience)
        elif isinstance(error, MalformedAnswer | TooLong):
            kind = f"{type(error).__name__} ({error})"
        elif isinstance(error, aiohttp.ClientError | TimeoutError | ConnectionError):
            kind = type(error).__name__
        else:
            raise error
        kind = self.last = redacted(kind)
        self.retries[kind] = self.retries.get(kind, 0) + 1
        if self.retries[kind] in {1, 10, 100, 1000}:
            log.warning("%s: %s, try %d (%d so far)", self.server.base_url, kind, attempt, self.retries[kind])
        # The server's word, for everybody; our own wait only where it is longer.
        if asked is not None and self.gate.close_for(asked):
            until = time.strftime("%H:%M:%S", time.localtime(time.time() + asked))
            log.warning("%s asks to wait: nothing is asked until %s (patience)", self.server.base_url, until)
        wait = float(min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0))
        return wait if asked is None or asked < wait else 0.0


def is_refusal_of_one(message: str) -> bool:
    """Whether a server's words are about this request and not about all of them."""
    return bool(REFUSED.search(message)) and not SWEEPING.search(message)


def retry_after(headers: Mapping[str, str], patience: float) -> float | None:
    """Seconds that the server asks to wait, as a number or a date, from 0 to `patience`; None where it asks nothing."""
    value = headers.get("Retry-After")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        when = email.utils.parsedate_tz(value[:LONGEST_DATE])
        if when is None:
            return None
        try:
            seconds = email.utils.mktime_tz(when) - time.time()
        except (ValueError, OverflowError):  # a year that no clock reaches
            seconds = patience
    return min(max(seconds, 0.0), patience) if seconds == seconds else None
