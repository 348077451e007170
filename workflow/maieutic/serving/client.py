"""One client for every OpenAI-compatible server: ours on a unix socket, or somebody else's at an address."""

from __future__ import annotations

import asyncio
import email.utils
import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from maieutic.core.ending import ENDING
from maieutic.core.errors import UserError
from maieutic.core.journal import REPEAT, digest
from maieutic.core.secrets import headers_of, redacted, use_key
from maieutic.serving.answers import Answer, MalformedAnswer, json_of, read_answer
from maieutic.serving.connections import TooLong, get, post, session_of
from maieutic.serving.refusals import (
    KEY,
    KEY_REFUSED,
    MONEY,
    NO_MONEY,
    WRONG_MODEL,
    Refusal,
    Remedy,
    as_fix,
    error_in,
    read_refusal,
    remedy_of,
    scope_of,
)
from maieutic.serving.responses import as_chat_answer, as_response_request
from maieutic.serving.unheeded import Watcher

log = logging.getLogger(__name__)
FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
LONGEST_TLS = 200  # characters of why no encrypted connection can be made
NO_TLS = {
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "HTTP_REQUEST",
}  # OpenSSL's reasons for an answer in plain HTTP
OTHER_HOST = re.compile(r"hostname|doesn't match|not valid for", re.IGNORECASE)
LONGEST_LAST = 120  # characters of a server's words that stand in for why a request stayed unanswered
FIRST = 8  # requests in flight at somebody else's endpoint until it has answered one
ENOUGH = 3  # refusals in a row after which a probe is sent although others were answered; doubled each time
AFFORDABLE = re.compile(r"can only afford (\d+)")  # OpenRouter counts the longest possible answer
MOST_REMEDIES = 5  # changes of an entry that are tried one after the other
MODELS_SHOWN = 8
LONGEST_DATE = 64  # characters
LOOK_SECONDS = 0.5  # within which who waits notices that the job is to end
TOLD = "the job was told to end"
SAID_WAIT = 5.0  # seconds: a longer wait that the server asks for is said
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
    thinking: dict[str, object] = field(default_factory=dict)  # fields that the entry's `thinking` adds
    patience: float = 3600.0  # seconds that one Retry-After may make everybody wait
    longest: int = 32 << 20  # bytes of an answer's body
    name: str = ""  # of the entry
    max_tokens_as: str = "max_tokens"
    thinking_tokens: int = 0  # in every request's bound, beside the entry's max_tokens


class Unanswered(Exception):
    """Every attempt failed for a passing reason; a later run may ask again."""


class Interrupted(Unanswered):
    """The job has been told to end: what is asked already is waited for, nothing else is asked."""


