"""This run's tutors beside the same ones in a benchmark's paper: row by row, a difference only where it means one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from maieutic.config.cards import Card
from maieutic.core import paths
from maieutic.core.records import ReportedScore, Score
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import Provenance, differences
from maieutic.report.tables import circumstances, label_of, leads, score_file
from maieutic.scores.papers import PEOPLE, Printed
from maieutic.scores.printed import (
    PAPERS,
    difference_note,
    paper_name,
    printed_values,
)

MOST_DIGITS = 6  # of a printed number


class Cell(NamedTuple):
    """Our value under a printed one: the difference, or why there is none (note).

    verdict: `reproduced` where the printed value, which is rounded, lies in our 95 % interval, else `differs`; without
    an interval where both are the same when rounded; `not comparable` where something was not the same.
    """

    value: float
    difference: float
    note: str | None
    verdict: Literal["reproduced", "differs", "not comparable"] = "not comparable"


def rounding_of(values: Iterable[float]) -> float:
    """Half of the last digit that a column of printed values has."""
    digits = [len(f"{value:.{MOST_DIGITS}f}".rstrip("0").partition(".")[2]) for value in values]
    return 0.5 * 10.0 ** -max(digits, default=0)


def verdict_on(
    printed: float, score: Score, note: str | None, rounding: float
) -> Literal["reproduced", "differs", "not comparable"]:
    """Whether a score reproduces a printed value. rounding: how far that may be from what was measured there."""
    if note is not None or score.value is None:
        return "not comparable"
    low = score.value if score.low is None else score.low
    high = score.value if score.high is None else score.high
    return "reproduced" if low - rounding <= printed <= high + rounding else "differs"


class Tally(NamedTuple):
    """Of the printed cells of a paper those that this run has measured, and how our values of them came out.

    values: ours; there are more than measured cells where several tutors are one of the paper's.
    """

    cells: int
    measured: int
    values: int
    reproduced: int
    differs: int


def tally_of(rows: Sequence[Mapping[str, Any]]) -> Tally:
    """The tally of a paper's rows."""
    cells = measured = 0
    verdicts: list[str] = []
    for row in rows:
        cells += sum(cell is not None for cell in row["cells"])
        ours = [own["cells"] for own in row["ours"]]
        measured += sum(any(cells_of) for cells_of in zip(*ours, strict=True))
        verdicts += [cell.verdict for own in ours for cell in own if cell is not None]
    return Tally(cells, measured, len(verdicts), verdicts.count("reproduced"), verdicts.count("differs"))


class Column(NamedTuple):
    """One printed number of every tutor."""

    task: str
    metric: str
    title: str


def columns_of(printed: Sequence[Printed], cards: Sequence[Card]) -> list[Column]:
    """The paper's columns: of the selected tasks and their pools, or all where nobody else has the data."""
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
    """The scores that may stand under printed ones: read as released, by the leading graders, and of pools."""
    own_scores = [score for score in scores if score.scoring == "paper_compat" and leads(plan, score)]
    benchmark = cards[0].benchmark
    pools = {str(card.pool) for card in cards if card.pool}
    for model in plan.tutors if pools else []:
        path = paths.BREAKDOWN.within(results, benchmark=benchmark, tutor=model)
        pool_scores = [score for score in score_file(path) if score.task in pools and leads_pool(plan, cards, score)]
        own_scores += [
            ReportedScore(**score.model_dump(), changed=pool_changed(plan, cards, score, provenance))
            for score in pool_scores
        ]
    return [*own_scores, *by_people(plan, results, cards)]


def leads_pool(plan: Plan, cards: Sequence[Card], score: Score) -> bool:
    """Whether a pool's score is by the judge that heads one of its tasks."""
    return any(leads(plan, score.model_copy(update={"task": card.task})) for card in cards if card.pool == score.task)


def pool_changed(plan: Plan, cards: Sequence[Card], score: Score, provenance: Provenance | None) -> bool:
    """Whether anything behind a pool's score is not as shipped."""
    pool_cards = [card for card in cards if card.pool == score.task]
    return any(differences(provenance, plan, card, score.by) for card in pool_cards)


def by_people(plan: Plan, results: Path, cards: Sequence[Card]) -> list[ReportedScore]:
    """Rates that people's labels of this run's replies correct (run.human_labels): what people would say of all."""
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
                named = {"task": card.task, "metric": criteria[score.criterion], "by": PEOPLE}
                rates.append(ReportedScore(**{**score.model_dump(), **named}))
    return rates


