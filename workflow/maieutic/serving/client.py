"""One client for every OpenAI-compatible server: ours on a unix socket, or somebody else's at an address."""

from __future__ import annotations

import asyncio
import email.utils
import logging
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import openai
from openai import AsyncOpenAI
from openai.types import Completion
from openai.types.chat import ChatCompletion

from maieutic.core.errors import UserError
from maieutic.core.thinking import cut_at_stop, split_thinking
from maieutic.serving.connections import http_client

log = logging.getLogger(__name__)
FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
LONGEST_MESSAGE = 300
LONGEST_RETRY_AFTER = 3600.0
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


@dataclass(frozen=True)
class Server:
    """Where a model answers, and what it may be asked."""

    base_url: str
    model: str
    socket: str | None = None
    api_key: str = "none"  # never logged, never in a key
    timeout: float = 600.0
    attempts: int = 8
    concurrency: int = 256
    omit: tuple[str, ...] = ()
    extra_body: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What came back for one request; `error` is a permanent refusal, which is an answer too. Times in seconds.

    raw: the text as the server sent it, its inline reasoning included, where `text` differs; no_text: it sent none.
    """

    text: str
    reasoning: str | None
    finish: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    attempts: int
    error: str | None = None
    raw: str | None = None
    no_text: bool = False


class Unanswered(Exception):
    """Every attempt failed for a passing reason; a later run may ask again."""


Prepare = Callable[[dict[str, Any]], dict[str, Any]]


def as_it_is(request: dict[str, Any]) -> dict[str, Any]:
    """The request itself."""
    return request


class Gate:
    """Holds every request back until the time that the server's last Retry-After named."""

    def __init__(self) -> None:
        self.opens = 0.0

    def close_for(self, seconds: float) -> None:
        self.opens = max(self.opens, time.monotonic() + seconds)

    async def passed(self) -> None:
        while (wait := self.opens - time.monotonic()) > 0:
            await asyncio.sleep(wait + random.uniform(0, 0.05))


class Client:
    """Asks one server, at most `concurrency` requests at once, and tries again what failed for a passing reason."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.slots = asyncio.Semaphore(server.concurrency)
        self.gate = Gate()
        self.retries: dict[str, int] = {}
        self.api = AsyncOpenAI(
            base_url=server.base_url,
            api_key=server.api_key,
            max_retries=0,  # ours, below: they are counted, shared between requests, and not capped at a minute
            timeout=server.timeout,
            http_client=http_client(server.concurrency, server.socket, server.timeout),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self.api.close()

    async def ask(self, request: dict[str, Any], prepare: Prepare = as_it_is) -> Answer:
        """Send one request until it is answered. Raises Unanswered after the last attempt, UserError for a bad key.

        prepare: makes what is sent, once the request has its turn: pictures of waiting requests would fill the memory.
        """
        for attempt in range(1, self.server.attempts + 1):
            async with self.slots:
                await self.gate.passed()
                try:
                    return await self._once(prepare(request), attempt)
                except Exception as error:
                    if (refused := self._refusal(error, attempt)) is not None:
                        return refused
                    wait = self._note(error, attempt)
            if attempt < self.server.attempts:
                await asyncio.sleep(wait)
        raise Unanswered(f"no answer after {self.server.attempts} attempts")

    async def _once(self, request: dict[str, Any], attempt: int) -> Answer:
        """One attempt."""
        began = time.monotonic()
        body = {key: value for key, value in request.items() if key not in {"endpoint", *self.server.omit}}
        if not body.get("stop"):
            body.pop("stop", None)
        body |= {"model": self.server.model, "extra_body": self.server.extra_body}
        # The SDK's own limit does not cover a body that trickles in.
        async with asyncio.timeout(self.server.timeout):
            if request["endpoint"] == "chat":
                reply: Any = await self.api.chat.completions.create(**body)
            else:
                prompt = body.pop("messages")[0]["content"]
                if "response_format" in body:  # the server knows it here too, the SDK does not
                    body["extra_body"] = {**body["extra_body"], "response_format": body.pop("response_format")}
                reply = await self.api.completions.create(prompt=prompt, **body)
        return read_answer(reply, request["stop"], time.monotonic() - began, attempt)

    def _refusal(self, error: Exception, attempt: int) -> Answer | None:
        """The answer to record to a refusal of this request; raises UserError where every request would be refused."""
        if not isinstance(error, openai.APIStatusError) or not 300 <= error.status_code < 500:
            return None
        if error.status_code in PASSING:
            return None
        message = self._without_key(message_of(error))[:LONGEST_MESSAGE]
        if error.status_code not in ANSWERS or not is_refusal_of_one(message):
            raise UserError(
                self.server.base_url,
                f"the server answers {error.status_code} ({message})",
                "check base_url, the model's name and the key variable",
            ) from None
        return Answer("", None, "error", None, None, 0.0, attempt, error=f"{error.status_code}: {message}")

    def _without_key(self, text: str) -> str:
        """Some servers repeat the key that they refuse."""
        return text.replace(self.server.api_key, "[key]") if self.server.api_key != Server.api_key else text

    def _note(self, error: Exception, attempt: int) -> float:
        """Count a passing failure; return the seconds before the next attempt. Raises what is not passing."""
        asked = None
        if isinstance(error, openai.APIStatusError):
            kind = str(error.status_code)
            asked = retry_after(error)
        elif isinstance(error, openai.OpenAIError | MalformedAnswer | TimeoutError | ValueError):
            kind = type(error).__name__
        else:
            raise error
        self.retries[kind] = self.retries.get(kind, 0) + 1
        if self.retries[kind] in {1, 10, 100, 1000}:
            log.warning("%s: %s, try %d (%d so far)", self.server.base_url, kind, attempt, self.retries[kind])
        if asked is not None:  # the server's word, for everybody; our own wait only where it is longer
            self.gate.close_for(asked)
        wait = float(min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0))
        return wait if asked is None or asked < wait else 0.0


class MalformedAnswer(Exception):
    """The server said 200 and sent something that is no answer."""


def is_refusal_of_one(message: str) -> bool:
    """Whether a server's words are about this request and not about all of them."""
    return bool(REFUSED.search(message)) and not SWEEPING.search(message)