class Failed(Exception):
    """A status that is no answer, or an error within a status 200."""

    def __init__(self, refusal: Refusal, headers: Mapping[str, str]) -> None:
        super().__init__(str(refusal.status))
        self.refusal, self.headers = refusal, headers


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
        self.fault: UserError | None = None  # why nothing else is asked
        self.deciding = asyncio.Lock()
        # Few at once until the endpoint has answered one: the others would be refused in vain. Our own servers answer.
        self.few = asyncio.Semaphore(FIRST if server.socket is None else server.concurrency)
        self.opened = server.socket is not None
        self.answered: set[str] = set()  # parameters under which a request was answered
        self.in_a_row, self.enough = 0, ENOUGH  # refusals since the last answer, and how many call for a probe
        self.probes: dict[str, asyncio.Task[Refusal | None]] = {}
        self.asides: list[Answer] = []  # to probes, to be counted
        # Azure answers under the model's name, and is asked under that of a deployment.
        self.watcher = Watcher(not str(urlsplit(server.base_url).hostname).endswith(".azure.com"))
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
            async with self.slots, self.few:
                await self.gate.passed()
                if ENDING.is_set:
                    raise Interrupted(TOLD)
                if self.fault is not None:
                    raise self.fault
                try:
                    answer = await self._once(prepare(request), attempt)
                    self._note_answer(request)
                    return answer
                except Exception as error:
                    if (refused := await self._refusal(error, attempt, request)) is not None:
                        return refused
                    wait = self._note(error, attempt)
            if attempt < self.server.attempts:
                await pause(wait)
        raise Unanswered(f"{self.last} at try {attempt}")

    def _note_answer(self, request: dict[str, Any]) -> None:
        """Note that requests with these parameters are answered."""
        self.answered.add(parameters_of(request))
        self.in_a_row = 0
        self._open()

    def _open(self) -> None:
        """Let as many requests through as there are slots."""
        if not self.opened:
            self.opened = True
            for _ in range(self.server.concurrency):
                self.few.release()

    async def _once(self, request: dict[str, Any], attempt: int, server: Server | None = None) -> Answer:
        """One attempt. Raises Failed for a status that is no answer. server: with other settings than the job's."""
        server, endpoint = server or self.server, request["endpoint"]
        if self.session is None:
            self.session = session_of(server.concurrency, server.socket, server.timeout, server.api_key)
        began = time.monotonic()
        url = f"{server.base_url.rstrip('/')}/{ADDRESSES[endpoint]}"
        body = body_of(server, request)
        response = await post(self.session, url, body, server.longest)
        if not 200 <= response.status < 300:
            raise Failed(read_refusal(response.status, response.body), response.headers)
        said = json_of(response.body)
        if (failure := error_in(said)) is not None:
            raise Failed(failure, response.headers)
        if endpoint == "responses":
            said = as_chat_answer(said)
        stops = request.get("stop") or []
        answer = read_answer(said, endpoint != "completions", stops, time.monotonic() - began, attempt)
        if server.socket is None:  # our own servers do as they are told
            for line in self.watcher.see(request, body, said, answer):
                log.warning("%s: %s", server.name or server.base_url, line)
        return answer

    async def _refusal(self, error: Exception, attempt: int, request: dict[str, Any]) -> Answer | None:
        """Return the answer to record for a request that is refused alone, or None for a passing failure.

        Raises UserError where every request would be refused.
        """
        if never_encrypted(error):
            self.fault = self.fault or self._untrusted(error)
            raise self.fault from None
        if not isinstance(error, Failed):
            return None
        refusal = error.refusal
        scope = scope_of(refusal, "Retry-After" in error.headers)
        if scope == "passing":
            return None
        if scope == "unsure":
            scope = "one" if await self._refused_alone(request) else "all"
        if scope == "one":
            self._open()
            return Answer("", None, "error", None, None, 0.0, attempt, error=refusal.words)
        async with self.deciding:  # the others keep their places meanwhile, so that nothing else is asked
            if self.fault is None:
                self.fault = await self._fault_of(refusal, request)
        raise self.fault from None

    def _untrusted(self, error: Exception) -> UserError:
        """Return the line that ends the job, for an error of which `never_encrypted` is true."""
        place = f"models.{self.server.name}" if self.server.name else self.server.base_url
        cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
        words = redacted(" ".join(str(cause).split()))[:LONGEST_TLS]
        if not isinstance(error, aiohttp.ClientConnectorCertificateError):
            fix = "write http:// in base_url where the server speaks no TLS"
        elif OTHER_HOST.search(words):
            fix = "write into base_url the host name that the server's certificate has"
        elif "expired" in words:
            fix = "have the server's certificate renewed, or set this machine's clock"
        else:
            fix = "export SSL_CERT_FILE=FILE with the certificate of the authority that signed the server's"
        return UserError(place, f"{self.server.base_url}: no encrypted connection: {words}", fix)

    async def _refused_alone(self, request: dict[str, Any]) -> bool:
        """Return whether others with the same parameters are answered: lately, or a short probe now.

        Requests that are refused at the same time share a probe.
        """
        parameters = parameters_of(request)
        self.in_a_row += 1
        if parameters in self.answered and self.in_a_row < self.enough:
            return True
        probe = self.probes.get(parameters)
        if probe is None:
            probe = self.probes[parameters] = asyncio.create_task(self._probe(probe_of(request)))
        try:
            refused = await asyncio.shield(probe)
        finally:
            if probe.done():
                self.probes.pop(parameters, None)
        if refused is None and self.in_a_row:
            self.answered.add(parameters)
            self.in_a_row, self.enough = 0, 2 * self.enough
        return refused is None

    async def _probe(self, request: dict[str, Any]) -> Refusal | None:
        """Send a short request until it is answered or refused; return the refusal.

        Raises Unanswered after all tries.
        """
        for attempt in range(1, self.server.attempts + 1):
            try:
                self.asides.append(await self._once(request, attempt))
                return None
            except Exception as error:
                if isinstance(error, Failed) and scope_of(error.refusal, "Retry-After" in error.headers) != "passing":
                    return error.refusal
                wait = self._note(error, attempt)
            await pause(wait)
        raise Unanswered(f"{self.last} at try {attempt} of a probe")

    async def _fault_of(self, refusal: Refusal, request: dict[str, Any]) -> UserError:
        """Return the line that ends the job: the endpoint's words, and the keys of the entry that help."""
        place = f"models.{self.server.name}" if self.server.name else self.server.base_url
        problem = f"the server answers {refusal.status} ({refusal.message})"
        if self.server.name and self.server.socket is None:
            problem = f"{self.server.base_url}: {problem}"
        return UserError(place, problem, await self._fix_of(refusal, request))

    async def _fix_of(self, refusal: Refusal, request: dict[str, Any]) -> str:
        """Return what to do about a refusal of every request."""
        if refusal.status == NO_MONEY or MONEY.search(refusal.message):
            least = AFFORDABLE.search(refusal.message)
            most = int(least[1]) - self.server.thinking_tokens if least else 0
            other = f", or set max_tokens: {most}" if most > 0 else ""
            return f"add credit to the account behind the key{other}, then run again: only what is missing is asked"
        if refusal.status == KEY_REFUSED or KEY.search(refusal.message):
            if self.server.api_key is None:
                return "set key_env: MY_API_KEY, a name of your own, and export MY_API_KEY=..."
            return "put a valid key into the environment variable that key_env names"
        if remedies := await self._remedies(refusal, request):
            return f"set {as_fix(remedies)}"
        missing = refusal.status in NOT_THERE or WRONG_MODEL.search(refusal.message) is not None
        if missing and (models := await self._models()) and self.server.model not in models:
            shown = ", ".join(models[:MODELS_SHOWN]) + (", ..." if len(models) > MODELS_SHOWN else "")
            return f"set model to one that the endpoint lists: {shown}"
        fix = "check base_url, the model's name and the key variable"
        if request["endpoint"] == "completions" and refusal.status in NOT_THERE:
            fix += ", and set endpoint: chat where the model takes no raw completions"
        return fix

    async def _remedies(self, refusal: Refusal, request: dict[str, Any]) -> list[Remedy]:
        """Return the changes of the entry that the endpoint asks for, one by one, until a probe is answered."""
        remedies: list[Remedy] = []
        server, probe = self.server, probe_of(request)
        while len(remedies) < MOST_REMEDIES:
            remedy = remedy_of(refusal, probe["endpoint"], body_of(server, probe), server.extra_body, server.thinking)
            if remedy is None or remedy in remedies or remedy.key in {key for key, _ in remedies} - {"omit"}:
                break
            server, probe = changed(server, probe, remedy)
            if remedy.key == "max_tokens":  # the entry's own share of the bound
                remedy = Remedy("max_tokens", max(remedy.value - server.thinking_tokens, 1))
            remedies.append(remedy)
            try:
                self.asides.append(await self._once(probe, 1, server))
                break
            except Failed as error:
                refusal = error.refusal
            except Exception:  # whatever else fails now says nothing of the entry
                break
        return remedies

    async def _models(self) -> list[str]:
        """Return the models that the endpoint lists; none where it lists none."""
        assert self.session is not None
        try:
            base, longest = self.server.base_url.rstrip("/"), self.server.longest
            response = await get(self.session, f"{base}/models", longest, headers_of(base, self.server.api_key))
            entries = json_of(response.body).get("data", [])
            return sorted(str(entry["id"]) for entry in entries)
        except Exception:  # a list is a help, and no part of the answer
            return []

    def _note(self, error: Exception, attempt: int) -> float:
        """Count a passing failure; return the seconds before the next attempt. Raises what is not passing."""
        asked, words = None, ""
        if isinstance(error, Failed):
            status, _, message = error.refusal
            kind = f"{status}" if message == f"HTTP {status}" else f"{status} {message[:LONGEST_LAST]}"
            asked = retry_after(error.headers, self.server.patience)
        elif isinstance(error, MalformedAnswer | TooLong):
            kind = f"{type(error).__name__} ({error})"
            words = getattr(error, "words", "")
        elif isinstance(error, aiohttp.ClientError | TimeoutError | ConnectionError):
            kind = type(error).__name__
        else:
            raise error
        kind = redacted(kind)
        self.last = f"{kind}: {words}" if words else kind
        self.retries[kind] = self.retries.get(kind, 0) + 1
        if self.retries[kind] in {1, 10, 100, 1000}:
            log.warning("%s: %s, try %d (%d so far)", self.server.base_url, self.last, attempt, self.retries[kind])
        # The server's word, for everybody; our own wait only where it is longer.
        if asked is not None and self.gate.close_for(asked):
            until = time.strftime("%H:%M:%S", time.localtime(time.time() + asked))
            log.warning("%s asks to wait: nothing is asked until %s (patience)", self.server.base_url, until)
        wait = float(min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0))
        return wait if asked is None or asked < wait else 0.0


