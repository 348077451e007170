"""`maieutic estimate`: print the estimated requests, tokens and costs of a run before it starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from maieutic.config.models import VllmModel
from maieutic.core.errors import UserError, check_all
from maieutic.launch.bill import bill_of
from maieutic.launch.budget_limits import budget_text
from maieutic.launch.config_files import merged_configuration
from maieutic.launch.lengths import (
    ASSUMED_THINKING,
    NOTHING,
    REASON_TOKENS,
    VERDICT_TOKENS,
    AmountRange,
    known_replies,
    span_text,
    total_of,
)
from maieutic.launch.requests import NewRequests, about
from maieutic.launch.serving_time import (
    BANDWIDTH_SHARE,
    GPUS,
    PEAK_SHARE,
    GpuJob,
    fits_in_memory,
    parameter_count,
    queue_widths,
    server_seconds,
    wall_seconds,
)
from maieutic.launch.training_time import EXAMPLE_TOKENS, TRAINING_SHARES, training_times
from maieutic.plan.plan import Plan
from maieutic.run_plan import plan_before_pins
from maieutic.serving.backends import HELD_SEQUENCES
from maieutic.serving.budget import CHARS_A_TOKEN
from maieutic.tools.counting import count_requests

MOST_NODES, MOST_GPUS = 10_000, 128  # larger values are typing errors
ASSUMPTIONS = (
    f"a token has {CHARS_A_TOKEN:.0f} characters",
    "an answer is as long as that of the shortest, and of the longest, model whose replies were published (see below)",
    f"a judge writes {VERDICT_TOKENS:g} tokens a criterion, and up to {REASON_TOKENS:g} more for a reason",
    f"thinking before an answer: from none to the entry's budget, or {ASSUMED_THINKING:,} tokens without one",
    "answers on file are not requested again",
    'requests are looked up if their items and replies exist, and otherwise estimated (marked "about")',
    "prices are those in the registry (models.*.price), for batches where `batch` is true, and retries are free",
    "each job has its own server, which starts once",
    f"a GPU reads prompts at {PEAK_SHARE:.0%} of its peak compute (docs/cluster.md)",
    f"a GPU writes answers at {BANDWIDTH_SHARE:.0%} of its memory bandwidth (docs/cluster.md)",
    f"a tuning reads {EXAMPLE_TOKENS:,} tokens an example at {TRAINING_SHARES.low:.0%} to {TRAINING_SHARES.high:.0%} "
    "of the GPU's peak; graders take a tenth of the time that their paper states, to all of it",
    "every seed of a curation passes every stage",
    "not included: thinking of served models, tokens of pictures other than TutorBench's, and requests of extensions",
)


class EstimateRow(NamedTuple):
    """Estimate for one model in one stage. Fields that cannot be known in advance are None.

    about: words in front of the number of requests, "" if all requests were looked up; has_more: True if some jobs have
    further requests that cannot be known in advance.
    """

    stage: str
    model: str
    requests: int | None
    prompt_tokens: float
    answer_tokens: AmountRange
    usd: AmountRange | None
    gpu_hours: AmountRange | None
    about: str = ""
    has_more: bool = False


def estimate_rows(plan: Plan, gpu: str, jobs: list[NewRequests]) -> list[EstimateRow]:
    """Return one row for each stage and each model that answers in it.

    gpu: type of the GPUs that serve models; jobs: the run's new requests.
    """
    parts: dict[tuple[str, str], list[NewRequests]] = defaultdict(list)
    for part in jobs:
        parts[part.stage, part.model].append(part)
    rows = [estimate_row(plan, stage, model, of_model, gpu) for (stage, model), of_model in parts.items()]
    return [*rows, *training_estimates(plan, gpu)]


def training_estimates(plan: Plan, gpu: str) -> list[EstimateRow]:
    """Return a row for each tuning and grader that uses GPUs, the latter with its scoring. gpu: type of GPU."""
    return [
        EstimateRow(time.stage, time.name, None, 0.0, NOTHING, None, hours)
        for time in training_times(plan, gpu)
        if (hours := total_of([time.hours, time.scoring])).high
    ]


def estimate_row(plan: Plan, stage: str, model: str, jobs: list[NewRequests], gpu: str) -> EstimateRow:
    """Return the estimate for one model's jobs in a stage. gpu: type of the GPUs that serve models."""
    known = [job.requests for job in jobs if job.requests is not None]
    prompts, answers = sum(job.prompt_tokens for job in jobs), total_of([job.answer_tokens for job in jobs])
    served = [gpu_jobs(plan, jobs, gpu, end) for end in (0, 1)]
    hours = AmountRange(*(sum(job.gpus * job.seconds for job in end) / 3600 for end in served)) if served[0] else None
    requests, has_more = sum(known) if known else None, len(known) < len(jobs)
    usd = bill_of(plan, jobs).usd
    return EstimateRow(stage, model, requests, prompts, answers, usd, hours, about(jobs), has_more)


