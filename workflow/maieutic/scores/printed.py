"""The papers' own numbers of their tutors, benchmark by benchmark in one form, and when ours may stand beside them.

A difference says something only where the same thing was measured: the same data, all of them, asked in the same way,
and graded by the same grader. `difference_note` gives the first reason why not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from maieutic.config.models import HostedModel, JudgeModel, Model, RecordedModel, RewardModel, VllmModel
from maieutic.config.registry import unknown
from maieutic.core.errors import UserError
from maieutic.core.plugins import parts
from maieutic.scores.papers import Paper, Printed

PAPERS: dict[str, Paper] = parts("printed", "PRINTED")


@cache
def printed_values(benchmark: str) -> tuple[Printed, ...]:
    """The paper's own results; empty for a benchmark whose paper's numbers are not on file."""
    return tuple(PAPERS[benchmark].values()) if benchmark in PAPERS else ()


def paper_title(benchmark: str) -> str:
    """A benchmark's name as people write it: its paper's, else that of its folder."""
    return PAPERS[benchmark].title if benchmark in PAPERS else benchmark


@cache
def names_of_tutors() -> dict[str, tuple[str, ...]]:
    """By benchmark the tutors that its paper prints."""
    return {name: tuple(dict.fromkeys(row.model for row in printed_values(name))) for name in PAPERS}


def names_for(model: Model) -> dict[str, Sequence[str]]:
    """By benchmark the names that a registry entry of this kind may claim to be."""
    if isinstance(model, JudgeModel):
        return {name: paper.judges for name, paper in PAPERS.items() if paper.judges}
    if isinstance(model, RewardModel):
        return {name: mixes for name, paper in PAPERS.items() if (mixes := paper.reward_models())}
    return dict(names_of_tutors()) if isinstance(model, VllmModel | HostedModel | RecordedModel) else {}


def check_papers(models: Mapping[str, Model]) -> None:
    """Every `paper` names a row of a paper's table. Raises UserError for the first that does not, and names the others.

    A bare name has to be in one benchmark's table alone.
    """
    faults = [fault for name, model in models.items() if (fault := paper_fault(name, model))]
    if faults:
        first, *others = faults
        more = f" (so are {', '.join(other.place for other in others)})" if others else ""
        raise UserError(first.place, first.problem + more, first.mend)


def paper_fault(name: str, model: Model) -> UserError | None:
    """What is wrong with a model's `paper`."""
    key, tables = f"models.{name}.paper", names_for(model)
    if isinstance(model.paper, dict):
        for benchmark, printed in model.paper.items():
            if benchmark not in tables:
                return unknown(
                    f"{key}.{benchmark}", benchmark, list(tables), "the benchmarks whose papers print such models"
                )
            if printed not in tables[benchmark]:
                return unknown(
                    f"{key}.{benchmark}", printed, list(tables[benchmark]), f"the tables of {benchmark}'s paper"
                )
    elif model.paper is not None:
        benchmarks = [benchmark for benchmark, names in tables.items() if model.paper in names]
        if not benchmarks:
            return unknown(
                key, model.paper, [entry for names in tables.values() for entry in names], "any paper's table"
            )
        if len(benchmarks) > 1:
            mend = f"say which one: paper: {{{benchmarks[0]}: {model.paper}}}"
            return UserError(key, f"{model.paper!r} is in the tables of {' and '.join(benchmarks)}", mend)
    return None


def paper_name(paper: str | dict[str, str] | None, benchmark: str) -> str | None:
    """A model's name in one benchmark's paper. paper: the registry's key; a bare name is of whatever table has it."""
    return paper.get(benchmark) if isinstance(paper, dict) else paper


class Circumstances(NamedTuple):
    """How a number of ours came about, as far as it decides on a comparison.

    whole: it rests on all items of the published data; changed: card, prompts or rubric differ from the shipped ones;
    by: the grader's name in the papers, or its repository; None: a parser; otherwise: what was not the paper's way of
    asking this tutor.
    """

    published: bool
    whole: bool
    protocol: str
    changed: bool
    by: str | None
    otherwise: str | None = None


SAME_PROTOCOLS = {"released": {"released", "paper"}}  # both are what a paper says that it asked


def difference_note(printed: Printed, benchmark: str, ours: Circumstances) -> str | None:
    """Why a number of ours may not be compared with a printed one; None: it may."""
    if benchmark in PAPERS and not PAPERS[benchmark].released:
        return "the paper's data are not released"
    if not ours.published:
        return "demo data"
    if not ours.whole:
        return "not all items"
    if ours.protocol not in SAME_PROTOCOLS.get(printed.protocol, {printed.protocol}):
        return f"protocol {ours.protocol}"
    if ours.otherwise is not None:
        return ours.otherwise
    if ours.changed:
        return "another card or prompt than the shipped one"
    if printed.by != ours.by:
        return f"the paper: by {printed.by or 'a parser'}"
    return None


def printed_of(values: Sequence[Printed], model: str, task: str, metric: str) -> Printed | None:
    """One number of a table."""
    return next((row for row in values if (row.model, row.task, row.metric) == (model, task, metric)), None)
