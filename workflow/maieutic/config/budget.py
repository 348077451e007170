"""What a run may spend."""

from __future__ import annotations

from pydantic import Field

from maieutic.config.models import Entry


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
