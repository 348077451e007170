"""`maieutic estimate`: what a run will ask, read and write, and what that costs, before it starts."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Literal, NamedTuple

from maieutic.config.models import HostedModel, VllmModel
from maieutic.core.errors import UserError
from maieutic.plan.pinning import configuration
from maieutic.plan.plan import Plan
from maieutic.plan.rehearsal import Rehearsal
from maieutic.plan.requests import CHARS_A_TOKEN, VERDICT_TOKENS, NewRequests, new_requests
from maieutic.plan.rules import plan_before_pins
from maieutic.plan.scale import BUSY, GPUS, STREAMING, seconds_of, weights_of
from maieutic.plan.telling import usd

ASSUMPTIONS = (
    f"a token is {CHARS_A_TOKEN:.0f} characters",
    f"an answer is as long as the human reference's, a verdict {VERDICT_TOKENS} tokens",
    "what is on file is not asked again; requests are counted where a task's items are there, else supposed (about)",
    "prices are those of the registry (models.*.price), retries are free",
    f"a GPU reads prompts at {BUSY:.0%} of its peak and writes at {STREAMING:.0%} of its bandwidth (docs/scale.md)",
    "not in it: pictures' tokens, training, reward models, what extensions ask, the thinking of models that think",
)


class Row(NamedTuple):
    """What one model answers in one stage. None: it cannot be known before."""

    stage: str
    model: str
    requests: int | None
    prompt_tokens: float
    answer_tokens: float
    usd: float | None
    gpu_hours: float | None
    exact: bool


def rows_of(plan: Plan, gpu: str) -> list[Row]:
    """One row a stage and model that answers. gpu: the kind that serves."""
    parts: dict[tuple[str, str], list[NewRequests]] = defaultdict(list)
    with Rehearsal(plan) as rehearsal:
        asked = new_requests(plan, rehearsal)
    for part in asked:
        parts[part.stage, part.model].append(part)
    return [row_of(plan, stage, model, of_model, gpu) for (stage, model), of_model in parts.items()]


def row_of(plan: Plan, stage: str, model: str, asked: list[NewRequests], gpu: str) -> Row:
    """Several jobs of one model together."""
    known = [part.requests for part in asked if part.requests is not None]
    requests = sum(known) if len(known) == len(asked) else None
    prompts, answers = sum(part.prompt_tokens for part in asked), sum(part.answer_tokens for part in asked)
    entry, hours = plan.models[model], None
    if isinstance(entry, VllmModel) and requests and (size := weights_of(model, entry)) and entry.needs.gpus:
        gpus = entry.needs.gpus
        seconds = seconds_of(size, GPUS[gpu], gpus, requests, prompts, answers, entry.concurrency)
        hours = gpus * seconds / 3600
    exact = all(part.exact for part in asked)
    return Row(stage, model, requests, prompts, answers, usd(plan, model, prompts, answers), hours, exact)


def estimate(*, configfile: list[Path], gpu: Literal["a10", "l40s", "a100", "h100", "h200", "b200"] = "h100") -> None:
    """Print requests, tokens, money and GPU hours of a run, by stage and model, with what they rest on.

    configfile: run files, as of snakemake; gpu: the kind that serves the models which this run serves itself.
    """
    from rich.console import Console
    from rich.table import Table

    plan, _ = plan_before_pins(configuration(configfile))
    rows = rows_of(plan, gpu)
    if not rows:
        raise UserError("run.tutors", "no model of this run is asked anything", "name a served or hosted tutor")
    table = Table(title="What this run will ask", padding=0)
    table.add_column("stage", no_wrap=True)
    table.add_column("model", overflow="fold", min_width=14)
    for name in ("requests", "prompt\ntokens", "answer\ntokens", "USD", f"GPU hours\n({gpu})"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.stage, row.model, *cells_of(row))
    if len(rows) > 1:
        table.add_section()
        table.add_row("all", "", *cells_of(total_of(rows)))
    console = Console()
    console.print(table)
    if unpriced := [row.model for row in rows if row.usd is None and isinstance(plan.models[row.model], HostedModel)]:
        names = list(dict.fromkeys(unpriced))
        console.print(
            f"{len(names)} without a price, not in USD: {', '.join(names)} (models.NAME.price)", highlight=False
        )
    for line in ASSUMPTIONS:
        console.print(f"- {line}", highlight=False)


def total_of(rows: list[Row]) -> Row:
    """All rows together; of money and hours those that are known."""
    known = [row.requests for row in rows if row.requests is not None]
    costs = [row.usd for row in rows if row.usd is not None]
    hours = [row.gpu_hours for row in rows if row.gpu_hours is not None]
    return Row(
        "all",
        "",
        sum(known) if len(known) == len(rows) else None,
        sum(row.prompt_tokens for row in rows),
        sum(row.answer_tokens for row in rows),
        sum(costs) if costs else None,
        sum(hours) if hours else None,
        all(row.exact for row in rows),
    )


def cells_of(row: Row) -> list[str]:
    """A row's numbers as they are shown."""
    about = "" if row.exact else "about "
    return [
        "unknown" if row.requests is None else f"{about}{row.requests:,}",
        f"{row.prompt_tokens:,.0f}",
        f"{row.answer_tokens:,.0f}",
        "-" if row.usd is None else f"{row.usd:,.2f}",
        "-" if row.gpu_hours is None else f"{row.gpu_hours:,.2f}",
    ]