def against_paper(
    plan: Plan,
    results: Path,
    benchmark: str,
    cards: Sequence[Card],
    scores: Sequence[ReportedScore],
    provenance: Provenance | None = None,
) -> dict[str, Any] | None:
    """The paper's table row by row, and under a row each of our tutors that claims it; None without a table on file."""
    printed = printed_values(benchmark)
    columns = columns_of(printed, cards)
    if not columns:
        return None
    by_cell = {(cell.model, cell.task, cell.metric): cell for cell in printed}
    by_tutor = {
        (score.tutor, score.task, score.metric): score for score in our_scores(plan, results, cards, scores, provenance)
    }
    released = released_scores(plan, results, benchmark)
    rows = []
    for name in dict.fromkeys(cell.model for cell in printed):
        cells = [by_cell.get((name, column.task, column.metric)) for column in columns]
        ours = [model for model in plan.tutors if paper_name(plan.models[model].paper, benchmark) == name]
        if not any(cells):
            continue
        own_rows = [
            {"label": label_of(plan, model), "cells": our_cells(plan, model, cards, cells, by_tutor)} for model in ours
        ]
        if any((cell.model, cell.task, cell.metric) in released for cell in cells if cell):
            own_rows.append({"label": "people, released labels", "cells": label_cells(cells, released, printed)})
        group = next(cell.group for cell in printed if cell.model == name)
        rows.append({"model": name, "group": group, "cells": cells, "ours": own_rows})
    shown = {
        "name": benchmark,
        "title": PAPERS[benchmark].tables,
        "not_released": not PAPERS[benchmark].released,
        "note": PAPERS[benchmark].note,
    }
    return {**shown, "columns": columns, "rows": rows, "tally": tally_of(rows)}


def released_scores(plan: Plan, results: Path, benchmark: str) -> dict[tuple[str, str, str], Score]:
    """Return the rates of the released labels by printed row, task and metric; empty for other data or labels."""
    labels = PAPERS[benchmark].labels if benchmark in PAPERS else None
    if labels is None or plan.edition != "published":
        return {}
    scores = score_file(paths.LABEL_SCORES.within(results, release=labels.release))
    return {place: score for score in scores if score.by is None and (place := labels.place_of(score))}


def label_cells(
    cells: Sequence[Printed | None], released: Mapping[tuple[str, str, str], Score], printed: Sequence[Printed]
) -> list[Cell | None]:
    """Return the rate of the released labels under each printed one, with the difference."""
    rounding = roundings(printed)
    result: list[Cell | None] = []
    for cell in cells:
        score = released.get((cell.model, cell.task, cell.metric)) if cell else None
        if cell is None or score is None or score.value is None:
            result.append(None)
            continue
        verdict = verdict_on(cell.value, score, None, rounding[cell.task, cell.metric])
        result.append(Cell(score.value, score.value - cell.value, None, verdict))
    return result


def roundings(printed: Iterable[Printed]) -> dict[tuple[str, str], float]:
    """Return half of the last printed digit of each column, by task and metric."""
    columns: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cell in printed:
        columns[cell.task, cell.metric].append(cell.value)
    return {place: rounding_of(values) for place, values in columns.items()}


def our_cells(
    plan: Plan,
    model: str,
    cards: Sequence[Card],
    cells: Sequence[Printed | None],
    by_tutor: Mapping[tuple[str, str, str], ReportedScore],
) -> list[Cell | None]:
    """Our value under each printed one that we have measured, with the difference or what was not the same."""
    result: list[Cell | None] = []
    rounding = roundings(printed_values(cards[0].benchmark))
    for cell in cells:
        score = by_tutor.get((model, cell.task, cell.metric)) if cell else None
        if cell is None or score is None or score.value is None:
            result.append(None)
            continue
        cell_cards = [card for card in cards if cell.task in (card.task, card.pool)]
        note = difference_note(cell, cell_cards[0].benchmark, circumstances(plan, cell_cards, score, score.changed))
        verdict = verdict_on(cell.value, score, note, rounding[cell.task, cell.metric])
        result.append(Cell(score.value, score.value - cell.value, note, verdict))
    return result
