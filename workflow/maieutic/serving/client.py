"""Client for any OpenAI-compatible server: a local one on a unix socket, or a hosted endpoint at a URL."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import aiohttp

from maieutic.core.errors import UserError
from maieutic.core.journal import REPEAT, canonical_digest
from maieutic.core.secrets import model_list_headers, redact, register_sent_key
from maieutic.core.shutdown import SHUTDOWN
from maieutic.core.states import CONTENT_FILTER, FAILED_MARK, FILTERED_MARK
from maieutic.serving.answers import (
    Answer,
    InterruptedAnswer,
    MalformedAnswer,
    NoCandidate,
    Usage,
    parse_body,
    usage_of,
)
from maieutic.serving.budget import Purse, Reservation
from maieutic.serving.connections import BodyTooLong, Response, get, open_session, post
from maieutic.serving.refusals import (
    ACCOUNT_PHRASES,
    KEY_PHRASES,
    KEY_REFUSED,
    OVERLOAD_PHRASES,
    PAYMENT_REQUIRED,
    WRONG_MODEL_PHRASES,
    Refusal,
    Remedy,
    error_in,
    keys_to_set,
    read_refusal,
    remedy_of,
    scope_of,
)
from maieutic.serving.responses import as_response_request, parse_reply
from maieutic.serving.silent_changes import SilentChangeWatcher
from maieutic.serving.waits import Wait

log = logging.getLogger(__name__)
FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
LONGEST_TLS = 200  # maximum length of a TLS error in an error message
# OpenSSL's reasons for a handshake that failed because the server answers in plain HTTP
NO_TLS = {
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "HTTP_REQUEST",
}
HOST_MISMATCH = re.compile(r"hostname|doesn't match|not valid for", re.IGNORECASE)
LONGEST_FAILURE_REASON = 120  # maximum length of a server's message that is logged as the reason for a failure
FIRST_REQUESTS = 8  # maximum number of requests in flight to a hosted endpoint before its first answer
AFFORDABLE_TOKENS = re.compile(r"can only afford (\d+)")  # OpenRouter's refusal if the credit does not pay max_tokens
MOST_REMEDIES = 5  # maximum number of changes to a registry entry that are tried, each on top of the previous ones
MODELS_SHOWN = 8
LONGEST_STATED = 31 * 86400.0  # seconds; a longer wait is shown as this one
SHORTEST_DAY = 60.0  # a limit per day with a shorter delay than this ends at another hour, which is not stated
DAYS_END = {"googleapis.com": ZoneInfo("America/Los_Angeles")}  # whose midnight ends a provider's day
SILENT_AFTER = 4  # number of failures in a row after which one request alone is sent at a time
MOST_ALIENS = 3  # number of answers that cannot be read after which a probe decides about the job
MOST_WAITS = 8  # number of stated waits of one request that delay all others
BLANK_ANSWERS = 3  # number of answers in a row without a candidate after which a prompt counts as blocked
EVENT = re.compile(r"(?:^|\s)(?:data|event):\s")  # of an event stream
SHUTDOWN_CHECK_SECONDS = 0.5  # interval at which a waiting request checks whether the job is shutting down
SHUTDOWN_REASON = "the job is shutting down"
LOGGED_WAIT = 5.0  # a stated wait is logged if it delays requests by more than this many additional seconds
# Statuses of a proxy that did not wait for the model's answer, which may be billed all the same
GAVE_UP_WAITING = frozenset({408, 499, 502, 504, 524})
NOT_FOUND_STATUS = frozenset({400, 404, 405, 501})
ADDRESSES = {"chat": "chat/completions", "completions": "completions", "responses": "responses"}


@dataclass(frozen=True)
class ServerSettings:
    """Address of a model's server, and settings of the requests to it."""

    base_url: str
    model: str
    socket: str | None = None
    api_key: str | None = None  # must not be logged, or become part of a request key
    timeout: float = 600.0
    attempts: int = 8
    concurrency: int = 256
    omit: tuple[str, ...] = ()
    extra_body: dict[str, object] = field(default_factory=dict)
    thinking: dict[str, object] = field(default_factory=dict)  # request fields from the registry entry's `thinking`
    patience: float = 3600.0  # maximum delay, in seconds, that the endpoint may ask for
    longest: int = 32 << 20  # maximum size of a response body in bytes
    name: str = ""  # name of the registry entry
    max_tokens_as: str = "max_tokens"
    thinking_tokens: int = 0  # number of tokens for thinking, which are added to the entry's max_tokens in each request


