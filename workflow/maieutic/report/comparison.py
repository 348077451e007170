"""Comparison of this run's tutors with the same tutors in a benchmark's paper, cell by cell of the paper's tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from maieutic.config.cards import Card
from maieutic.config.models import RecordedModel
from maieutic.core import paths
from maieutic.core.records import ReportedScore, Score
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import Provenance, changed_files_of_task
from maieutic.report.tables import circumstances, display_label, is_leading, score_file
from maieutic.scores.papers import PEOPLE, PrintedResult
from maieutic.scores.printed import (
    PAPERS,
    difference_note,
    paper_name,
    printed_values,
)

ROUNDING_TOLERANCE = 1e-9  # allows for the binary representation of decimal fractions
MOST_DIGITS = 6  # maximum number of decimal places of a number in a paper


CellVerdict = Literal["reproduced", "differs", "another release", "not comparable"]


class Cell(NamedTuple):
    """A value of this run, which the page shows below the value published in the paper.

    difference: this run's value minus the paper's. note: the reason why the two values were not measured in the same
    way, or None if they were. verdict: as returned by `verdict_on`.
    """

    value: float
    difference: float
    note: str | None
    verdict: CellVerdict = "not comparable"


def rounding_of(values: Iterable[float]) -> float:
    """Return the largest rounding error in a column of published values: half a unit of the last decimal place."""
    digits = [len(f"{value:.{MOST_DIGITS}f}".rstrip("0").partition(".")[2]) for value in values]
    return 0.5 * 10.0 ** -max(digits, default=0)


def verdict_on(printed: float, score: Score, note: str | None, rounding: float, released: bool) -> CellVerdict:
    """Return the verdict on whether a score reproduces a published value, which is rounded.

    A value that was computed from the paper's own labels or replies must equal the published value. If a model was
    asked anew, its answers are a sample, so that the published value must lie in the score's 95 % interval.

    note: the reason why the two are not comparable, if any; rounding: largest rounding error of the published value;
    released: True if the score rests on released labels or replies.
    """
    if note is not None or score.value is None:
        return "not comparable"
    low = score.value if released or score.low is None else score.low
    high = score.value if released or score.high is None else score.high
    error = rounding + ROUNDING_TOLERANCE
    return "reproduced" if low - error <= printed <= high + error else "differs"


class Tally(NamedTuple):
    """Counts for the comparison of a paper's table with this run.

    cells: number of published values; measured: number of published values for which this run has at least one value;
    values: number of this run's values, more than `measured` if several tutors of the run match one in the paper;
    reproduced, differs, other_release: number of this run's values with this verdict.
    """

    cells: int
    measured: int
    values: int
    reproduced: int
    differs: int
    other_release: int = 0


def tally_of(rows: Sequence[Mapping[str, Any]]) -> Tally:
    """Count a paper's published values, and this run's values by verdict. rows: table rows made by `against_paper`."""
    cells = measured = 0
    verdicts: list[str] = []
    for row in rows:
        cells += sum(cell is not None for cell in row["cells"])
        ours = [our_row["cells"] for our_row in row["ours"]]
        measured += sum(any(column) for column in zip(*ours, strict=True))
        verdicts += [cell.verdict for our_row in ours for cell in our_row if cell is not None]
    counts = (verdicts.count(verdict) for verdict in ("reproduced", "differs", "another release"))
    return Tally(cells, measured, len(verdicts), *counts)


class Column(NamedTuple):
    """A column of a paper's table, with the values of one metric on one task."""

    task: str
    metric: str
    title: str


def paper_columns(printed: Sequence[PrintedResult], cards: Sequence[Card]) -> list[Column]:
    """Return the columns of the paper's table for the selected tasks and their pools (tasks scored together).

    Returns all columns if the data of the paper's benchmark has not been released.
    """
    titles = {card.task: card.title for card in cards} | {str(card.pool): "Overall" for card in cards if card.pool}
    names = dict.fromkeys((cell.task, cell.metric) for cell in printed)
    everything = any(card.benchmark in PAPERS and not PAPERS[card.benchmark].released for card in cards)
    return [
        Column(task, metric, titles.get(task, task.replace("_", " ").capitalize()))
        for task, metric in names
        if everything or task in titles
    ]


def our_scores(
    plan: Plan, results: Path, cards: Sequence[Card], scores: Sequence[ReportedScore], provenance: Provenance | None
) -> list[ReportedScore]:
    """Return the leading graders' `paper_compat` scores and the match rates of human annotators, beside the paper's."""
    own_scores = [score for score in scores if score.scoring == "paper_compat" and is_leading(plan, score)]
    benchmark = cards[0].benchmark
    pools = {str(card.pool) for card in cards if card.pool}
    for model in plan.tutors if pools else []:
        path = paths.BREAKDOWN.within(results, benchmark=benchmark, tutor=model)
        pool_scores = [score for score in score_file(path) if score.task in pools and leads_pool(plan, cards, score)]
        own_scores += [
            ReportedScore(**score.model_dump(), changed=pool_changed(plan, cards, score, provenance))
            for score in pool_scores
        ]
    return [*own_scores, *people_rates(plan, results, cards)]


def leads_pool(plan: Plan, cards: Sequence[Card], score: Score) -> bool:
    """Return True if the score of a pool (tasks scored together) is by the leading grader of one of its tasks."""
    return any(
        is_leading(plan, score.model_copy(update={"task": card.task})) for card in cards if card.pool == score.task
    )


def pool_changed(plan: Plan, cards: Sequence[Card], score: Score, provenance: Provenance | None) -> bool:
    """Return True if a file that affects the score of a pool (tasks scored together) is not as shipped."""
    pool_cards = [card for card in cards if card.pool == score.task]
    return any(changed_files_of_task(provenance, plan, card, score.by) for card in pool_cards)


