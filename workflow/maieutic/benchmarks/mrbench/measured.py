"""This run's values for the numbers in MRBench's paper that are not about tutors of the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from maieutic.benchmarks.mrbench.printed import BENCHMARK, CRITIC_RUBRIC, CRITIC_TABLES, PAPER_TUTORS, SUBSET_SUFFIXES
from maieutic.benchmarks.mrbench.section import damr_by_tutor, table_7_values
from maieutic.core import paths
from maieutic.report.printed_numbers import Measured, MeasuredTable, model_value
from maieutic.report.sections import ReportInput
from maieutic.report.tables import read_json, score_file
from maieutic.report.traffic_light import release_rubric
from maieutic.scores.papers import PERCENT, Place
from maieutic.scores.printed import paper_name

SUBSETS = {"3": "all", "8": "bridge", "9": "mathdial"}


def is_published(run: ReportInput) -> bool:
    """Return True if a run uses the published release V1, which belongs to the paper."""
    return run.plan.edition == "published" and BENCHMARK in run.plan.releases


def rates(run: ReportInput, table: str) -> MeasuredTable:
    """Return the rates of desired labels by people, by tutor and dimension, of one table."""
    if not is_published(run):
        return {}
    scores = score_file(paths.LABEL_SCORES.within(run.results, release=BENCHMARK))
    subset = SUBSETS[table]
    return {
        Place(PAPER_TUTORS[tutor], dimension, subset=subset): Measured(PERCENT * score.value)
        for tutor, by_dimension in damr_by_tutor(scores, BENCHMARK, subset).items()
        for dimension, score in by_dimension.items()
        if tutor in PAPER_TUTORS and score.value is not None
    }


def correlations(run: ReportInput, table: str) -> MeasuredTable:
    """Return the correlation with people of the run's critic that is the paper's, in the paper's coding."""
    if not is_published(run):
        return {}
    critics = {
        paper: name for name in run.plan.run.judges if (paper := paper_name(run.plan.models[name].paper, BENCHMARK))
    }
    judge = next(
        (critics[paper] for paper, number in CRITIC_TABLES.items() if str(number) == table and paper in critics), None
    )
    if judge is None or release_rubric(run.plan, judge, BENCHMARK) != CRITIC_RUBRIC:
        return {}
    values = {}
    for score in score_file(paths.LABEL_VALIDATION.within(run.results, grader=judge)):
        if (score.metric, score.release) == ("ac_paper", BENCHMARK) and score.tutor in PAPER_TUTORS:
            value = model_value(score)
            if value:
                values[Place(PAPER_TUTORS[score.tutor], str(score.criterion))] = value
    return values


def table_7(run: ReportInput) -> MeasuredTable:
    """Return the sizes of release V1."""
    statistics = read_json(paths.LABEL_STATISTICS.within(run.results, release=BENCHMARK)) if is_published(run) else None
    if not statistics:
        return {}
    return {
        Place(label, subset=subset): Measured(value)
        for (label, subset), value in table_7_values(statistics).items()
        if value is not None
    }


MEASURED: dict[str, Callable[[ReportInput], MeasuredTable]] = {
    **{table: partial(rates, table=table) for table in SUBSET_SUFFIXES},
    **{str(table): partial(correlations, table=str(table)) for table in CRITIC_TABLES.values()},
    "7": table_7,
}