def never_encrypted(error: Exception) -> bool:
    """Return whether no later try makes an encrypted connection: a certificate fails, or the server speaks no TLS.

    A handshake that breaks off fails in passing.
    """
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return True
    return isinstance(error, aiohttp.ClientConnectorSSLError) and getattr(error.os_error, "reason", None) in NO_TLS


def body_of(server: Server, request: dict[str, Any]) -> dict[str, Any]:
    """Return what is sent for a request: without what the server refuses, with what the registry entry adds."""
    body = {key: value for key, value in request.items() if key not in {"endpoint", REPEAT, *server.omit}}
    if not body.get("stop"):
        body.pop("stop", None)
    if "max_tokens" in body and request["endpoint"] != "responses":
        body[server.max_tokens_as] = body.pop("max_tokens")
    if request["endpoint"] == "completions":
        body["prompt"] = body.pop("messages")[0]["content"]
    if request["endpoint"] == "responses":
        body = as_response_request(body)
    return {**body, "model": server.model, **server.thinking, **server.extra_body}


def parameters_of(request: Mapping[str, Any]) -> str:
    """Return what an unsupported parameter would be among: all of a request but its texts, pictures and seed."""
    roles = [message["role"] for message in request["messages"]]
    kept = {key: value for key, value in request.items() if key not in {"messages", "seed", REPEAT}}
    return digest({**kept, "roles": [roles[0], roles[-1]]})


