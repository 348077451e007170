"""Budget of a run. All jobs of the run share one file, to which each request and each answer adds a line.

Before each request, a job locks the file and reads the lines that other jobs have added. If a process is killed, its
reservations remain in the file, because its requests were sent and are billed.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from maieutic.config.budget import Budget, Spending
from maieutic.config.models import Price
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.serving.silent_changes import content_parts

# Environment variable through which Snakemake passes the budget to its jobs. The budget is not a job parameter, because
# a changed parameter would make Snakemake recompute results.
BUDGET_VARIABLE = "MAIEUTIC_BUDGET"
CHARS_A_TOKEN = 4.0
BYTES_A_TOKEN = 3.0  # fewer than in a usual token: four letters of English, or one character of Chinese in three bytes
PICTURE_TOKENS = 1500  # upper estimate for a picture of a megapixel
ANSWERS_KEPT = "all received answers are kept"


class Allowance(Job):
    """Value of BUDGET_VARIABLE: the budget of a run, with what a job needs to record its spending.

    budget_file: file that records the run's spending; models: for each judge, the registry entry that answers its
    requests; prices: price of each registry entry.
    """

    budget: Budget
    budget_file: Path
    models: dict[str, str] = {}
    prices: dict[str, Price] = {}


class Amount(NamedTuple):
    """Amount spent: number of requests, number of tokens in prompts and answers, and cost in US dollars."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    def plus(self, other: Amount) -> Amount:
        """Return the sum of two amounts."""
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.usd + other.usd)


ONE_REQUEST = Amount(requests=1)  # reserved for a request that is sent by itself: its tokens are known a moment later


def reached_limit(limits: Spending, spent: Amount, more: Amount = ONE_REQUEST) -> str | None:
    """Return the first limit that `spent` has reached, or would exceed with `more`, as text, or None.

    Reserved requests count as spent.
    """
    after = spent.plus(more)
    if limits.requests is not None and after.requests > limits.requests:
        return f"{limits.requests:,} requests"
    if limits.tokens is not None and (spent.tokens >= limits.tokens or after.tokens > limits.tokens):
        return f"{limits.tokens:,} tokens"
    if limits.usd is not None and (spent.usd >= limits.usd or after.usd > limits.usd):
        return f"{limits.usd:g} USD"
    return None


def tokens_of_messages(messages: Iterable[Mapping[str, Any]]) -> int:
    """Return an upper estimate of the number of tokens of a request's messages, before its pictures are filled in."""
    size = pictures = 0
    for message in messages:
        for part in content_parts(message["content"]):
            text = part if isinstance(part, str) else part.get("text")
            size += len((text or "").encode("utf-8", "replace"))
            pictures += text is None
    return math.ceil(size / BYTES_A_TOKEN) + pictures * PICTURE_TOKENS


class BudgetFile:
    """File that records a run's spending. Each instance adds the requests and answers of one model."""

    def __init__(self, allowance: Allowance, asker: str) -> None:
        """asker: name of a tutor or judge in the registry."""
        self.budget, self.path = allowance.budget, allowance.budget_file
        self.model = allowance.models.get(asker, asker)
        self.price = allowance.prices.get(self.model)
        self.spent: dict[str, Amount] = {}
        self.reserved: dict[str, Amount] = {}  # by the key of a request in a batch
        self._read = 0  # number of bytes of the file that this process has read
        self.path.parent.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[IO[bytes]]:
        """Lock the file while the context is open, and read the lines that other jobs have added."""
        with open(self.path, "a+b") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            handle.seek(self._read)
            new = handle.read()
            self._read += len(new)
            for line in new.splitlines():
                with suppress(ValueError, TypeError):  # skip a line that is truncated, for example by a full disk
                    self.add_to_total(*json.loads(line))
            yield handle

    def add_to_total(self, model: str, requests: float, tokens: float, usd: float, key: str = "") -> None:
        """Add an amount to the total of a model. key: key of the request in a batch that it is reserved for."""
        amount = Amount(int(requests), int(tokens), usd)
        self.spent[model] = self.spent.get(model, Amount()).plus(amount)
        if key and requests > 0:
            self.reserved[key] = amount
        elif key:
            self.reserved.pop(key, None)

    def add(self, handle: IO[bytes], amount: Amount, key: str = "") -> None:
        """Append an amount to the file, and add it to this model's total."""
        line = json.dumps([self.model, *amount, *([key] if key else [])]).encode() + b"\n"
        os.write(handle.fileno(), line)
        self._read += len(line)
        self.add_to_total(self.model, *amount, key)

    def most(self, request: Mapping[str, Any]) -> Amount:
        """Return the most that a request in a batch can cost: an answer of `max_tokens` tokens at the batch's price."""
        prompt = tokens_of_messages(request["messages"])
        answer = int(request.get("max_tokens") or 0)
        usd = self.price.usd(prompt, answer, batched=True) if self.price else 0.0
        return Amount(1, prompt + answer, usd)

    def reserve(self, amount: Amount = ONE_REQUEST, checked: bool = True, key: str = "") -> Amount:
        """Reserve one request before it is sent, and return what was reserved.

        amount: what to reserve, for a request in a batch the most that it can cost, since no answer comes before all
        are sent; checked: False to reserve what is sent already; key: key of a request in a batch, for which one job of
        the run reserves. Raises UserError if a limit of the budget is reached.
        """
        with self.locked() as handle:
            if key in self.reserved:
                return self.reserved[key]
            total = Amount()
            for spent_by_model in self.spent.values():
                total = total.plus(spent_by_model)
            model_limits = self.budget.models.get(self.model)
            model_spent = self.spent.get(self.model, Amount())
            for setting, limits, spent in (
                ("run.budget", self.budget, total),
                (f"run.budget.models.{self.model}", model_limits, model_spent),
            ):
                if checked and limits is not None and (limit := reached_limit(limits, spent, amount)):
                    amounts = f"{spent.requests:,} requests, {spent.tokens:,} tokens, {spent.usd:.2f} USD"
                    fix = "raise this limit, or run again: each run starts with its full budget"
                    state = "is spent" if amount == ONE_REQUEST else "is spent, or reserved for requests in batches"
                    raise UserError(setting, f"the budget of {limit} {state} ({amounts}); {ANSWERS_KEPT}", fix)
            self.add(handle, amount, key)
        return amount

    def settle(
        self,
        prompt_tokens: int,
        answer_tokens: int,
        cached_tokens: int = 0,
        batched: bool = False,
        reserved: Amount = ONE_REQUEST,
    ) -> None:
        """Record the tokens and the cost of an answer. reserved: what was reserved for its request."""
        usd = self.price.usd(prompt_tokens, answer_tokens, cached_tokens, batched) if self.price else 0.0
        with self.locked() as handle:
            self.add(handle, Amount(0, prompt_tokens + answer_tokens - reserved.tokens, usd - reserved.usd))

    def release(self, reserved: Amount = ONE_REQUEST, key: str = "") -> None:
        """Cancel the reservation of a request that was not answered. key: key for which it was reserved."""
        with self.locked() as handle:
            self.add(handle, Amount(-reserved.requests, -reserved.tokens, -reserved.usd), key)


def budget_file_of(environment: Mapping[str, str], asker: str) -> BudgetFile | None:
    """Return the run's budget file for a tutor or judge, or None if the run has no budget."""
    value = environment.get(BUDGET_VARIABLE)
    return BudgetFile(Allowance.model_validate_json(value), asker) if value else None
