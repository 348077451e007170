"""This run's values for the numbers in MRBench's paper that are not about tutors of the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from maieutic.benchmarks.mrbench.printed import BENCHMARK, CRITIC_RUBRIC, CRITIC_TABLES, PAPER_TUTORS, SUBSET_SUFFIXES
from maieutic.benchmarks.mrbench.section import PRINTED_N, damr_by_tutor, is_attainable, table_7_values
from maieutic.core import paths
from maieutic.report.printed_numbers import Measured, MeasuredTable, computed_value, model_value, verdict_on_cell
from maieutic.report.sections import ReportInput
from maieutic.report.tables import read_json, score_file
from maieutic.report.traffic_light import release_rubric
from maieutic.scores.papers import PERCENT, Place, printed_rows
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
        Place(PAPER_TUTORS[tutor], dimension, subset=subset): Measured(PERCENT * score.value, "other release")
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
        Place(label, subset=subset): Measured(value, "other release")
        for (label, subset), value in table_7_values(statistics).items()
        if value is not None
    }


def remarks_on_release(run: ReportInput) -> list[str]:
    """Return sentences on the differences between the paper's tables and the public releases."""
    counts = {subset: dialogues(run, BENCHMARK, subset) for subset in PRINTED_N}
    if not all(counts.values()):
        return []
    cells = {
        table: {(row.row, row.metric): row for row in printed_rows(BENCHMARK) if row.table == table}
        for table in SUBSETS
    }
    lines = [
        f"Tables 3, 7, 8 and 9 are of a release that is not public. V1 has {counts['bridge']} dialogues from Bridge "
        f"and {counts['mathdial']} from MathDial; the paper counts {PRINTED_N['bridge']} and {PRINTED_N['mathdial']}."
    ]
    if newer := dialogues(run, "mrbench_v2", "mathdial"):
        of_paper, of_newer = (
            sum(is_attainable(row.value, number) for row in cells["9"].values())
            for number in (PRINTED_N["mathdial"], newer)
        )
        lines.append(
            f"{of_newer} of Table 9's {len(cells['9'])} values are shares of {newer} replies, as many as V2 has from "
            f"MathDial; {of_paper} of the {PRINTED_N['mathdial']} that the paper counts."
        )
    weights = [("8", PRINTED_N["bridge"] / PRINTED_N["all"]), ("9", PRINTED_N["mathdial"] / PRINTED_N["all"])]
    means = {
        key: computed_value((weight, cells[table][key]) for table, weight in weights)
        for key in cells["3"].keys() & cells["8"].keys() & cells["9"].keys()
    }
    odd = [
        f"{row}, {metric.replace('_', ' ')}: {cells['3'][row, metric].value:.2f} instead of {mean.value:.2f}"
        for (row, metric), mean in sorted(means.items())
        if verdict_on_cell(cells["3"][row, metric], mean) == "contradicts"
    ]
    exceptions = f" (except {', '.join(odd)})" if odd else ""
    lines.append(
        f"{len(means) - len(odd)} of Table 3's {len(means)} values for tutors of both parts are the means of Tables 8 "
        f"and 9, weighted by the paper's counts{exceptions}."
    )
    return lines


def dialogues(run: ReportInput, release: str, subset: str) -> int:
    """Return the number of a release's dialogues; 0 if the run does not have the release."""
    if run.plan.edition != "published" or release not in run.plan.releases:
        return 0
    statistics = read_json(paths.LABEL_STATISTICS.within(run.results, release=release))
    return int(statistics[subset]["dialogues"]) if statistics else 0


REMARKS = remarks_on_release
MEASURED: dict[str, Callable[[ReportInput], MeasuredTable]] = {
    **{table: partial(rates, table=table) for table in SUBSET_SUFFIXES},
    **{str(table): partial(correlations, table=str(table)) for table in CRITIC_TABLES.values()},
    "7": table_7,
}
