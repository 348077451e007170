"""Cost of planned requests: one count for dry runs, `maieutic estimate`, `maieutic transcripts` and the docs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from maieutic.config.models import HostedModel
from maieutic.launch.lengths import AmountRange, span_text, thinking_budget, total_of
from maieutic.launch.requests import NewRequests
from maieutic.plan.plan import Plan

LEAST_USD = 0.005  # smaller amounts are printed as "under 0.01 USD"


class Bill(NamedTuple):
    """Cost of planned requests to hosted models, by the registry's prices.

    usd: US dollars without thinking, if all answers are as long as those of the shortest and of the longest known
    model; None if no model has a price; thinking: most US dollars more, if each request used its whole budget of
    thinking; unpriced: models without a price.
    """

    usd: AmountRange | None
    thinking: float
    unpriced: list[str]

    @property
    def text(self) -> str:
        """The bill in words, "" without a hosted model."""
        words = []
        if self.usd is not None:
            amount = f"{span_text(self.usd)} USD" if self.usd.high >= LEAST_USD else "under 0.01 USD"
            words.append(amount if amount.startswith(("between", "under")) else f"about {amount}")
        words += [f"no price for {', '.join(self.unpriced)}"] if self.unpriced else []
        words += [f"at most {self.thinking:,.2f} USD more for thinking"] if self.thinking >= LEAST_USD else []
        return "; ".join(words)


def bill_of(plan: Plan, planned: Iterable[NewRequests]) -> Bill:
    """Return the cost of planned requests."""
    costs, thinking, unpriced = list[AmountRange](), 0.0, dict[str, None]()
    for part in planned:
        entry = plan.models[part.model]
        if not part.requests or not isinstance(entry, HostedModel):
            continue
        if (price := entry.full_price) is None:
            unpriced[part.model] = None
            continue
        ends = (price.usd(part.prompt_tokens, answer, batched=entry.batch) for answer in part.answer_tokens)
        costs.append(AmountRange(*ends))
        thinking += price.usd(0, part.requests * thinking_budget(entry), batched=entry.batch)
    return Bill(total_of(costs) if costs else None, thinking, list(unpriced))
