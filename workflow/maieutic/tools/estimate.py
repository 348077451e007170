"""`maieutic estimate`: print the estimated requests, tokens and costs of a run before it starts."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Literal, NamedTuple

from maieutic.config.models import HostedModel, VllmModel
from maieutic.core.errors import UserError
from maieutic.launch.messages import registry_cost
from maieutic.launch.rehearsal import Rehearsal
from maieutic.launch.requests import CHARS_A_TOKEN, VERDICT_TOKENS, NewRequests, new_requests
from maieutic.plan.plan import Plan
from maieutic.plan.rules import plan_before_pins
from maieutic.tools.pinning import merged_configuration
from maieutic.tools.serving_time import BANDWIDTH_SHARE, GPUS, PEAK_SHARE, parameter_count, server_seconds

ASSUMPTIONS = (
    f"a token has {CHARS_A_TOKEN:.0f} characters",
    f"an answer is as long as the human reference, and a verdict has {VERDICT_TOKENS} tokens",
    "answers on file are not requested again",
    'requests are counted if the items of a task exist, and otherwise estimated (marked "about")',
    "prices are those in the registry (models.*.price), and retries are free",
    f"a GPU reads prompts at {PEAK_SHARE:.0%} of its peak compute (docs/scale.md)",
    f"a GPU writes answers at {BANDWIDTH_SHARE:.0%} of its memory bandwidth (docs/scale.md)",
    "not included: reasoning tokens, tokens of pictures, training, reward models and requests of extensions",
)


class EstimateRow(NamedTuple):
    """Estimate for one model in one stage. Fields that cannot be known in advance are None.

    exact: True if all requests were counted, False if some were estimated.
    """

    stage: str
    model: str
    requests: int | None
    prompt_tokens: float
    answer_tokens: float
    usd: float | None
    gpu_hours: float | None
    exact: bool


def estimate_rows(plan: Plan, gpu: str) -> list[EstimateRow]:
    """Return one row for each stage and each model that answers in it. gpu: type of the GPUs that serve models."""
    parts: dict[tuple[str, str], list[NewRequests]] = defaultdict(list)
    with Rehearsal(plan) as rehearsal:
        jobs = new_requests(plan, rehearsal)
    for part in jobs:
        parts[part.stage, part.model].append(part)
    return [estimate_row(plan, stage, model, of_model, gpu) for (stage, model), of_model in parts.items()]


def estimate_row(plan: Plan, stage: str, model: str, jobs: list[NewRequests], gpu: str) -> EstimateRow:
    """Return the estimate for one model's jobs in a stage. gpu: type of the GPUs that serve models."""
    known = [job.requests for job in jobs if job.requests is not None]
    requests = sum(known) if len(known) == len(jobs) else None
    prompts, answers = sum(job.prompt_tokens for job in jobs), sum(job.answer_tokens for job in jobs)
    entry, hours = plan.models[model], None
    if isinstance(entry, VllmModel) and requests and (size := parameter_count(model, entry)) and entry.needs.gpus:
        gpus = entry.needs.gpus
        seconds = server_seconds(size, GPUS[gpu], gpus, requests, prompts, answers, entry.concurrency)
        hours = gpus * seconds / 3600
    exact = all(job.exact for job in jobs)
    return EstimateRow(
        stage, model, requests, prompts, answers, registry_cost(plan, model, prompts, answers), hours, exact
    )


def estimate(*, configfile: list[Path], gpu: Literal["a10", "l40s", "a100", "h100", "h200", "b200"] = "h100") -> None:
    """Print the estimated requests, tokens, costs and GPU hours of a run by stage and model, with all assumptions.

    configfile: run files, as for snakemake. gpu: type of the GPUs for the models that this run serves itself.
    """
    from rich.console import Console
    from rich.table import Table

    plan, _ = plan_before_pins(merged_configuration(configfile))
    rows = estimate_rows(plan, gpu)
    if not rows:
        raise UserError("run.tutors", "this run sends no requests to any model", "add a served or hosted tutor")
    table = Table(title="Estimated requests of this run", padding=0)
    table.add_column("stage", no_wrap=True)
    table.add_column("model", overflow="fold", min_width=14)
    for name in ("requests", "prompt\ntokens", "answer\ntokens", "USD", f"GPU hours\n({gpu})"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.stage, row.model, *estimate_cells(row))
    if len(rows) > 1:
        table.add_section()
        table.add_row("all", "", *estimate_cells(estimate_total(rows)))
    console = Console()
    console.print(table)
    if unpriced := [row.model for row in rows if row.usd is None and isinstance(plan.models[row.model], HostedModel)]:
        names = list(dict.fromkeys(unpriced))
        console.print(
            f"models without a price (models.NAME.price), not included in USD: {', '.join(names)}",
            highlight=False,
        )
    for line in ASSUMPTIONS:
        console.print(f"- {line}", highlight=False)


def estimate_total(rows: list[EstimateRow]) -> EstimateRow:
    """Return the sum of all rows. Unknown costs and GPU hours are left out.

    The number of requests is None if it is unknown for any row.
    """
    known = [row.requests for row in rows if row.requests is not None]
    costs = [row.usd for row in rows if row.usd is not None]
    hours = [row.gpu_hours for row in rows if row.gpu_hours is not None]
    return EstimateRow(
        "all",
        "",
        sum(known) if len(known) == len(rows) else None,
        sum(row.prompt_tokens for row in rows),
        sum(row.answer_tokens for row in rows),
        sum(costs) if costs else None,
        sum(hours) if hours else None,
        all(row.exact for row in rows),
    )


def estimate_cells(row: EstimateRow) -> list[str]:
    """Return a row's numbers as cells of the printed table."""
    about = "" if row.exact else "about "
    return [
        "unknown" if row.requests is None else f"{about}{row.requests:,}",
        f"{row.prompt_tokens:,.0f}",
        f"{row.answer_tokens:,.0f}",
        "-" if row.usd is None else f"{row.usd:,.2f}",
        "-" if row.gpu_hours is None else f"{row.gpu_hours:,.2f}",
    ]
