"""What a run took, by stage and by tutor or judge: requests, tokens, money, GPU hours and energy of shared servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from maieutic.config.models import RecordedModel
from maieutic.core import paths
from maieutic.core.ledger import spent_since, whole_lines
from maieutic.report.record.opened import OpenRun
from maieutic.report.tables import label_of, runtime_table
from maieutic.report.trust import cost_rows
from maieutic.serving.keeper import DOING

NOT_MEASURED = "not measured"
HOUR = 3600.0  # seconds
Number = float | None


class Work(NamedTuple):
    """What one tutor or judge was asked in one stage. model: the entry whose server answered; tokens: all of them."""

    name: str
    title: str
    model: str
    tokens: int
    measured: dict[str, Number]


class Server(NamedTuple):
    """All servers of one model: GPU hours and joules by what they did; None for joules that nobody counted."""

    hours: dict[str, float]
    joules: dict[str, Number]


def works(run: OpenRun) -> Iterator[Work]:
    """Every stage of every tutor and judge."""
    for row in runtime_table(run.plan, run.results).to_dict("records"):
        tutor, benchmark = row["tutor"], row["benchmark"]
        asked = not isinstance(run.plan.models[tutor], RecordedModel)
        measured = {
            "requests": row["requests"] if asked else None,
            "prompt tokens": row["prompt_tokens"] or None,
            "generated tokens": row["completion_tokens"] or None,
            "request seconds": row["request_seconds"] or None,
            "US dollars": None if row["usd"] != row["usd"] else row["usd"],
        }
        tokens = row["prompt_tokens"] + row["completion_tokens"]
        yield Work(f"{tutor}-{benchmark}", f"{tutor} on {benchmark}", tutor, tokens, measured)
    for judged in cost_rows(run.plan, run.results):
        judge, what = judged["name"], judged["what"]
        prompt, generated = judged["tokens"]
        measured = {
            "questions": judged["questions"],
            "prompt tokens": prompt or None,
            "generated tokens": generated or None,
            "US dollars": judged["usd"],
        }
        # The judges of a panel are asked, and counted themselves.
        tokens, model = (0, "") if judged["panel"] else (prompt + generated, run.plan.answering(judge))
        yield Work(f"{judge}-{what}", f"{label_of(run.plan, judge)} on {what}", model, tokens, measured)


def servers(run: OpenRun) -> dict[str, Server]:
    """The servers of each model of a run, by the record that they leave when they end."""
    path = paths.SERVER_RECORD.within(run.results)
    lines = list(whole_lines(path)) if path.exists() else []
    own: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        if line["model"] in run.plan.models:
            own[line["model"]].append(line)
    return {
        model: Server(
            {doing: sum(one["gpus"] * one[f"{doing}_seconds"] for one in of) / HOUR for doing in DOING},
            {doing: total([one.get(f"{doing}_joules") for one in of]) for doing in DOING},
        )
        for model, of in own.items()
    }


def total(numbers: list[Number]) -> Number:
    """A sum; None where one of its parts was not measured."""
    known = [number for number in numbers if number is not None]
    return sum(known) if numbers and len(known) == len(numbers) else None


def tokens_by_model(run: OpenRun) -> dict[str, int]:
    """The tokens that each model has read and made for whoever asked it in this folder of results, by the ledgers.

    Several runs may share a folder, and with it servers.
    """
    entries = run.plan.models
    tokens: dict[str, int] = defaultdict(int)
    for line in spent_since("", paths.JOURNALS.within(run.results)):
        model = line.model or (run.plan.answering(line.asker) if line.asker in entries else line.asker)
        tokens[model] += line.prompt_tokens + line.completion_tokens
    return tokens


def with_shares(
    found: list[Work], kept: dict[str, Server], asked: Mapping[str, int]
) -> Iterator[tuple[Work, dict[str, Number]]]:
    """Each work with what it was measured to take, and its part of what its model's servers took while busy.

    A server does not know whose tokens it makes: work has a part of it by its tokens, prompts included, of all that the
    model was asked. What servers take while they start and idle is nobody's. asked: tokens by model, of every run of
    the folder; a model that was asked less than this run's work says has lost lines, and nothing is shared out.
    """
    tokens: dict[str, int] = defaultdict(int)
    for work in found:
        tokens[work.model] += work.tokens
    for work in found:
        server, all_tokens = kept.get(work.model), asked.get(work.model, 0)
        taken: dict[str, Number] = {"GPU hours": None, "joules": None}
        if server and work.tokens and all_tokens >= tokens[work.model]:
            part, joules = work.tokens / all_tokens, server.joules["busy"]
            taken = {"GPU hours": part * server.hours["busy"], "joules": None if joules is None else part * joules}
        yield work, {**work.measured, **taken}


def shown(name: str, number: Number) -> str:
    """A number in the digits that its kind has, or that nobody measured it."""
    if number is None:
        return NOT_MEASURED
    return {"GPU hours": f"{number:.3f}", "joules": f"{number:.0f}"}.get(name, f"{number}")


def told(measured: dict[str, Number]) -> str:
    """Numbers with their names, or that nobody measured them."""
    return ", ".join(f"{name}: {shown(name, number)}" for name, number in measured.items())
