"""Limits of a run's budget against its planned requests: where the run will stop, and what a limit cannot carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maieutic.config.budget import Spending
from maieutic.config.models import HostedModel, JudgeModel, VllmModel
from maieutic.config.rubrics import read_rubric
from maieutic.core.errors import UserError
from maieutic.launch.requests import NewRequests
from maieutic.plan.plan import Plan
from maieutic.serving.backends import requests_in_flight
from maieutic.serving.budget import BYTES_A_TOKEN, CHARS_A_TOKEN, Amount, exceeded_limit


class Scope(NamedTuple):
    """Limits of a budget. key: its place in the configuration; parts: planned requests that it covers."""

    key: str
    limits: Spending
    parts: Sequence[NewRequests]


def scopes_of(plan: Plan, planned: Sequence[NewRequests]) -> Iterator[Scope]:
    """Yield the limits of a run's budget: those of all models, then those of single ones."""
    budget = plan.run.budget
    yield Scope("run.budget", budget, planned)
    for name, limits in budget.models.items():
        yield Scope(f"run.budget.models.{name}", limits, [part for part in planned if part.model == name])


def cost_in_usd(plan: Plan, model: str, prompt: float, answer: float) -> float:
    """Return the cost of tokens by the price of a registry entry; 0 without a price."""
    entry = plan.models[model]
    price = entry.full_price if isinstance(entry, HostedModel) else None
    return price.usd(prompt, answer, batched=entry.batch) if price and isinstance(entry, HostedModel) else 0.0


def budget_text(plan: Plan, planned: Sequence[NewRequests]) -> str:
    """Return the limits of the run's budget that even short answers to its new requests exceed, as text, or ""."""
    exceeded = []
    for place, limits, parts in scopes_of(plan, planned):
        needed = {
            "requests": sum(part.requests or 0 for part in parts),
            "tokens": round(sum(part.prompt_tokens + part.answer_tokens.low for part in parts)),
            "usd": sum(cost_in_usd(plan, part.model, part.prompt_tokens, part.answer_tokens.low) for part in parts),
        }
        for key, number in needed.items():
            limit = getattr(limits, key)
            if limit is not None and number > limit:
                exceeded.append(f"{place}.{key} ({limit:g}; needed: at least {number:,.{2 if key == 'usd' else 0}f})")
    return f"the run will stop at {', '.join(exceeded)}" if exceeded else ""


def least_answer_limit(plan: Plan, asker: str, model: str) -> int | None:
    """Return the smallest `most_tokens` or `max_tokens` of a tutor's or judge's requests; None for other steps."""
    entry, judge = plan.models[model], plan.models.get(asker)
    if not isinstance(entry, HostedModel | VllmModel):
        return None
    if entry.most_tokens is not None:
        return entry.most_tokens
    if isinstance(judge, JudgeModel):
        if judge.max_tokens is not None:
            return judge.max_tokens + entry.thinking_tokens
        limits = [entry.token_limit(read_rubric(name).rubric.max_tokens) for name in judge.rubrics]
    else:
        cards = [loaded.card for loaded in plan.cards.values() if plan.is_answered_by(loaded.card, asker)]
        limits = [entry.token_limit(card.max_tokens, plan.run.max_tokens) for card in cards]
    return min(limits, default=None)


def most_of_one(plan: Plan, part: NewRequests) -> Amount | None:
    """Return what the budget reserves for a typical request of a job; None if that is not known in advance."""
    answer = least_answer_limit(plan, part.asker, part.model) if part.requests else None
    if answer is None or not part.requests:
        return None
    prompt = round(part.prompt_tokens / part.requests * CHARS_A_TOKEN / BYTES_A_TOKEN)
    return Amount(1, prompt + answer, cost_in_usd(plan, part.model, prompt, answer))


def check_one_request_is_paid(plan: Plan, planned: Sequence[NewRequests]) -> None:
    """Raise UserError, with all of them, for limits of the budget that are below the most of one request."""
    faults = {}
    for key, limits, parts in scopes_of(plan, planned):
        for part in parts:
            most = most_of_one(plan, part)
            if most is not None and (limit := exceeded_limit(limits, most)):
                problem = f"{limit} is less than one request to {part.model} can cost ({most})"
                fix = f"raise this limit, or lower max_tokens or most_tokens of models.{part.model}"
                faults[key, part.model] = UserError(key, problem, fix)
    if faults:
        raise UserError.of(list(faults.values()))


def concurrency_lines(plan: Plan, planned: Sequence[NewRequests]) -> list[str]:
    """Return a line for each limit that cannot carry as many requests at once as a model may have in flight."""
    lines = {}
    for key, limits, parts in scopes_of(plan, planned):
        for part in parts:
            entry, most = plan.models[part.model], most_of_one(plan, part)
            if most is None or not isinstance(entry, HostedModel | VllmModel):
                continue
            at_once = entry.concurrency or requests_in_flight(entry)
            limited = [
                int(limit // cost)
                for limit, cost in ((limits.tokens, most.tokens), (limits.usd, most.usd))
                if limit is not None and cost
            ]
            if limited and min(limited) < at_once:
                lines[key, part.model] = (
                    f"{key} carries at most {min(limited)} requests to {part.model} at once, of {at_once} by its "
                    f"concurrency (each can cost {most}); others wait until the answers are settled"
                )
    return list(lines.values())