class Unanswered(Exception):
    """Error for a request that failed at every attempt for transient reasons. A later run may send it again.

    later: True if it was sent, and a later run collects the answer; sent: False if it was not sent.
    """

    later, sent = False, True


class Pending(Unanswered):
    """Error for a request in a batch whose answers are not there yet. A later run collects the answer."""

    later = True


class Interrupted(Unanswered):
    """Error for a request that is not sent because the job is ending. Requests in flight are still answered."""

    sent = False


class OverBudget(Interrupted):
    """Error for a request that the rest of the run's budget does not pay."""


class ErrorStatus(Exception):
    """Error for a response with an error status, or with status 200 and an error in its body."""

    def __init__(self, refusal: Refusal, headers: Mapping[str, str]) -> None:
        super().__init__(str(refusal.status))
        self.refusal, self.headers = refusal, headers


Prepare = Callable[[dict[str, Any]], dict[str, Any]]


def unchanged_request(request: dict[str, Any]) -> dict[str, Any]:
    """Return the request unchanged."""
    return request


class RateLimitGate:
    """Gate that delays all requests until the time that the endpoint states."""

    def __init__(self) -> None:
        self.opens = 0.0

    def close_for(self, seconds: float) -> bool:
        """Delay requests until `seconds` from now. Return True if this extends the delay enough to be logged."""
        before, until = self.opens, time.monotonic() + seconds
        self.opens = max(before, until)
        return until - max(before, time.monotonic()) > LOGGED_WAIT

    async def wait_until_open(self) -> None:
        while (wait := self.opens - time.monotonic()) > 0:
            await wait_unless_shutdown(wait + random.uniform(0, 0.05))


async def wait_unless_shutdown(seconds: float) -> None:
    """Wait for `seconds`. Raises Interrupted as soon as the job begins to shut down."""
    until = time.monotonic() + seconds
    while not SHUTDOWN.is_set:
        left = until - time.monotonic()
        if left <= 0:
            return
        await asyncio.sleep(min(left, SHUTDOWN_CHECK_SECONDS))
    raise Interrupted(SHUTDOWN_REASON)