def people_rates(plan: Plan, results: Path, cards: Sequence[Card]) -> list[ReportedScore]:
    """Return the first judge's rates, corrected with people's labels of this run's replies (`run.human_labels`)."""
    if not plan.run.human_labels or not plan.run.judges:
        return []
    scores = score_file(paths.CORRECTED.within(results, judge=plan.run.judges[0]))
    rates = []
    for card in cards:
        criteria = {
            metric.criterion: name for name, metric in card.metrics.items() if metric.criterion and not metric.only
        }
        for score in scores:
            if score.metric == "ppi" and score.criterion in criteria and score.value is not None:
                update = {"task": card.task, "metric": criteria[score.criterion], "by": PEOPLE}
                rates.append(ReportedScore(**{**score.model_dump(), **update}))
    return rates


def against_paper(
    plan: Plan,
    results: Path,
    benchmark: str,
    cards: Sequence[Card],
    scores: Sequence[ReportedScore],
    provenance: Provenance | None = None,
) -> dict[str, Any] | None:
    """Return the paper's table with the matching tutors of this run below each row; None without matching columns."""
    printed = printed_values(benchmark)
    columns = paper_columns(printed, cards)
    if not columns:
        return None
    by_cell = {(cell.model, cell.task, cell.metric): cell for cell in printed}
    by_tutor = {
        (score.tutor, score.task, score.metric): score for score in our_scores(plan, results, cards, scores, provenance)
    }
    released = released_scores(plan, results, benchmark)
    labels = PAPERS[benchmark].labels
    is_other = labels is not None and labels.is_other
    rows = []
    for name in dict.fromkeys(cell.model for cell in printed):
        cells = [by_cell.get((name, column.task, column.metric)) for column in columns]
        ours = [model for model in plan.tutors if paper_name(plan.models[model].paper, benchmark) == name]
        if not any(cells):
            continue
        our_rows = [
            {"label": display_label(plan, model), "cells": our_cells(plan, model, cards, cells, by_tutor)}
            for model in ours
        ]
        if any((cell.model, cell.task, cell.metric) in released for cell in cells if cell):
            our_rows.append(
                {"label": "people, released labels", "cells": label_cells(cells, released, printed, is_other)}
            )
        group = next(cell.group for cell in printed if cell.model == name)
        rows.append({"model": name, "group": group, "cells": cells, "ours": our_rows})
    heading = {
        "name": benchmark,
        "title": PAPERS[benchmark].tables,
        "not_released": not PAPERS[benchmark].released,
        "note": PAPERS[benchmark].note,
    }
    return {**heading, "columns": columns, "rows": rows, "tally": tally_of(rows)}


def released_scores(plan: Plan, results: Path, benchmark: str) -> dict[tuple[str, str, str], Score]:
    """Return the rates computed from the paper's released labels, by row, task and metric of the paper's table.

    Returns an empty dict if the paper released no labels or if the run does not use the published data.
    """
    labels = PAPERS[benchmark].labels if benchmark in PAPERS else None
    if labels is None or plan.edition != "published":
        return {}
    scores = score_file(paths.LABEL_SCORES.within(results, release=labels.release))
    return {place: score for score in scores if score.by is None and (place := labels.place_of(score))}


def label_cells(
    cells: Sequence[PrintedResult | None],
    released: Mapping[tuple[str, str, str], Score],
    printed: Sequence[PrintedResult],
    is_other: bool,
) -> list[Cell | None]:
    """Return a cell with the rate computed from the released labels for each published value, None without a rate.

    is_other: True if the paper's rates are known not to be computed from this release.
    """
    rounding = roundings(printed)
    result: list[Cell | None] = []
    for cell in cells:
        score = released.get((cell.model, cell.task, cell.metric)) if cell else None
        if cell is None or score is None or score.value is None:
            result.append(None)
            continue
        verdict = verdict_on(cell.value, score, None, rounding[cell.task, cell.metric], released=True)
        verdict = "another release" if is_other and verdict == "differs" else verdict
        result.append(Cell(score.value, score.value - cell.value, None, verdict))
    return result


def roundings(printed: Iterable[PrintedResult]) -> dict[tuple[str, str], float]:
    """Return the largest rounding error of each column of published values, by task and metric."""
    columns: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cell in printed:
        columns[cell.task, cell.metric].append(cell.value)
    return {place: rounding_of(values) for place, values in columns.items()}


def our_cells(
    plan: Plan,
    model: str,
    cards: Sequence[Card],
    cells: Sequence[PrintedResult | None],
    by_tutor: Mapping[tuple[str, str, str], ReportedScore],
) -> list[Cell | None]:
    """Return a cell with a tutor's value in this run for each published value, None where either value is missing."""
    result: list[Cell | None] = []
    rounding = roundings(printed_values(cards[0].benchmark))
    entry = plan.models[model]
    released = isinstance(entry, RecordedModel) and entry.dataset is not None  # not replies that a user collected
    for cell in cells:
        score = by_tutor.get((model, cell.task, cell.metric)) if cell else None
        if cell is None or score is None or score.value is None:
            result.append(None)
            continue
        cell_cards = [card for card in cards if cell.task in (card.task, card.pool)]
        note = difference_note(cell, cell_cards[0].benchmark, circumstances(plan, cell_cards, score, score.changed))
        verdict = verdict_on(cell.value, score, note, rounding[cell.task, cell.metric], released)
        result.append(Cell(score.value, score.value - cell.value, note, verdict))
    return result
