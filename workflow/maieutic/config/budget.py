"""Spending limits of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import Field

from maieutic.config.models import HostedModel, Model, StrictModel
from maieutic.core.errors import UserError


class Spending(StrictModel):
    """Limits on answered requests, their tokens and their cost. Token counts are those that servers report."""

    usd: float | None = Field(
        None,
        gt=0,
        description="Maximum cost in US dollars. Every hosted model that it covers needs a price (`models.*.price`).",
    )
    requests: int | None = Field(None, ge=1, description="Maximum number of answered requests.")
    tokens: int | None = Field(None, ge=1, description="Maximum number of tokens in prompts and answers together.")


class Budget(Spending):
    """Spending limits of one Snakemake call, for all models together and for single models."""

    models: dict[str, Spending] = Field(
        {}, description="Limits (`usd`, `requests`, `tokens`) for single models, by name in `models`."
    )

    def is_limited(self) -> bool:
        """Return True if any limit is set."""
        return self != Budget()


def check_prices(budget: Budget, models: Mapping[str, Model], called: Collection[str]) -> None:
    """Raise UserError if a limit in US dollars covers a hosted model without a price.

    models: the model registry. called: names of the registry entries that the run sends requests to.
    """
    limited = {name for name, limits in budget.models.items() if limits.usd is not None}
    counted = called if budget.usd is not None else limited
    hosted = {name: models[name] for name in sorted(counted) if isinstance(models.get(name), HostedModel)}
    if unpriced := [name for name, model in hosted.items() if getattr(model, "price", None) is None]:
        raise UserError(
            "run.budget.usd",
            f"expected a price for {', '.join(unpriced)}, found none",
            f"set models.{unpriced[0]}.price",
        )