class Client:
    """Client of one server, with at most `concurrency` requests at once. Transient failures are retried."""

    def __init__(self, server: ServerSettings, purse: Purse | None = None) -> None:
        """purse: purse of the run's budget, from which every try is paid."""
        self.server, self.purse = server, purse
        if server.api_key:
            register_sent_key(server.api_key)
        self.slots = asyncio.Semaphore(server.concurrency)
        self.gate = RateLimitGate()
        self.retries: dict[str, int] = {}
        self.last = ""  # kind of the last failure
        self.fault: UserError | None = None  # error that ends the job; after it no further request is sent
        self.deciding = asyncio.Lock()
        # Send only a few requests until a hosted endpoint has answered one: if the registry entry is wrong, all fail.
        self.first_slots = asyncio.Semaphore(FIRST_REQUESTS if server.socket is None else server.concurrency)
        self.all_slots_open = server.socket is not None
        self.sent = self.newest_answered = 0  # numbers of the last request, and of the last one that was answered
        self.failures_in_row = 0  # number of failures and refusals since the last answer
        self.probe_failure = Exception()  # of the last short request that was not answered
        self.good: tuple[dict[str, Any], Prepare] | None = None  # a request that was answered
        self.aliens = 0  # number of answers that could not be read
        self.lone = asyncio.Lock()  # held by the only request that is sent while no request is answered
        self.answers = 0  # number of answered requests and probes
        self.checks: dict[str, asyncio.Task[bool]] = {}  # probes in flight, by the parameters of their requests
        self.probes: dict[str, asyncio.Task[Refusal | None]] = {}
        self.probe_answers: list[Answer] = []  # answers to probes, kept so that their tokens are counted
        self.failed_usage: list[Usage] = []  # what the endpoint reported for failed tries, which it bills as well
        # Azure's requests name the deployment, but its answers name the model: do not compare the two.
        self.watcher = SilentChangeWatcher(not str(urlsplit(server.base_url).hostname).endswith(".azure.com"))
        self.session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self.session is not None:
            await self.session.close()

    async def ask(self, request: dict[str, Any], prepare: Prepare = unchanged_request) -> Answer:
        """Send one request, with retries, until it is answered.

        prepare: function that converts the request just before it is sent, so that memory need not contain the pictures
        of all waiting requests.

        A wait that the endpoint states uses no attempt. If all attempts are used while other requests are answered,
        the request itself fails, which is its answer.

        Raises Unanswered after the last attempt, and UserError if every request would be refused, or none is answered.
        """
        attempt, tries, waited, blank, alone = 0, 0, 0.0, 0, Failures()
        is_lone = False  # holds `lone`, and alone asks while no request is answered
        try:
            while tries < self.server.attempts:
                if tries > 1 and self.answers and alone.lacks_answer(self.answers):
                    alone.are_others_answered = await self.answers_now(request)
                if alone.waits >= MOST_WAITS and self.answers == alone.failed_at:
                    await self.answers_now(request)
                if self.is_silent and not is_lone:
                    await self.lone.acquire()
                    is_lone = self.is_silent
                    if not is_lone:
                        self.lone.release()
                async with self.slots, self.first_slots:
                    await self.gate.wait_until_open()
                    if SHUTDOWN.is_set:
                        raise Interrupted(SHUTDOWN_REASON)
                    if self.fault is not None:
                        raise self.fault
                    if self.is_silent and not is_lone:
                        continue
                    attempt += 1
                    self.sent = number = self.sent + 1
                    try:
                        answer = await self._once(prepare(request), attempt)
                        self.note_answer(number)
                        self.good = request, prepare
                        return answer
                    except Exception as error:
                        self.failures_in_row += not isinstance(error, Unanswered)
                        self.aliens += is_alien(error)
                        # An endpoint in trouble may answer without a candidate; a blocked prompt always does.
                        blank = blank + 1 if isinstance(error, NoCandidate) else 0
                        is_early = 0 < blank < min(BLANK_ANSWERS, self.server.attempts)
                        refused = None if is_early else await self.answer_to_refusal(error, attempt, self.sent, request)
                        if refused is not None:
                            return refused
                        stated, failure = await self.stated_wait(error, request), error
                        # After many such answers, while others are answered, only this request waits.
                        is_own = alone.waits >= MOST_WAITS and self.answers > alone.failed_at
                        wait = self.note_failure(error, tries + 1, stated, is_own)
                        reason = self.last
                if not self.answers and MOST_ALIENS <= self.failures_in_row == self.aliens:
                    await self.check_alien(failure, request)
                is_waiting = bool(stated) and not is_own and waited + (stated or 0.0) <= self.server.patience
                waited += stated or 0.0
                alone.waits += bool(stated)
                tries += not is_waiting
                alone.failed_at = self.answers
                if tries < self.server.attempts:
                    await wait_unless_shutdown(wait)
            if alone.lacks_answer(self.answers):
                alone.are_others_answered = await self.answers_now(request)
            if not alone.are_others_answered:
                if not self.answers and self.failures_in_row == self.aliens:
                    await self.check_alien(failure, request)
                self.fault = self.fault or self._silence(reason)  # the error of all other requests
                raise Unanswered(f"{reason} on try {attempt}")
            words = f"{FAILED_MARK}{reason} on try {attempt}"
            return Answer("", None, "error", None, None, 0.0, attempt, error=words)
        finally:
            if is_lone:
                self.lone.release()

    @property
    def is_silent(self) -> bool:
        """True if so many requests in a row had no answer that only one of them is sent at a time."""
        return self.server.socket is None and self.failures_in_row >= SILENT_AFTER

    def _silence(self, reason: str) -> UserError:
        """Return the error for an endpoint that answers no request any more, by the reason of the last failure."""
        fix = "check the account, the key and the server, then run again: answered requests are not repeated"
        return UserError(self.place, f"{self.server.base_url} answers no request: {reason}", fix)

    def note_answer(self, number: int) -> None:
        """Record that the endpoint answers. number: number of the request that it answered, in the order of sending."""
        self.answers += 1
        self.newest_answered = max(self.newest_answered, number)
        self.failures_in_row = 0
        self._open()

    def _open(self) -> None:
        """Lift the limit FIRST_REQUESTS, so that requests may use all slots."""
        if not self.all_slots_open:
            self.all_slots_open = True
            for _ in range(self.server.concurrency):
                self.first_slots.release()

    async def _once(self, request: dict[str, Any], attempt: int, server: ServerSettings | None = None) -> Answer:
        """Send a request once. Raises ErrorStatus for a refusal. server: settings that replace the client's own."""
        server = server or self.server
        url = f"{server.base_url.rstrip('/')}/{ADDRESSES[request['endpoint']]}"
        body = body_of(server, request)
        payment = Payment(self.purse)
        await payment.reserve(request)
        try:
            began = time.monotonic()
            response = await post(self.open_session(), url, body, server.longest)
            if not 200 <= response.status < 300:
                payment.note_refusal(response)
                raise ErrorStatus(read_refusal(response.status, response.body, response.headers), response.headers)
            reply = parse_body(response.body)
            payment.usage = usage_of(reply)
            if (failure := error_in(reply)) is not None:
                raise ErrorStatus(failure, response.headers)
            answer = self.read_reply(request, body, reply, time.monotonic() - began, attempt)
            payment.usage = Usage(answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens)
            return answer
        except BaseException as error:
            payment.note_failure(error)
            if payment.usage.prompt and payment.usage.is_reported:
                self.failed_usage.append(payment.usage)
            raise
        finally:
            payment.settle()

    def open_session(self) -> aiohttp.ClientSession:
        """Return the session of this client's connections, which the first call opens."""
        if self.session is None:
            server = self.server
            self.session = open_session(
                server.concurrency, server.socket, server.timeout, server.api_key, server.base_url
            )
        return self.session

    def read_reply(
        self, request: dict[str, Any], body: dict[str, Any], reply: Any, seconds: float, attempt: int
    ) -> Answer:
        """Parse a response without an error, and watch for silent changes. Raises MalformedAnswer.

        body: JSON that was sent; reply: JSON that was received; seconds: duration of the request; attempt: number of
        the attempt that was answered.
        """
        answer, completion = parse_reply(request, reply, seconds, attempt)
        if self.server.socket is None:  # local servers make no silent changes
            for line in self.watcher.check_answer(request, body, completion, answer):
                log.warning("%s: %s", self.server.name or self.server.base_url, line)
        return answer

    def pending_line(self) -> str:
        """Return "": this client has no requests that are answered later."""
        return ""

    async def answer_to_refusal(
        self, error: Exception, attempt: int, number: int, request: dict[str, Any]
    ) -> Answer | None:
        """Return the answer to record if only this request is refused, or None if the failure is transient.

        number: answers to requests up to this number, in the order of sending, do not show that others are answered.

        Raises UserError if every request would be refused.
        """
        if never_encrypted(error):
            self.fault = self.fault or self.untrusted(error)
            raise self.fault from None
        if isinstance(error, NoCandidate):
            refusal, scope = Refusal(200, frozenset(), f"{error}: {error.excerpt}"), "unsure"
        elif isinstance(error, ErrorStatus):
            refusal, scope = error.refusal, scope_of(error.refusal)
        else:
            return None
        if scope == "passing":
            return None
        # Words and status alone do not end a job whose endpoint has answered: they may quote the prompt.
        if scope == "unsure" or (scope == "all" and self.answers):
            scope = "one" if await self._refused_alone(number, request) else "all"
        if scope == "one":
            self._open()
            if isinstance(error, NoCandidate):
                words = f"{FILTERED_MARK}{refusal.message}"
                return Answer("", None, CONTENT_FILTER, *error.usage[:2], 0.0, attempt, error=words, no_text=True)
            return Answer("", None, "error", None, None, 0.0, attempt, error=refusal.words)
        async with self.deciding:  # requests that wait here keep their slots, so no further request is sent meanwhile
            if self.fault is None:
                self.fault = await self._fault_of(refusal, request)
        raise self.fault from None

    def untrusted(self, error: Exception) -> UserError:
        """Convert an error for which `never_encrypted` is True to the error that ends the job."""
        cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
        words = redact(" ".join(str(cause).split()))[:LONGEST_TLS]
        if not isinstance(error, aiohttp.ClientConnectorCertificateError):
            fix = "write http:// in base_url if the server does not use TLS"
        elif HOST_MISMATCH.search(words):
            fix = "set base_url to the host name in the server's certificate"
        elif "expired" in words:
            fix = "renew the server's certificate, or correct this machine's clock"
        else:
            fix = "export SSL_CERT_FILE=FILE with the certificate of the authority that signed the server's certificate"
        return UserError(self.place, f"cannot open an encrypted connection to {self.server.base_url}: {words}", fix)

    async def _refused_alone(self, number: int, request: dict[str, Any]) -> bool:
        """Return True if the endpoint answers a request that was sent after this refusal, or a probe.

        Earlier answers prove nothing, since an account may have become empty. Requests that are refused at the same
        time share one probe. number: number of the last request that was sent before the refusal.
        """
        if self.newest_answered > number:
            return True
        parameters = parameters_of(request)
        probe = self.probes.get(parameters)
        if probe is None:
            probe = self.probes[parameters] = asyncio.create_task(self._probe(probe_of(request)))
        try:
            refused = await asyncio.shield(probe)
        finally:
            if probe.done():
                self.probes.pop(parameters, None)
        if refused is None or self.newest_answered > number:
            return True
        return self.good is not None and await self.answers_now(
            self.good[1](self.good[0]), is_probe=True, has_slot=True
        )

    async def answers_now(self, request: dict[str, Any], is_probe: bool = False, has_slot: bool = False) -> bool:
        """Return True if the endpoint answers one short request with the same parameters now, sent only once.

        is_probe: True to send the request itself; has_slot: True if the caller holds a slot, so that none is awaited.
        """
        parameters = f"{parameters_of(request)} {is_probe} {has_slot}"
        check = self.checks.get(parameters)
        if check is None:
            probe = request if is_probe else probe_of(request)
            check = self.checks[parameters] = asyncio.create_task(self._check(probe, has_slot))
        try:
            return await asyncio.shield(check)
        finally:
            if check.done():
                self.checks.pop(parameters, None)

    async def _check(self, request: dict[str, Any], has_slot: bool) -> bool:
        """Send a short request once. Returns True if it is answered. has_slot: as in `answers_now`."""
        async with contextlib.nullcontext() if has_slot else self.slots:
            await self.gate.wait_until_open()
            if self.fault is not None:
                return False
            self.sent = number = self.sent + 1
            try:
                self.probe_answers.append(await self._once(request, 1))
            except Exception as error:  # whatever fails, the endpoint does not answer
                self.probe_failure = error
                return False
        self.note_answer(number)
        return True

    async def _probe(self, request: dict[str, Any]) -> Refusal | None:
        """Send a short request until it is answered or refused. Return the refusal, or None if it is answered.

        Raises the error that ends the job after the last attempt.
        """
        for attempt in range(1, self.server.attempts + 1):
            self.sent = number = self.sent + 1
            try:
                self.probe_answers.append(await self._once(request, attempt))
                self.note_answer(number)
                return None
            except Exception as error:
                if isinstance(error, NoCandidate):
                    return Refusal(200, frozenset(), f"{error}: {error.excerpt}")
                if isinstance(error, ErrorStatus) and scope_of(error.refusal) != "passing":
                    return error.refusal
                if (limit := self.lasting_limit(error)) is not None:
                    self.fault = self.fault or limit
                    raise self.fault from None
                wait = self.note_failure(error, attempt, stated_seconds(error))
            await wait_unless_shutdown(wait)
        self.fault = self.fault or self._silence(self.last)
        raise self.fault

    async def _fault_of(self, refusal: Refusal, request: dict[str, Any]) -> UserError:
        """Return the error that ends the job, with the endpoint's message and the registry keys to set."""
        problem = f"the server answers {refusal.status} ({refusal.message})"
        if self.server.name and self.server.socket is None:
            problem = f"{self.server.base_url}: {problem}"
        return UserError(self.place, problem, await self._fix_of(refusal, request))

    async def _fix_of(self, refusal: Refusal, request: dict[str, Any]) -> str:
        """Return the fix for a refusal that concerns every request."""
        if 300 <= refusal.status < 400:
            place = refusal.message.removeprefix("redirect to ")
            address = f"/{ADDRESSES[request['endpoint']]}"
            if place.startswith("http") and place.endswith(address):
                return f"set base_url: {place.removesuffix(address)}"
            return "check base_url: it leads elsewhere, such as to the log-in page of a network"
        if refusal.status == PAYMENT_REQUIRED or ACCOUNT_PHRASES.search(refusal.message):
            least = AFFORDABLE_TOKENS.search(refusal.message)
            most = int(least[1]) - self.server.thinking_tokens if least else 0
            other = f", or set max_tokens: {most}" if most > 0 else ""
            return (
                f"add credit to the account behind the key{other}, then run again: answered requests are not repeated"
            )
        if refusal.status == KEY_REFUSED or KEY_PHRASES.search(refusal.message):
            if self.server.api_key is None:
                return "set key_env: MY_API_KEY (any name), and export MY_API_KEY=..."
            return "set the environment variable that key_env names to a valid key"
        if remedies := await self._remedies(refusal, request):
            return f"set {keys_to_set(remedies)}"
        missing = refusal.status in NOT_FOUND_STATUS or WRONG_MODEL_PHRASES.search(refusal.message) is not None
        if missing and (models := await self._models()) and self.server.model not in models:
            listing = ", ".join(models[:MODELS_SHOWN]) + (", ..." if len(models) > MODELS_SHOWN else "")
            return f"set model to one that the endpoint lists: {listing}"
        fix = "check base_url, model, the account and the environment variable that key_env names"
        if request["endpoint"] == "completions" and refusal.status in NOT_FOUND_STATUS:
            fix += ", and set endpoint: chat if the model does not support raw completions"
        return fix

    async def _remedies(self, refusal: Refusal, request: dict[str, Any]) -> list[Remedy]:
        """Return the registry changes that fix the refusals. Each is tested with a probe, until a probe is answered."""
        remedies: list[Remedy] = []
        server, probe = self.server, probe_of(request)
        while len(remedies) < MOST_REMEDIES:
            remedy = remedy_of(refusal, probe["endpoint"], body_of(server, probe), server.extra_body, server.thinking)
            if remedy is None or remedy in remedies or remedy.key in {key for key, _ in remedies} - {"omit"}:
                break
            server, probe = apply_remedy(server, probe, remedy)
            if remedy.key == "max_tokens":  # the entry's max_tokens excludes the thinking tokens, so subtract them
                remedy = Remedy("max_tokens", max(remedy.value - server.thinking_tokens, 1))
            remedies.append(remedy)
            try:
                self.probe_answers.append(await self._once(probe, 1, server))
                break
            except ErrorStatus as error:
                refusal = error.refusal
            except Exception:  # any other failure is not caused by the registry entry
                break
        return remedies

    async def _models(self) -> list[str]:
        """Return the sorted names of the models that the endpoint lists, or an empty list if it lists no model."""
        try:
            base, longest = self.server.base_url.rstrip("/"), self.server.longest
            response = await get(
                self.open_session(), f"{base}/models", longest, model_list_headers(base, self.server.api_key)
            )
            entries = parse_body(response.body).get("data", [])
            return sorted(str(entry["id"]) for entry in entries)
        except Exception:  # ignore any error: the list only improves the error message
            return []

    async def stated_wait(self, error: Exception, request: dict[str, Any]) -> float | None:
        """Return the seconds that the endpoint asks to wait, or None if it states none.

        Raises the error that ends the job if the wait outlasts its patience, unless a short request is answered.
        """
        fault = self.lasting_limit(error)
        if fault is not None and not (self.answers and await self.answers_now(request, has_slot=True)):
            self.fault = self.fault or fault
            raise self.fault
        return None if fault is not None else stated_seconds(error)

    def lasting_limit(self, error: Exception) -> UserError | None:
        """Return the error for a limit that outlasts the job's patience; None for any other failure."""
        wait = error.refusal.wait if isinstance(error, ErrorStatus) else None
        ends = self.end_of(wait) if wait is not None else None
        if wait is None or ends is None:
            return None
        assert isinstance(error, ErrorStatus)
        limit = "a limit per day" if wait.daily else "a limit"
        problem = f"{self.server.base_url}: {limit} holds until {ends} ({error.refusal.words})"
        fix = "run again then: answered requests are not repeated"
        if wait.seconds is not None and not wait.daily:
            fix += f"; or set patience: {int(wait.seconds) + 60} to wait"
        return UserError(self.place, problem, fix)

    async def check_alien(self, error: Exception, request: dict[str, Any]) -> None:
        """Raise the error that ends the job if no answer so far can be read, and that to a short request neither."""
        if await self.answers_now(request) or not is_alien(self.probe_failure):
            return
        excerpt = getattr(error, "excerpt", "")
        words = f"{error}: {excerpt}" if excerpt else str(error)
        problem = f"{self.server.base_url} answers without an answer: {words}"
        fix = "check base_url, the account, and whether the network wants a log-in"
        if EVENT.search(excerpt):
            fix = "the answer is an event stream: set extra_body: {stream: false}, or another base_url"
        self.fault = self.fault or UserError(self.place, problem, fix)
        raise self.fault

    @property
    def place(self) -> str:
        """Place of the endpoint's errors: the registry entry, or the address without one."""
        return f"models.{self.server.name}" if self.server.name else self.server.base_url

    def end_of(self, wait: Wait) -> str | None:
        """Return the time at which a wait ends that the job does not wait for, as text; None if it waits.

        A limit per day ends the job even if the next requests may be sent soon: all others would wait as long again.
        """
        now = datetime.now().astimezone()
        if wait.daily and (wait.seconds is None or wait.seconds <= SHORTEST_DAY):
            host = str(urlsplit(self.server.base_url).hostname)
            zone = next((zone for name, zone in DAYS_END.items() if host.endswith(name)), None)
            if zone is None:
                return "the end of the provider's day"
            midnight = datetime.now(zone).replace(hour=0, minute=0, second=0) + timedelta(days=1)
            return f"{midnight.astimezone(now.tzinfo):%Y-%m-%d %H:%M}"
        if wait.seconds is not None and (wait.daily or wait.seconds > self.server.patience):
            return f"{now + timedelta(seconds=min(wait.seconds, LONGEST_STATED)):%Y-%m-%d %H:%M}"
        return None

    def note_failure(self, error: Exception, attempt: int, stated: float | None, is_own: bool = False) -> float:
        """Count a transient failure and return the seconds until the next attempt. Other errors are raised again.

        stated: seconds that the endpoint asks to wait; is_own: True if only this request waits.
        """
        words = ""
        if isinstance(error, ErrorStatus):
            refusal = error.refusal
            is_bare = refusal.message == f"HTTP {refusal.status}"
            kind = f"{refusal.status}" if is_bare else f"{refusal.status} {refusal.message[:LONGEST_FAILURE_REASON]}"
        elif isinstance(error, MalformedAnswer | BodyTooLong):
            kind = f"{type(error).__name__} ({error})"
            words = error.excerpt if isinstance(error, MalformedAnswer) else ""
        elif isinstance(error, aiohttp.ClientError | TimeoutError | ConnectionError):
            kind = type(error).__name__
            words = str(error)[:LONGEST_FAILURE_REASON] if isinstance(error, aiohttp.ClientPayloadError) else ""
        else:
            raise error
        kind = redact(kind)
        self.last = f"{kind}: {words}" if words else kind
        self.retries[kind] = self.retries.get(kind, 0) + 1
        if self.retries[kind] in {1, 10, 100, 1000}:
            log.warning(
                "%s: %s, try %d (failure %d of this kind)", self.server.base_url, self.last, attempt, self.retries[kind]
            )
        # A stated wait delays all requests. This request's own backoff is used only if it is longer.
        if stated is not None and not is_own and self.gate.close_for(stated):
            until = time.strftime("%H:%M:%S", time.localtime(time.time() + stated))
            log.warning("%s asks to wait: no requests until %s (limit: models.*.patience)", self.server.base_url, until)
        wait = float(min(FIRST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.5, 1.0))
        if is_own:
            return max(wait, stated or 0.0)
        return wait if stated is None or stated < wait else 0.0