def message_of(error: openai.APIStatusError) -> str:
    """The server's own words on one line, however it wraps them (Gemini: in a list)."""
    try:
        body = error.response.json()
    except ValueError:
        body = None
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        body = body.get("error", body)
    parts = [body.get("code"), body.get("message")] if isinstance(body, dict) else [body]
    return (
        " ".join(" ".join(str(part) for part in parts if part and not isinstance(part, int)).split()) or error.message
    )


def retry_after(error: openai.APIStatusError) -> float | None:
    """Seconds that the server asks to wait, given as a number or as a date."""
    value = error.response.headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        when = email.utils.parsedate_tz(value)
        if when is None:
            return None
        seconds = email.utils.mktime_tz(when) - time.time()
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER) if seconds == seconds else None


def clean(text: str) -> str:
    """Lone surrogates cannot be stored as UTF-8; they become replacement characters."""
    return text.encode("utf-8", "replace").decode("utf-8")


def read_answer(reply: Any, stops: list[str], seconds: float, attempt: int) -> Answer:
    """Read a completion of either endpoint. Raises MalformedAnswer for a body without an answer."""
    if not isinstance(reply, Completion | ChatCompletion) or not reply.choices:
        raise MalformedAnswer("no choices")
    choice = reply.choices[0]
    content: Any
    if isinstance(reply, ChatCompletion):
        message: Any = getattr(choice, "message", None)
        if message is None:
            raise MalformedAnswer("no message")
        content = message.content if isinstance(message.content, str) else ""
        reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    else:
        content, reasoning = getattr(choice, "text", None), None
        if not isinstance(content, str):
            raise MalformedAnswer("no text")
    sent = clean(content)
    text, thought = split_thinking(sent)
    thoughts = [clean(reasoning)] if isinstance(reasoning, str) and reasoning else []
    if thoughts:
        text = text.lstrip()
    thoughts += [thought] if thought else []
    usage = reply.usage
    cut = cut_at_stop(text, stops)
    # What a server could not be told to stop at is cut from the raw text too: the released request would end there.
    raw = sent.removesuffix(text) + cut if sent.endswith(text) else sent
    return Answer(
        text=cut,
        raw=None if raw == cut else raw,
        no_text=isinstance(reply, ChatCompletion) and not isinstance(reply.choices[0].message.content, str),
        reasoning="\n".join(thoughts) or None,
        finish=choice.finish_reason,
        prompt_tokens=usage.prompt_tokens if usage else None,
        completion_tokens=usage.completion_tokens if usage else None,
        seconds=round(seconds, 4),
        attempts=attempt,
    )