def served_seconds(
    plan: Plan, model: str, requests: int | None, prompts: float, answers: float, gpu: str
) -> float | None:
    """Return the seconds of one server for some requests, with its start; None for a model that `no_hours` names.

    prompts, answers: numbers of tokens; gpu: type of the GPUs that serve models.
    """
    entry = plan.models[model]
    size = parameter_count(model, entry)
    if not isinstance(entry, VllmModel) or not requests or size is None or not entry.needs.gpus:
        return None
    if not fits_in_memory(size, GPUS[gpu], entry.needs.gpus):
        return None
    return server_seconds(
        size, GPUS[gpu], entry.needs.gpus, requests, prompts, answers, entry.concurrency or HELD_SEQUENCES
    )


def no_hours(plan: Plan, models: Iterable[str], gpu: str) -> list[str]:
    """Return a line for each reason why served models have no GPU hours. gpu: type of the GPUs that serve models."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(models):
        entry = plan.models[name]
        if not isinstance(entry, VllmModel) or not entry.needs.gpus:
            continue
        size = parameter_count(name, entry)
        if size is None:
            by_reason["of unknown size (models.NAME.size)"].append(name)
        elif not fits_in_memory(size, GPUS[gpu], entry.needs.gpus):
            by_reason[
                f"whose weights, in bfloat16, fill more than three quarters of the memory of their GPUs ({gpu})"
            ].append(name)
    return [
        f"models {reason}, not included in GPU hours and time: {', '.join(names)}"
        for reason, names in by_reason.items()
    ]


def gpu_jobs(plan: Plan, jobs: list[NewRequests], gpu: str, end: int = 1) -> list[GpuJob]:
    """Return the jobs of a run that serve models on GPUs, each with its own server.

    end: 0 for the shortest expected answers, 1 for the longest.
    """
    served = []
    for job in jobs:
        seconds = served_seconds(plan, job.model, job.requests, job.prompt_tokens, job.answer_tokens[end], gpu)
        if seconds is not None:
            served.append(GpuJob(job.stage, job.model, plan.models[job.model].needs.gpus, seconds))
    return served


def wall_time_lines(jobs: list[GpuJob], nodes: int, gpus_per_node: int) -> list[str]:
    """Return the lines on a run's time by the number of nodes that it gets at once. Raises UserError for a wide job."""
    too_wide = sorted({job.model for job in jobs if job.gpus > gpus_per_node})
    if too_wide:
        problem = f"{', '.join(too_wide)} needs more than {gpus_per_node} GPUs on one node"
        raise UserError("--gpus-per-node", problem, "raise it, or lower needs.gpus of these models")
    if not jobs:
        return ["time: no model of this run has GPU hours"]
    parts = [
        f"{wall_seconds(jobs, width, gpus_per_node) / 3600:,.2f} h on {width} node{'' if width == 1 else 's'}"
        for width in queue_widths(nodes)
    ]
    longest = max(jobs, key=lambda job: job.seconds)
    return [
        f"time, with {gpus_per_node} GPUs a node and an empty queue: {', '.join(parts)}",
        f"the longest of {len(jobs)} jobs: {longest.model}, {longest.seconds / 3600:,.2f} h on {longest.gpus} GPU(s); "
        "`shards` in a model's entry splits its jobs",
    ]


