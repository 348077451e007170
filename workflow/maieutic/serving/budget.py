"""What a run may spend: one purse for all its jobs, a file to which each answer adds a line.

Every job reads what the others have added, under the file's lock, before it asks. A process that is killed leaves what
it had reserved, since that was asked and is paid.
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

VARIABLE = "MAIEUTIC_BUDGET"  # from Snakemake to its jobs: no parameter, since it recomputes nothing
KEPT = "what was answered is kept"


class Allowance(Job):
    """The value of VARIABLE: the run's budget, the file of its purse, and what the registry says of those who ask.

    models: by judge, the entry that answers for it; prices: by entry.
    """

    budget: Budget
    purse: Path
    models: dict[str, str] = {}
    prices: dict[str, Price] = {}


class Amount(NamedTuple):
    """What was spent: answered requests, tokens of prompts and answers, US dollars."""

    requests: int = 0
    tokens: int = 0
    usd: float = 0.0

    def plus(self, other: Amount) -> Amount:
        """Both together."""
        return Amount(self.requests + other.requests, self.tokens + other.tokens, self.usd + other.usd)


def exceeded(limits: Spending, spent: Amount) -> str | None:
    """The limit that is reached, as words; None where there is none. A request reserves itself."""
    if limits.requests is not None and spent.requests >= limits.requests:
        return f"requests {limits.requests:,}"
    if limits.tokens is not None and spent.tokens >= limits.tokens:
        return f"tokens {limits.tokens:,}"
    if limits.usd is not None and spent.usd >= limits.usd:
        return f"usd {limits.usd:g}"
    return None


class Purse:
    """One model's access to what the run has spent."""

    def __init__(self, allowance: Allowance, asker: str) -> None:
        """asker: a tutor, or a judge, by its name in the registry."""
        self.budget, self.path = allowance.budget, allowance.purse
        self.model = allowance.models.get(asker, asker)
        self.price = allowance.prices.get(self.model)
        self.spent: dict[str, Amount] = {}
        self._read = 0  # bytes of the file
        self.path.parent.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """The file under its lock, with what others have added since."""
        with open(self.path, "a+b") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            handle.seek(self._read)
            new = handle.read()
            self._read += len(new)
            for line in new.splitlines():
                with suppress(ValueError, TypeError):  # a torn line, as of a full disk
                    self.note(*json.loads(line))
            yield handle

    def note(self, model: str, *amount: float) -> None:
        """Count a line."""
        requests, tokens, usd = amount
        self.spent[model] = self.spent.get(model, Amount()).plus(Amount(int(requests), int(tokens), usd))

    def add(self, handle: IO[bytes], amount: Amount) -> None:
        """Write a line, and count it."""
        line = json.dumps([self.model, *amount]).encode() + b"\n"
        os.write(handle.fileno(), line)
        self._read += len(line)
        self.note(self.model, *amount)

    def reserve(self) -> None:
        """Before a request. Raises UserError where a limit is reached."""
        with self.opened() as handle:
            total = Amount()
            for amount in self.spent.values():
                total = total.plus(amount)
            own = self.budget.models.get(self.model)
            mine = self.spent.get(self.model, Amount())
            for key, limits, spent in (
                ("run.budget", self.budget, total),
                (f"run.budget.models.{self.model}", own, mine),
            ):
                if limits is not None and (limit := exceeded(limits, spent)):
                    told = f"{spent.requests:,} requests, {spent.tokens:,} tokens, {spent.usd:.2f} USD"
                    raise UserError(key, f"{limit} is spent ({told}); {KEPT}", "raise it, or run again with a new one")
            self.add(handle, Amount(requests=1))

    def settle(self, prompt_tokens: int, answer_tokens: int, cached_tokens: int = 0) -> None:
        """After an answer."""
        usd = self.price.usd(prompt_tokens, answer_tokens, cached_tokens) if self.price else 0.0
        with self.opened() as handle:
            self.add(handle, Amount(0, prompt_tokens + answer_tokens, usd))

    def release(self) -> None:
        """After a request that stayed without an answer."""
        with self.opened() as handle:
            self.add(handle, Amount(requests=-1))


def purse_of(environment: Mapping[str, str], asker: str) -> Purse | None:
    """The purse of a run that has a budget; None for any other."""
    value = environment.get(VARIABLE)
    return Purse(Allowance.model_validate_json(value), asker) if value else None
