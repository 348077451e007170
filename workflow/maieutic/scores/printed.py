"""Results printed in the benchmarks' papers, and the conditions under which our numbers are comparable with them.

Our number and the paper's are comparable only if both were measured on the same complete data, with the same requests
and by the same grader. `difference_note` returns the first condition that is violated.
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
    """Return the results that a benchmark's paper prints for tutors; empty if no paper is recorded."""
    return tuple(PAPERS[benchmark].values()) if benchmark in PAPERS else ()


def paper_title(benchmark: str) -> str:
    """Return the name of a benchmark as its paper writes it, or the given folder name if no paper is recorded."""
    return PAPERS[benchmark].title if benchmark in PAPERS else benchmark


@cache
def printed_tutors() -> dict[str, tuple[str, ...]]:
    """Return, by benchmark, the names of the tutors for which its paper prints results."""
    return {name: tuple(dict.fromkeys(row.model for row in printed_values(name))) for name in PAPERS}


def printed_names_for(model: Model) -> dict[str, Sequence[str]]:
    """Return, by benchmark, the names in its paper that `paper` of a registry entry of this kind may contain."""
    if isinstance(model, JudgeModel):
        return {name: paper.judges for name, paper in PAPERS.items() if paper.judges}
    if isinstance(model, RewardModel):
        return {name: mixes for name, paper in PAPERS.items() if (mixes := paper.reward_models())}
    return dict(printed_tutors()) if isinstance(model, VllmModel | HostedModel | RecordedModel) else {}


def check_papers(models: Mapping[str, Model]) -> None:
    """Check that every model's `paper` names a row in a paper's table. Raises UserError for a name that does not.

    A name without a benchmark must be in the tables of exactly one paper.
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
                    f"{key}.{benchmark}",
                    benchmark,
                    list(tables),
                    "the benchmarks with results of such models in a paper",
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
    """Return a model's name in a benchmark's paper, or None.

    paper: value of `paper` in the model's registry entry; a plain name applies to all papers.
    """
    return paper.get(benchmark) if isinstance(paper, dict) else paper


class MeasurementConditions(NamedTuple):
    """Conditions under which one of our numbers was measured, to decide whether it is comparable with a paper's.

    published: True for published data, False for demo data; whole: True if all items were used; protocol: protocol of
    the requests; changed: True if card, prompts or rubric differ from the shipped ones; by: the grader's name in the
    papers, or its repository, None for a parser; deviation: how the requests to this tutor deviate from those in the
    paper, None if they do not.
    """

    published: bool
    whole: bool
    protocol: str
    changed: bool
    by: str | None
    deviation: str | None = None


# Our protocols that send the same requests as a protocol in a paper. The protocol `paper` equals `released`, since both
# send the requests that the paper describes.
SAME_PROTOCOLS = {"released": {"released", "paper"}}


def difference_note(printed: PrintedResult, benchmark: str, ours: MeasurementConditions) -> str | None:
    """Return the reason why one of our numbers is not comparable with a paper's; None if it is comparable."""
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
    """Return the printed result for a tutor, task and metric, or None if the paper prints none.

    model: the tutor's name in the paper.
    """
    return next((row for row in values if (row.model, row.task, row.metric) == (model, task, metric)), None)
