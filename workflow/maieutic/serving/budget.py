"""Budget of a run: one purse for all its jobs, a file in which every request is reserved before it is sent.

A reservation is the most that the request can cost. It is replaced by what the endpoint reports, and stays where the
endpoint reports nothing. While only reservations of requests in flight are in the way, a request waits for its turn.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from maieutic.config.budget import Budget, Spending
from maieutic.config.models import Price
from maieutic.core.errors import UserError
from maieutic.core.files import write_text
from maieutic.core.jobs import Job
from maieutic.core.locks import lock_exclusively
from maieutic.core.shutdown import SHUTDOWN
from maieutic.serving.answers import Usage
from maieutic.serving.run_environment import process_start_ticks
from maieutic.serving.silent_changes import content_parts

log = logging.getLogger(__name__)
# Environment variable through which Snakemake passes the budget to its jobs. The budget is not a job parameter, because
# a changed parameter would make Snakemake recompute results.
BUDGET_VARIABLE = "MAIEUTIC_BUDGET"
CHARS_A_TOKEN = 4.0
BYTES_A_TOKEN = 3.0  # fewer than in a usual token: four letters of English, or one character of Chinese in three bytes
PICTURE_TOKENS = 1500  # upper estimate for a picture of a megapixel
ANSWERS_KEPT = "all received answers are kept"
POLL_SECONDS = 0.25  # interval at which a waiting request looks for what other jobs have settled
REFRESH_SECONDS, STALE_SECONDS = 10.0, 60.0  # a waiting request shows this often that it still waits
SLACK_SECONDS = 60.0  # added to a request's timeout, after which a job on another machine is taken for dead
TOLERANCE = 1e-9  # of a comparison of dollars, which are sums of many small numbers


class Allowance(Job):
    """Value of BUDGET_VARIABLE: the budget of a run, with what a job needs to record its spending.

    budget_file: file that records the run's spending; models: for each judge, the registry entry that answers its
    requests; prices: price of each registry entry; most_tokens: for registry entries that set it, the largest number of
    tokens of an answer.
    """

    budget: Budget
    budget_file: Path
    models: dict[str, str] = {}
    prices: dict[str, Price] = {}
    most_tokens: dict[str, int] = {}


class Amount(NamedTuple):
    """Amount of money: number of requests (tries), number of tokens in prompts and answers, and cost in US dollars."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    def plus(self, other: Amount) -> Amount:
        """Return the sum of two amounts."""
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.usd + other.usd)

    def minus(self, other: Amount) -> Amount:
        """Return the difference of two amounts."""
        return Amount(self.requests - other.requests, self.tokens - other.tokens, self.usd - other.usd)

    def __str__(self) -> str:
        requests = "1 request" if self.requests == 1 else f"{self.requests:,} requests"
        return f"{requests}, {self.tokens:,} tokens, {self.usd:.4g} USD"


class Most(NamedTuple):
    """The most that one request can cost.

    estimate: tokens of its prompt by its number of bytes; prompt: the same, raised by what this model has billed for
    earlier prompts; answer: tokens of its answer; amount: all of it, with its price.
    """

    estimate: int
    prompt: int
    answer: int
    amount: Amount


class Reservation(NamedTuple):
    """Reservation of one request. batched: True if it is charged at the price of batches."""

    id: str
    most: Most
    batched: bool = False


class Open(NamedTuple):
    """Reservation that is not settled. owner, until: as in PurseState; owner is "" if nothing of it is in flight."""

    model: str
    amount: Amount
    owner: str
    until: float


class Waiting(NamedTuple):
    """Place of a request in the queue. scopes: keys of the limits that it waits for; owner, until: as in PurseState."""

    scopes: frozenset[str]
    owner: str
    until: float


