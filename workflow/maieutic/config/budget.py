"""What a run may spend."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import Field

from maieutic.config.models import Entry, HostedModel, Model
from maieutic.core.errors import UserError


class Spending(Entry):
    """What may be spent; counted are answered requests, as the servers count their tokens."""

    usd: float | None = Field(None, gt=0, description="US dollars, by `models.*.price`, which the models need then")
    requests: int | None = Field(None, ge=1, description="answered requests")
    tokens: int | None = Field(None, ge=1, description="tokens of prompts and answers together")


class Budget(Spending):
    """What one call of Snakemake may spend on all models, and on single ones."""

    models: dict[str, Spending] = Field({}, description="the same of single models, by their names in `models`")

    def limits(self) -> bool:
        """Whether it limits anything."""
        return self != Budget()


def check_prices(budget: Budget, models: Mapping[str, Model], asked: Collection[str]) -> None:
    """Raise UserError where money is limited and a hosted model that is asked has no price.

    models: the registry; asked: the entries that a run asks.
    """
    counted = asked if budget.usd is not None else {name for name, own in budget.models.items() if own.usd is not None}
    hosted = {name: models[name] for name in sorted(counted) if isinstance(models.get(name), HostedModel)}
    if unpriced := [name for name, model in hosted.items() if getattr(model, "price", None) is None]:
        raise UserError("run.budget.usd", f"{', '.join(unpriced)} has no price", f"set models.{unpriced[0]}.price")
