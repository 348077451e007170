"""Costs of a run by tutor, judge and stage: requests, tokens, money, and GPU hours and energy of shared servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from maieutic.config.models import RecordedModel
from maieutic.core import paths
from maieutic.core.ledger import spent_since, valid_json_lines
from maieutic.record.finished_run import FinishedRun, results_folder_of
from maieutic.report.tables import display_label, runtime_table
from maieutic.report.trust import cost_rows
from maieutic.serving.lease_manager import ACTIVITIES

NOT_MEASURED = "not measured"
SECONDS_PER_HOUR = 3600.0
MeasuredNumber = float | None


class StageCost(NamedTuple):
    """Cost of one tutor on one benchmark, or of one judge on one set of replies.

    model: registry entry of the model that answered, empty for a panel; tokens: number of prompt and generated tokens,
    0 for a panel; measured: requests, tokens, seconds and dollars by name, each None if it was not measured.
    """

    name: str
    title: str
    model: str
    tokens: int
    measured: dict[str, MeasuredNumber]


class ServerCost(NamedTuple):
    """GPU hours and joules of all servers of one model, each by activity. Joules are None if they were not measured."""

    hours: dict[str, float]
    joules: dict[str, MeasuredNumber]


def stage_costs(run: FinishedRun) -> Iterator[StageCost]:
    """Yield the cost of each tutor on each benchmark, and of each judge on each set of replies that it judged."""
    for row in runtime_table(run.plan, run.results).to_dict("records"):
        tutor, benchmark = row["tutor"], row["benchmark"]
        calls_model = not isinstance(run.plan.models[tutor], RecordedModel)
        measured = {
            "requests": row["requests"] if calls_model else None,
            "prompt tokens": row["prompt_tokens"] or None,
            "generated tokens": row["completion_tokens"] or None,
            "request seconds": row["request_seconds"] or None,
            "US dollars": None if row["usd"] != row["usd"] else row["usd"],
        }
        tokens = row["prompt_tokens"] + row["completion_tokens"]
        yield StageCost(f"{tutor}-{benchmark}", f"{tutor} on {benchmark}", tutor, tokens, measured)
    for judged in cost_rows(run.plan, run.results):
        judge, target = judged["name"], judged["what"]
        prompt, generated = judged["tokens"]
        measured = {
            "questions": judged["questions"],
            "prompt tokens": prompt or None,
            "generated tokens": generated or None,
            "US dollars": judged["usd"],
        }
        # A panel itself sends no requests. The tokens of its judges are counted under each judge.
        tokens, model = (0, "") if judged["panel"] else (prompt + generated, run.plan.answering_entry(judge))
        yield StageCost(f"{judge}-{target}", f"{display_label(run.plan, judge)} on {target}", model, tokens, measured)


def server_costs(run: FinishedRun) -> dict[str, ServerCost]:
    """Return the cost of each model's servers, from the records that the servers write when they shut down."""
    path = paths.SERVER_RECORD.within(results_folder_of(run.folder))
    records = list(valid_json_lines(path)) if path.exists() else []
    lines_by_model: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in records:
        if line["model"] in run.plan.models:
            lines_by_model[line["model"]].append(line)
    return {
        model: ServerCost(
            {
                doing: sum(line["gpus"] * line[f"{doing}_seconds"] for line in lines) / SECONDS_PER_HOUR
                for doing in ACTIVITIES
            },
            {doing: sum_if_measured([line.get(f"{doing}_joules") for line in lines]) for doing in ACTIVITIES},
        )
        for model, lines in lines_by_model.items()
    }


def sum_if_measured(numbers: list[MeasuredNumber]) -> MeasuredNumber:
    """Return the sum of the numbers, or None if the list is empty or contains None (not measured)."""
    known = [number for number in numbers if number is not None]
    return sum(known) if numbers and len(known) == len(numbers) else None


def tokens_by_model(run: FinishedRun) -> dict[str, int]:
    """Return each model's number of prompt and generated tokens, from the ledgers of all runs in the results folder.

    All of these runs are counted since they may share servers.
    """
    entries = run.plan.models
    tokens: dict[str, int] = defaultdict(int)
    for line in spent_since("", paths.JOURNALS.within(results_folder_of(run.folder))):
        model = line.model or (run.plan.answering_entry(line.asker) if line.asker in entries else line.asker)
        tokens[model] += line.prompt_tokens + line.completion_tokens
    return tokens


def with_server_shares(
    work_list: list[StageCost], servers_by_model: dict[str, ServerCost], model_tokens: Mapping[str, int]
) -> Iterator[tuple[StageCost, dict[str, MeasuredNumber]]]:
    """Yield each cost in `work_list` with its measured quantities and its share of the servers' busy time and energy.

    A server does not record for which tutor or judge it processes tokens. Busy GPU hours and joules are therefore
    divided in proportion to prompt and generated tokens. Start-up and idle time are not divided. model_tokens: number
    of tokens by model over all runs in the results folder. If this number is smaller than in `work_list`, ledger lines
    are missing, and the shares of the model's costs are None.
    """
    tokens: dict[str, int] = defaultdict(int)
    for work in work_list:
        tokens[work.model] += work.tokens
    for work in work_list:
        server, all_tokens = servers_by_model.get(work.model), model_tokens.get(work.model, 0)
        taken: dict[str, MeasuredNumber] = {"GPU hours": None, "joules": None}
        if server and work.tokens and all_tokens >= tokens[work.model]:
            part, joules = work.tokens / all_tokens, server.joules["busy"]
            taken = {"GPU hours": part * server.hours["busy"], "joules": None if joules is None else part * joules}
        yield work, {**work.measured, **taken}


def format_quantity(name: str, number: MeasuredNumber) -> str:
    """Format a quantity with the number of decimals usual for its name; None becomes NOT_MEASURED."""
    if number is None:
        return NOT_MEASURED
    return {"GPU hours": f"{number:.3f}", "joules": f"{number:.0f}"}.get(name, f"{number}")


def format_quantities(measured: dict[str, MeasuredNumber]) -> str:
    """Format measured quantities as `name: value`, separated by commas."""
    return ", ".join(f"{name}: {format_quantity(name, number)}" for name, number in measured.items())
