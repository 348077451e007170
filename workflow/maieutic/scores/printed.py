"""Printed results of all benchmarks' papers, and the conditions under which our numbers are comparable with them.

A difference is meaningful only if the same thing was measured: the same complete data, the same requests and the same
grader. `difference_note` returns the first condition that is violated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from maieutic.config.models import HostedModel, JudgeModel, Model, RecordedModel, RewardModel, VllmModel
from maieutic.config.registry import unknown_name
from maieutic.core.errors import UserError
from maieutic.core.plugins import plugin_objects
from maieutic.scores.papers import Paper, PrintedResult

PAPERS: dict[str, Paper] = plugin_objects("printed", "PRINTED")


@cache
def printed_values(benchmark: str) -> tuple[PrintedResult, ...]:
    """Return the printed results of a benchmark's paper, or an empty tuple if none are recorded."""
    return tuple(PAPERS[benchmark].values()) if benchmark in PAPERS else ()


def paper_title(benchmark: str) -> str:
    """Return a benchmark's name as its paper writes it, or the folder name if no paper is recorded."""
    return PAPERS[benchmark].title if benchmark in PAPERS else benchmark


@cache
def printed_tutors() -> dict[str, tuple[str, ...]]:
    """Return the names of tutors with printed results in each benchmark's paper."""
    return {name: tuple(dict.fromkeys(row.model for row in printed_values(name))) for name in PAPERS}


def printed_names_for(model: Model) -> dict[str, Sequence[str]]:
    """Return the printed names, by benchmark, that a registry entry of this kind can refer to in `paper`."""
    if isinstance(model, JudgeModel):
        return {name: paper.judges for name, paper in PAPERS.items() if paper.judges}
    if isinstance(model, RewardModel):
        return {name: mixes for name, paper in PAPERS.items() if (mixes := paper.reward_models())}
    return dict(printed_tutors()) if isinstance(model, VllmModel | HostedModel | RecordedModel) else {}


def check_papers(models: Mapping[str, Model]) -> None:
    """Check that every model's `paper` names a row of a paper's table. Raises UserError for the first wrong one.

    A name without its benchmark must be in the tables of one benchmark only.
    """
    faults = [fault for name, model in models.items() if (fault := fault_of_paper(name, model))]
    if faults:
        first, *others = faults
        more = f" (same fault at {', '.join(other.place for other in others)})" if others else ""
        raise UserError(first.place, first.problem + more, first.fix)


def fault_of_paper(name: str, model: Model) -> UserError | None:
    """Return the error in a model's `paper`, or None if it is valid."""
    key, tables = f"models.{name}.paper", printed_names_for(model)
    if isinstance(model.paper, dict):
        for benchmark, printed in model.paper.items():
            if benchmark not in tables:
                return unknown_name(
                    f"{key}.{benchmark}", benchmark, list(tables), "the benchmarks whose papers print such models"
                )
            if printed not in tables[benchmark]:
                return unknown_name(
                    f"{key}.{benchmark}", printed, list(tables[benchmark]), f"the tables of {benchmark}'s paper"
                )
    elif model.paper is not None:
        benchmarks = [benchmark for benchmark, names in tables.items() if model.paper in names]
        if not benchmarks:
            return unknown_name(
                key, model.paper, [entry for names in tables.values() for entry in names], "any paper's table"
            )
        if len(benchmarks) > 1:
            fix = f"set paper: {{{benchmarks[0]}: {model.paper}}}"
            return UserError(key, f"{model.paper!r} is in the tables of {' and '.join(benchmarks)}", fix)
    return None


def paper_name(paper: str | dict[str, str] | None, benchmark: str) -> str | None:
    """Return a model's name in a benchmark's paper. paper: the entry's `paper`; a plain name applies to all papers."""
    return paper.get(benchmark) if isinstance(paper, dict) else paper


class MeasurementConditions(NamedTuple):
    """Conditions under which one of our numbers was measured, for the decision on comparability.

    published: True for published data; whole: True if all of its items were used; changed: True if card, prompts or
    rubric differ from the shipped ones; by: the grader's name in the papers, or its repository, None for a parser;
    deviation: deviation from the paper's requests to this tutor.
    """

    published: bool
    whole: bool
    protocol: str
    changed: bool
    by: str | None
    deviation: str | None = None


SAME_PROTOCOLS = {"released": {"released", "paper"}}  # both protocols send the requests that the paper describes


def difference_note(printed: PrintedResult, benchmark: str, ours: MeasurementConditions) -> str | None:
    """Return the reason why one of our numbers is not comparable with a printed one; None if it is comparable."""
    if benchmark in PAPERS and not PAPERS[benchmark].released:
        return "the paper's data are not released"
    if not ours.published:
        return "demo data"
    if not ours.whole:
        return "not all items"
    if ours.protocol not in SAME_PROTOCOLS.get(printed.protocol, {printed.protocol}):
        return f"protocol {ours.protocol}"
    if ours.deviation is not None:
        return ours.deviation
    if ours.changed:
        return "a card or prompt differs from the shipped one"
    if printed.by != ours.by:
        return f"graded by {printed.by or 'a parser'} in the paper"
    return None


def find_printed(values: Sequence[PrintedResult], model: str, task: str, metric: str) -> PrintedResult | None:
    """Return the printed number of a tutor, task and metric, or None."""
    return next((row for row in values if (row.model, row.task, row.metric) == (model, task, metric)), None)