def exceeded_limit(limits: Spending, amount: Amount) -> str | None:
    """Return the first limit that an amount exceeds, as text, or None."""
    if limits.requests is not None and amount.requests > limits.requests:
        return f"{limits.requests:,} requests"
    if limits.tokens is not None and amount.tokens > limits.tokens:
        return f"{limits.tokens:,} tokens"
    if limits.usd is not None and amount.usd > limits.usd + TOLERANCE:
        return f"{limits.usd:g} USD"
    return None


def tokens_of_messages(messages: Iterable[Mapping[str, Any]]) -> int:
    """Return an upper estimate of the number of tokens of a request's messages."""
    size = pictures = 0
    for message in messages:
        for part in content_parts(message["content"]):
            text = part if isinstance(part, str) else part.get("text")
            size += len((text or "").encode("utf-8", "replace"))
            pictures += text is None
    return math.ceil(size / BYTES_A_TOKEN) + pictures * PICTURE_TOKENS


def this_process() -> str:
    """Return the name of this process in the purse: host, namespace of process numbers, number and start time."""
    namespace = Path("-")
    with suppress(OSError):
        namespace = Path("/proc/self/ns/pid").readlink()
    return f"{socket.gethostname()} {namespace} {os.getpid()} {process_start_ticks(os.getpid())}"


def is_alive(owner: str, until: float) -> bool:
    """Return True if the owner of a reservation may still settle it.

    A process of another machine is taken for dead at `until`, when its request has timed out.
    """
    host, namespace, pid, ticks = owner.split(" ")
    if this_process().startswith(f"{host} {namespace} "):
        return process_start_ticks(int(pid)) == ticks
    return time.time() < until


class PurseState:
    """Content of the purse: what is spent, what is reserved, and who waits.

    Every line of the file is an event, a JSON list: `reserve` (id, model, owner, until, amount), `settle` (id, model,
    amount), `wait` (id, scopes, owner, until), `leave` (id), `most` (model, ratio, answer). owner: process that sends
    the request, "" for a request in a batch; until: time in seconds since 1970 at which the request has timed out.
    """

    def __init__(self) -> None:
        self.spent: dict[str, Amount] = {}  # by model; with what is reserved but not in flight
        self.held: dict[str, Amount] = {}  # by model: reserved for requests in flight
        self.open: dict[str, Open] = {}
        self.queue: dict[str, Waiting] = {}
        self.ratio: dict[str, float] = {}  # by model: largest ratio of billed to estimated prompt tokens
        self.settled: set[str] = set()  # keys of the requests in batches that were settled
        self.answer: dict[str, int] = {}  # by model: most tokens of an answer that exceeded its reservation

    def apply(self, event: list[Any]) -> None:
        """Apply an event. Raises ValueError, TypeError, KeyError or IndexError for one that is not understood."""
        kind, name, *rest = event
        if kind == "reserve":
            model, owner, until, *amount = rest
            self._settle(name)
            self.settled.discard(name)
            self.open[name] = Open(model, Amount(*amount), owner, until)
            self._add(self.held if owner else self.spent, model, Amount(*amount))
        elif kind == "settle":
            model, *amount = rest
            if name in self.open and not self.open[name].owner:
                self.settled.add(name)
            self._settle(name)
            self._add(self.spent, model, Amount(*amount))
        elif kind == "wait":
            scopes, owner, until = rest
            self.queue[name] = Waiting(frozenset(scopes), owner, until)
        elif kind == "leave":
            self.queue.pop(name, None)
        elif kind == "most":
            ratio, answer = rest
            self.ratio[name] = max(self.ratio.get(name, 1.0), ratio)
            self.answer[name] = max(self.answer.get(name, 0), answer)

    def _add(self, sums: dict[str, Amount], model: str, amount: Amount) -> None:
        sums[model] = sums.get(model, Amount()).plus(amount)

    def _settle(self, name: str) -> None:
        """Take a reservation, if there is one, out of the sums."""
        if known := self.open.pop(name, None):
            sums = self.held if known.owner else self.spent
            sums[known.model] = sums[known.model].minus(known.amount)

    def count_the_dead_as_spent(self) -> None:
        """Count as spent what processes have reserved that have ended: their requests were sent and may be billed."""
        for name, known in list(self.open.items()):
            if known.owner and not is_alive(known.owner, known.until):
                self.held[known.model] = self.held[known.model].minus(known.amount)
                self._add(self.spent, known.model, known.amount)
                self.open[name] = known._replace(owner="")
        self.queue = {
            name: waiting
            for name, waiting in self.queue.items()
            if time.time() < waiting.until and is_alive(waiting.owner, waiting.until)
        }

    def total(self, sums: Mapping[str, Amount], model: str | None = None) -> Amount:
        """Return the sum over all models, or that of one."""
        if model is not None:
            return sums.get(model, Amount())
        total = Amount()
        for amount in sums.values():
            total = total.plus(amount)
        return total


