"""Spending limits of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import Field

from maieutic.config.models import HostedModel, Model, ServedModel, StrictModel
from maieutic.core.errors import UserError


class Spending(StrictModel):
    """Limits on requests, their tokens and their cost. The most of a request is reserved before it is sent."""

    usd: float | None = Field(
        None,
        gt=0,
        description="Maximum cost in US dollars. Every hosted model that it covers needs a price (`models.*.price`).",
    )
    requests: int | None = Field(
        None, ge=1, description="Maximum number of requests, of which each try counts, answered or not."
    )
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


def check_answer_limits(budget: Budget, models: Mapping[str, Model], called: Collection[str]) -> None:
    """Raise UserError if a limit on cost or tokens covers a model whose answers have no limit.

    models, called: as for `check_prices`.
    """
    is_counted = budget.usd is not None or budget.tokens is not None
    limited = {name for name, each in budget.models.items() if each.usd is not None or each.tokens is not None}
    counted = {*(called if is_counted else ()), *limited}
    served = {name: model for name in sorted(counted) if isinstance(model := models.get(name), ServedModel)}
    if unlimited := [name for name, model in served.items() if "max_tokens" in model.omit and not model.most_tokens]:
        problem = f"omit: [max_tokens] of {', '.join(unlimited)} leaves the length of an answer open"
        keys = ", ".join(f"models.{name}.most_tokens" for name in unlimited)
        raise UserError("run.budget", problem, f"set {keys} to the longest answer, with thinking")