def probe_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a short request with the same parameters and the same first and last speaker, without pictures."""
    roles = [message["role"] for message in request["messages"]]
    texts = {"system": "You are a tutor.", "user": "What is 2 + 2?", "assistant": "2 + 2 is"}
    shown = [roles[0]]
    if len(roles) > 1:
        shown += ["user"] if roles[0] != "user" else []
        shown += ["assistant"] if roles[-1] == "assistant" else []
    messages = [{"role": role, "content": texts[role]} for role in shown]
    if len(shown) == 1:
        messages = [{"role": roles[0], "content": texts["user"]}]
    return {**{key: value for key, value in request.items() if key != REPEAT}, "messages": messages}


def changed(server: Server, probe: dict[str, Any], remedy: Remedy) -> tuple[Server, dict[str, Any]]:
    """Return server and probe as an entry with a change would have them."""
    key, value = remedy
    if key == "omit":
        return replace(server, omit=(*server.omit, *value)), probe
    if key == "max_tokens_as":
        return replace(server, max_tokens_as=value), probe
    if key == "extra_body":
        return replace(server, extra_body=value), probe
    if key == "thinking":
        return replace(server, thinking={}), probe
    if key == "thinking_tokens":
        return server, {**probe, "max_tokens": probe["max_tokens"] + value}
    if key == "prompt_role":
        text = " ".join(message["content"] for message in probe["messages"])
        return server, {**probe, "messages": [{"role": "user", "content": text}]}
    if key == "user_last":
        kept = [message for message in probe["messages"] if message["role"] != "assistant"]
        return server, {**probe, "messages": kept}
    if key == "structured":
        return server, {name: kept for name, kept in probe.items() if name != "response_format"}
    return server, {**probe, key: value}


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