def is_alien(error: Exception) -> bool:
    """Return True for an answer that cannot be read, and names neither an overload nor an interruption."""
    is_malformed = isinstance(error, MalformedAnswer) and not isinstance(error, InterruptedAnswer)
    return is_malformed and not OVERLOAD_PHRASES.search(getattr(error, "excerpt", ""))


def stated_seconds(error: Exception) -> float | None:
    """Return the wait in seconds that a refusal states; None without one, or if the error is no refusal."""
    return error.refusal.wait.seconds if isinstance(error, ErrorStatus) and error.refusal.wait else None


class Failures:
    """Failed tries of one request, and whether other requests were answered in between.

    failed_at: number of requests that the endpoint had answered at the last failure; waits: number of failures that
    stated a wait.
    """

    def __init__(self) -> None:
        self.are_others_answered, self.failed_at, self.waits = True, 0, 0

    def lacks_answer(self, answers: int) -> bool:
        """Return True if a probe has to show that the endpoint answers: no request was answered since the last failure.

        answers: number of requests that the endpoint has answered.
        """
        return self.are_others_answered and answers == self.failed_at


class Payment:
    """Payment of one try of a request from the purse of the run's budget, if it has one.

    usage: what the endpoint reports; is_sent: False if no connection was opened.
    """

    def __init__(self, purse: Purse | None) -> None:
        self.purse = purse
        self.reservation: Reservation | None = None
        self.usage, self.is_sent = Usage(), True

    async def reserve(self, request: Mapping[str, Any]) -> None:
        """Reserve the most that the request can cost. Raises OverBudget if the budget does not pay it."""
        if self.purse is None:
            return
        try:
            self.reservation = await self.purse.reserve(request)
        except InterruptedError:
            raise Interrupted(SHUTDOWN_REASON) from None
        except UserError as error:
            raise OverBudget(error.problem) from None

    def note_refusal(self, response: Response) -> None:
        """Note what an error reports. Without usage it has no tokens, unless a proxy gave up waiting for the answer."""
        with contextlib.suppress(MalformedAnswer):
            self.usage = usage_of(parse_body(response.body))
        if not self.usage.is_reported and response.status not in GAVE_UP_WAITING:
            self.usage = Usage(0, 0)

    def note_failure(self, error: BaseException) -> None:
        """Note that a try failed."""
        self.is_sent = not isinstance(error, aiohttp.ClientConnectorError)

    def settle(self) -> None:
        """Pay what the endpoint reports, or what was reserved if it reports nothing."""
        if self.purse is None or self.reservation is None:
            return
        if self.is_sent:
            self.purse.settle(self.reservation, self.usage)
        else:
            self.purse.release(self.reservation)