class Purse:
    """Purse of a run as a job uses it for the requests to one model.

    fault: error of the limit at which the model has ended, None before; charged: what was charged because the endpoint
    reported nothing.
    """

    def __init__(self, allowance: Allowance, asker: str, timeout: float = 0.0) -> None:
        """asker: name of a tutor or judge in the registry; timeout: timeout of its requests in seconds."""
        self.budget, self.path, self.timeout = allowance.budget, allowance.budget_file, timeout
        self.model = allowance.models.get(asker, asker)
        self.price = allowance.prices.get(self.model)
        self.most_tokens = allowance.most_tokens.get(self.model)
        self.fault: UserError | None = None
        self.charged = Amount()
        self.unreported = 0  # number of answers without valid token counts
        self.owner = this_process()
        self._state = PurseState()
        self._read = 0  # number of bytes of the file that this process has read
        self._turn = asyncio.Lock()  # requests of this process wait in the order in which they came
        self._changed = asyncio.Event()
        self._said_to_wait = False

    # the file ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[IO[bytes]]:
        """Lock the file while the context is open, and apply the events that other jobs have added."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a+b") as handle:
            lock_exclusively(handle, wait=True)
            handle.seek(self._read)
            new = handle.read()
            self._read += len(new)
            for line in new.splitlines():
                # Skip a line that is truncated, for example by a full disk.
                with suppress(ValueError, TypeError, KeyError, IndexError):
                    self._state.apply(json.loads(line))
            if new and not new.endswith(b"\n"):
                self._write(handle, b"\n")
            yield handle

    def _write(self, handle: IO[bytes], line: bytes) -> None:
        os.write(handle.fileno(), line)
        self._read += len(line)

    def _add(self, handle: IO[bytes], *events: list[Any]) -> None:
        """Append events to the file, and apply them."""
        self._write(handle, b"".join(json.dumps(event).encode() + b"\n" for event in events))
        for event in events:
            self._state.apply(event)

    def spent(self, model: str | None = None) -> Amount:
        """Return what is spent on one model, or on all, with what is reserved and not in flight."""
        with self.locked():
            return self._state.total(self._state.spent, model)

    # reservations -----------------------------------------------------------------------------------------------------

    def most(self, request: Mapping[str, Any], batched: bool = False) -> Most:
        """Return the most that a request can cost, by what this model has billed until now.

        The prompt has at most a token for every three bytes, times the largest ratio of billed to estimated tokens that
        was seen; the answer has at most `most_tokens` of the registry entry, or else the request's `max_tokens`.
        """
        estimate = tokens_of_messages(request["messages"])
        prompt = math.ceil(estimate * self._state.ratio.get(self.model, 1.0))
        limit = self.most_tokens or int(request.get("max_tokens") or 0)
        answer = max(limit, self._state.answer.get(self.model, 0))
        usd = self.price.usd(prompt, answer, batched=batched) if self.price else 0.0
        return Most(estimate, prompt, answer, Amount(1, prompt + answer, usd))

    def scopes(self) -> Iterator[tuple[str, Spending, str | None]]:
        """Yield the limits that cover this model: key in the configuration, limits, and model (None: all models)."""
        yield "run.budget", self.budget, None
        if (limits := self.budget.models.get(self.model)) is not None:
            yield f"run.budget.models.{self.model}", limits, self.model

    def _blocking_scopes(self, amount: Amount) -> set[str]:
        """Return the keys of the limits that leave no room while other requests are in flight.

        Raises UserError if a limit leaves no room even if those cost nothing.
        """
        state, blocking = self._state, set()
        for key, limits, model in self.scopes():
            spent = state.total(state.spent, model)
            if limit := exceeded_limit(limits, spent.plus(amount)):
                problem = (
                    f"the budget of {limit} is spent ({spent}): one more request can cost {amount}; {ANSWERS_KEPT}"
                )
                fix = "raise this limit, or run again: each run starts with its full budget"
                self.fault = UserError(key, problem, fix)
                raise self.fault
            if exceeded_limit(limits, spent.plus(state.total(state.held, model)).plus(amount)):
                blocking.add(key)
        return blocking

    def _try(self, request: Mapping[str, Any], name: str) -> Reservation | None:
        """Reserve a request if there is room and no other one waits longer; else take a place in the queue."""
        with self.locked() as handle:
            state, keys = self._state, {key for key, _, _ in self.scopes()}
            most = self.most(request)
            if state.queue or self._blocking_scopes(most.amount):
                state.count_the_dead_as_spent()
            blocking = self._blocking_scopes(most.amount)
            for other, waiting in state.queue.items():
                if other == name:
                    break
                blocking |= waiting.scopes & keys
            if not blocking:
                event = ["reserve", name, self.model, self.owner, time.time() + self.timeout + SLACK_SECONDS]
                leave = [["leave", name]] if name in state.queue else []
                self._add(handle, [*event, *most.amount], *leave)
                return Reservation(name, most)
            known = state.queue.get(name)
            until = time.time() + STALE_SECONDS
            if known is None or known.scopes != blocking or known.until < until - REFRESH_SECONDS:
                self._add(handle, ["wait", name, sorted(blocking), self.owner, until])
            if not self._said_to_wait:
                self._said_to_wait = True
                log.info(
                    "%s: requests wait until those in flight are settled (%s)", " and ".join(blocking), most.amount
                )
            return None

    async def reserve(self, request: Mapping[str, Any]) -> Reservation:
        """Reserve one try of a request before it is sent, and wait while only requests in flight are in the way.

        Raises UserError if the rest of a limit does not pay the request, InterruptedError if the job shuts down.
        """
        name = secrets.token_hex(8)
        async with self._turn:
            try:
                while True:
                    if self.fault is not None:
                        raise self.fault
                    self._changed.clear()
                    if (reservation := self._try(request, name)) is not None:
                        return reservation
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), POLL_SECONDS)
                    if SHUTDOWN.is_set:
                        raise InterruptedError
            finally:
                if name in self._state.queue:
                    with suppress(OSError), self.locked() as handle:
                        self._add(handle, ["leave", name])

    def reserve_together(self, requests: Iterable[tuple[str, Mapping[str, Any]]]) -> bool:
        """Reserve the requests of a job that travel in batches, if the budget pays all of them. Returns True if so.

        requests: key and content of each. An answer may take a day, so no request waits for those in flight.
        """
        with self.locked() as handle:
            events, total = list[list[Any]](), Amount()
            for key, request in requests:
                if key not in self._state.open:
                    amount = self.most(request, batched=True).amount
                    events.append(["reserve", key, self.model, "", 0.0, *amount])
                    total = total.plus(amount)
            self._state.count_the_dead_as_spent()
            try:
                if self._blocking_scopes(total):
                    return False
            except UserError:
                self.fault = None  # a smaller job may fit
                return False
            self._add(handle, *events)
            return True

    def settle_in_batch(self, request: Mapping[str, Any], key: str, usage: Usage | None) -> None:
        """Settle a request of a batch. usage: what its line reports; None if it was not answered, which is free."""
        if usage is None:
            self.release_in_batch([key])
            return
        with self.locked():
            most, known = self.most(request, batched=True), self._state.open.get(key)
            if known is None and key in self._state.settled:
                return  # by a call that was killed before it could note the batch as collected
        self.settle(Reservation(key, most._replace(amount=known.amount) if known else most, batched=True), usage)

    def release_in_batch(self, keys: Iterable[str]) -> None:
        """Cancel the reservations of requests that no batch contains."""
        with self.locked():  # what other processes have reserved
            known = [key for key in keys if key in self._state.open]
        if known:
            self._record([["settle", key, self.model, *Amount()] for key in known])

    def reserved_in_batch(self, keys: Iterable[str]) -> Amount:
        """Return what is reserved for the requests of a batch."""
        total = Amount()
        for key in keys:
            if (known := self._state.open.get(key)) is not None:
                total = total.plus(known.amount)
        return total

    # settlement -------------------------------------------------------------------------------------------------------

    def settle(self, reservation: Reservation, usage: Usage) -> None:
        """Replace a reservation by what the endpoint reports. Where it reports nothing, the reservation stays.

        An answer that is dearer than its reservation raises the most of later requests. This method never raises, so
        that no paid answer is lost: if the file cannot be written, no further request is sent.
        """
        most = reservation.most
        prompt, answer = usage.prompt, usage.answer
        amount = most.amount
        if prompt is None or answer is None:
            self.unreported += 1
        else:
            usd = self.price.usd(prompt, answer, usage.cached or 0, reservation.batched) if self.price else 0.0
            amount = Amount(1, prompt + answer, usd)
        events: list[list[Any]] = [["settle", reservation.id, self.model, *amount]]
        ratio = (prompt or 0) / max(most.estimate, 1)
        larger = ratio > self._state.ratio.get(self.model, 1.0)
        if larger or (answer or 0) > most.answer:
            events.append(["most", self.model, ratio, (answer or 0) if (answer or 0) > most.answer else 0])
        if prompt is None or answer is None:
            self.charged = self.charged.plus(amount)
            if self.unreported == 1:
                log.warning("%s reports no usage: the budget is charged with the most of each request", self.model)
        self._record(events)

    def release(self, reservation: Reservation) -> None:
        """Cancel the reservation of a request that was not sent."""
        self._record([["settle", reservation.id, self.model, *Amount()]])

    def _record(self, events: list[list[Any]]) -> None:
        """Write events and wake the waiting requests."""
        try:
            with self.locked() as handle:
                self._add(handle, *events)
        except OSError as error:
            problem = f"the run's spending cannot be recorded ({error.strerror}); {ANSWERS_KEPT}"
            self.fault = UserError(str(self.path), problem, "make room on this disk, then run again")
        self._changed.set()


def open_purse(path: Path, batches: Iterable[tuple[str, list[str], int, float]]) -> None:
    """Begin an empty purse, in which only the batches of earlier calls that are not collected have a reservation.

    batches: registry entry, keys of the requests, reserved tokens and reserved US dollars of each.
    """
    path.unlink(missing_ok=True)
    lines = []
    for model, keys, tokens, usd in batches:
        each, rest = divmod(tokens, max(len(keys), 1))
        for number, key in enumerate(keys):
            event = ["reserve", key, model, "", 0.0, 1, each + (number < rest), usd / len(keys)]
            lines.append(json.dumps(event) + "\n")
    if lines:
        write_text(path, "".join(lines))


def purse_of(environment: Mapping[str, str], asker: str, timeout: float) -> Purse | None:
    """Return the run's purse for a tutor or judge, or None if the run has no budget. timeout: of its requests."""
    value = environment.get(BUDGET_VARIABLE)
    return Purse(Allowance.model_validate_json(value), asker, timeout) if value else None
