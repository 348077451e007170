"""Budget of a run. All jobs of the run share one file, to which each request and each answer adds a line.

Before each request, a job locks the file and reads the lines that other jobs have added. If a process is killed, its
reservations remain in the file, because its requests were sent and are billed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from maieutic.config.budget import Budget, Spending
from maieutic.config.models import Price
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job

# Environment variable through which Snakemake passes the budget to its jobs. The budget is not a job parameter, because
# a changed parameter would make Snakemake recompute results.
BUDGET_VARIABLE = "MAIEUTIC_BUDGET"
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


def reached_limit(limits: Spending, spent: Amount) -> str | None:
    """Return the first limit that `spent` has reached, as text, or None. Reserved requests count as spent."""
    if limits.requests is not None and spent.requests >= limits.requests:
        return f"{limits.requests:,} requests"
    if limits.tokens is not None and spent.tokens >= limits.tokens:
        return f"{limits.tokens:,} tokens"
    if limits.usd is not None and spent.usd >= limits.usd:
        return f"{limits.usd:g} USD"
    return None


class BudgetFile:
    """File that records a run's spending. Each instance adds the requests and answers of one model."""

    def __init__(self, allowance: Allowance, asker: str) -> None:
        """asker: name of a tutor or judge in the registry."""
        self.budget, self.path = allowance.budget, allowance.budget_file
        self.model = allowance.models.get(asker, asker)
        self.price = allowance.prices.get(self.model)
        self.spent: dict[str, Amount] = {}
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

    def add_to_total(self, model: str, *amount: float) -> None:
        """Add an amount (requests, tokens, US dollars) to the total of a model."""
        requests, tokens, usd = amount
        self.spent[model] = self.spent.get(model, Amount()).plus(Amount(int(requests), int(tokens), usd))

    def add(self, handle: IO[bytes], amount: Amount) -> None:
        """Append an amount to the file, and add it to this model's total."""
        line = json.dumps([self.model, *amount]).encode() + b"\n"
        os.write(handle.fileno(), line)
        self._read += len(line)
        self.add_to_total(self.model, *amount)

    def reserve(self) -> None:
        """Reserve one request before it is sent. Raises UserError if a limit of the budget is reached."""
        with self.locked() as handle:
            total = Amount()
            for amount in self.spent.values():
                total = total.plus(amount)
            model_limits = self.budget.models.get(self.model)
            model_spent = self.spent.get(self.model, Amount())
            for key, limits, spent in (
                ("run.budget", self.budget, total),
                (f"run.budget.models.{self.model}", model_limits, model_spent),
            ):
                if limits is not None and (limit := reached_limit(limits, spent)):
                    amounts = f"{spent.requests:,} requests, {spent.tokens:,} tokens, {spent.usd:.2f} USD"
                    fix = "raise this limit, or run again: each run starts with its full budget"
                    raise UserError(key, f"the budget of {limit} is spent ({amounts}); {ANSWERS_KEPT}", fix)
            self.add(handle, Amount(requests=1))

    def settle(self, prompt_tokens: int, answer_tokens: int, cached_tokens: int = 0) -> None:
        """Record the tokens and the cost of an answer."""
        usd = self.price.usd(prompt_tokens, answer_tokens, cached_tokens) if self.price else 0.0
        with self.locked() as handle:
            self.add(handle, Amount(0, prompt_tokens + answer_tokens, usd))

    def release(self) -> None:
        """Cancel the reservation of a request that was not answered."""
        with self.locked() as handle:
            self.add(handle, Amount(requests=-1))


def budget_file_of(environment: Mapping[str, str], asker: str) -> BudgetFile | None:
    """Return the run's budget file for a tutor or judge, or None if the run has no budget."""
    value = environment.get(BUDGET_VARIABLE)
    return BudgetFile(Allowance.model_validate_json(value), asker) if value else None