def never_encrypted(error: Exception) -> bool:
    """Return True if a TLS connection failed for a permanent reason: a bad certificate, or a server without TLS.

    An interrupted handshake is a transient failure, so the result is False.
    """
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return True
    return isinstance(error, aiohttp.ClientConnectorSSLError) and getattr(error.os_error, "reason", None) in NO_TLS


def body_of(server: ServerSettings, request: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON body of a request, with the fields that the settings add and without those that they omit."""
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
    """Return a digest of the parameters that an endpoint may refuse: all except the messages' content and the seed."""
    roles = [message["role"] for message in request["messages"]]
    kept = {key: value for key, value in request.items() if key not in {"messages", "seed", REPEAT}}
    return canonical_digest({**kept, "roles": [roles[0], roles[-1]]})


def probe_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a short text request with the same parameters, first role and last role as the given request."""
    roles = [message["role"] for message in request["messages"]]
    texts = {"system": "You are a tutor.", "user": "What is 2 + 2?", "assistant": "2 + 2 is"}
    probe_roles = [roles[0]]
    if len(roles) > 1:
        probe_roles += ["user"] if roles[0] != "user" else []
        probe_roles += ["assistant"] if roles[-1] == "assistant" else []
    messages = [{"role": role, "content": texts[role]} for role in probe_roles]
    if len(probe_roles) == 1:
        messages = [{"role": roles[0], "content": texts["user"]}]
    return {**{key: value for key, value in request.items() if key != REPEAT}, "messages": messages}


def apply_remedy(
    server: ServerSettings, probe: dict[str, Any], remedy: Remedy
) -> tuple[ServerSettings, dict[str, Any]]:
    """Apply a remedy (a change to the model's registry entry) to the settings and the probe, and return both."""
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