def check_number(flag: str, number: int, most: int) -> None:
    """Raise UserError if a number of nodes or GPUs is out of range."""
    if not 1 <= number <= most:
        raise UserError(flag, f"expected a number from 1 to {most:,}, found {number}", f"set it to 1 to {most:,}")


def estimate(
    *,
    configfile: list[Path],
    gpu: Literal["a10", "l40s", "a100", "h100", "h200", "b200"] = "h100",
    nodes: int | None = None,
    gpus_per_node: int = 8,
) -> None:
    """Print the estimated requests, tokens, costs and GPU hours of a run by stage and model, with all assumptions.

    Args:
        configfile: run files, as for snakemake
        gpu: type of the GPUs for the models that this run serves itself
        nodes: most nodes that the run may get at once, to print its time
        gpus_per_node: number of GPUs of a node
    """
    from rich.console import Console
    from rich.table import Table

    raw = merged_configuration(configfile)
    plan, _ = plan_before_pins(raw)
    check_all(
        partial(check_number, flag, number, most)
        for flag, number, most in (("--nodes", nodes, MOST_NODES), ("--gpus-per-node", gpus_per_node, MOST_GPUS))
        if number is not None
    )
    jobs = count_requests(raw, plan)
    rows = estimate_rows(plan, gpu, jobs)
    times = wall_time_lines(gpu_jobs(plan, jobs, gpu), nodes, gpus_per_node) if nodes else []
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
    bill = bill_of(plan, jobs)
    unpriced = f"models without a price (models.NAME.price), not included in USD: {', '.join(bill.unpriced)}"
    thinking = f"thinking: at most {bill.thinking:,.2f} USD more" if bill.thinking else ""
    lines = [unpriced if bill.unpriced else "", thinking, budget_text(plan, jobs)]
    for line in filter(None, [*lines, *no_hours(plan, {job.model for job in jobs}, gpu), *times]):
        console.print(line, highlight=False)
    names = sorted(
        {f"{entry.model} ({benchmark})" for (benchmark, _), known in known_replies().items() for entry in known}
    )
    for line in (*ASSUMPTIONS, f"published replies: {', '.join(names)}"):
        console.print(f"- {line}", highlight=False)


def estimate_total(rows: list[EstimateRow]) -> EstimateRow:
    """Return the sum of all rows. Unknown numbers are left out."""
    known = [row.requests for row in rows if row.requests is not None]
    costs = [row.usd for row in rows if row.usd is not None]
    hours = [row.gpu_hours for row in rows if row.gpu_hours is not None]
    return EstimateRow(
        "all",
        "",
        sum(known) if known else None,
        sum(row.prompt_tokens for row in rows),
        total_of([row.answer_tokens for row in rows]),
        total_of(costs) if costs else None,
        total_of(hours) if hours else None,
        next((row.about for row in rows if row.about), ""),
        any(row.has_more for row in rows),
    )


def estimate_cells(row: EstimateRow) -> list[str]:
    """Return a row's numbers as cells of the printed table."""
    requests = "unknown" if row.requests is None else f"{row.about}{row.requests:,}{' or more' if row.has_more else ''}"
    if row.stage in ("tunings", "graders"):
        requests = "-"
    return [
        requests,
        f"{row.prompt_tokens:,.0f}",
        range_cell(row.answer_tokens, ",.0f"),
        "-" if row.usd is None else range_cell(row.usd, ",.2f"),
        "-" if row.gpu_hours is None else range_cell(row.gpu_hours, ",.2f"),
    ]


def range_cell(span: AmountRange, form: str) -> str:
    """Return a quantity as a cell of a table."""
    return span_text(span, form).removeprefix("between ").replace(" and ", " to ")
