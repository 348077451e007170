"""The overview: one ranked table of all tutors and tasks, what limits the numbers, prices, and missing scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core.records import SCORINGS, ReportedScore, Scoring
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import changed_files_of_task
from maieutic.report.head import cards_without_values, run_line
from maieutic.report.ranking import RankedTutor, Ranking, Rankings, is_at_floor, join_names
from maieutic.report.sections import ReportInput
from maieutic.report.tables import display_label, exceeds_doubt, is_silent
from maieutic.report.traffic_light import headline_grader
from maieutic.scores.score import FLIP_RATE, WITHIN_DEVIATION

MOST_CHIPS = 7  # number of remarks above the table; the others are folded
SHADES = 8  # number of shades of the table's cells
Headlines = Mapping[tuple[str, str], ReportedScore]  # headline scores of one benchmark, by task and tutor


def all_cards(selected: Mapping[str, Sequence[Card]]) -> list[Card]:
    """Return the cards of all benchmarks in order."""
    return [card for cards in selected.values() for card in cards]


def headlines_of(
    scores: Iterable[ReportedScore], cards: Sequence[Card], scoring: str = "robust"
) -> dict[tuple[str, str], ReportedScore]:
    """Return the headline scores under one scoring, by task and tutor.

    The human reference's score is left out if the metric would compare the reference with itself.
    """
    heads = [(card, card.headline_metric) for card in cards]
    itself = {(card.task, card.baselines.ceiling) for card, metric in heads if metric and not metric.ceiling}
    return {
        (score.task, score.tutor): score
        for score in scores
        if score.headline and score.scoring == scoring and (score.task, score.tutor) not in itself
    }


class RankedCell(NamedTuple):
    """A cell of the ranked table: one tutor on one task.

    readable: share of the usable answers; best: True if no ranked tutor is better; hatched: True if the task does not
    lead, or if the tutor is not above the floor; shade: 0 for the column's lowest value to SHADES for its highest, None
    without a shade; ranks: best and worst rank on this task; span: ends of the scale of the interval.
    """

    card: Card
    score: ReportedScore | None
    not_asked: str | None
    best: bool
    readable: float | None
    silent: bool
    amber: bool
    at_floor: bool
    hatched: bool
    shade: int | None
    ranks: tuple[int, int] | None
    of: int
    span: tuple[float, float]


class RankedRow(NamedTuple):
    """A row of the ranked table. usd: US dollars for a hundred items, None if unknown; protocol: if not the run's."""

    tutor: str
    label: str
    group: str
    protocol: str | None
    baseline: bool
    absent: bool
    ranked: RankedTutor | None
    cells: list[RankedCell]
    usd: float | None


class RankedColumn(NamedTuple):
    """A column of the ranked table. reason: why the task does not lead; differs: files that are not as shipped."""

    card: Card
    by: str | None
    light: str | None
    reason: str | None
    floor: float | None
    ceiling: float | None
    differs: list[str]


def table_columns(run: ReportInput, cards: Sequence[Card], ranking: Ranking) -> list[RankedColumn]:
    """Return the columns of the ranked table."""
    tasks = {task.key: task for task in ranking.tasks}
    columns = []
    for card in cards:
        task = tasks[card.benchmark, card.task]
        differs = changed_files_of_task(run.provenance, run.plan, card, headline_grader(run.plan, card))
        columns.append(RankedColumn(card, task.by, task.light, task.reason, task.floor, task.ceiling, differs))
    return columns


def row_order(plan: Plan, ranking: Ranking) -> list[str]:
    """Return the run's tutors: by rank, then those that are not ranked, then baselines."""
    ordered = [row.tutor for row in ranking.tutors]
    return [*ordered, *sorted(name for name in plan.run.tutors if name in plan.tutors and name not in ordered)]


def board_rows_of(
    plan: Plan,
    cards: Sequence[Card],
    scores: Mapping[str, Sequence[ReportedScore]],
    ranking: Ranking,
    usd: Mapping[str, float] | None = None,
) -> list[RankedRow]:
    """Return the rows of the ranked table under one scoring.

    scores: scores by benchmark; usd: US dollars for a hundred items by tutor.
    """
    heads = [
        ((score.tutor, (benchmark, score.task)), score)
        for benchmark, own_scores in scores.items()
        for score in own_scores
        if (score.headline or score.withheld) and score.tutor in plan.run.tutors
    ]
    by_cell = {key: score for key, score in heads if score.scoring == ranking.scoring}
    # The share of readable replies is the same under both scorings, and only scores under `robust` record the share.
    readable = {key: score.readable for key, score in heads if score.scoring == "robust"}
    tasks = {task.key: task for task in ranking.tasks}
    ranked = {row.tutor: row for row in ranking.tutors}
    of_task = {key: [score for (_, task), score in by_cell.items() if task == key] for key in tasks}
    spans = {key: whisker_range(heads_of_task) for key, heads_of_task in of_task.items()}
    values = {key: [score.value for score in entries if score.value is not None] for key, entries in of_task.items()}
    rows = []
    for name in row_order(plan, ranking):
        entry = plan.models[name]
        protocol = plan.protocol_of(name)
        cells = []
        for card in cards:
            task = tasks[card.benchmark, card.task]
            score, share = by_cell.get((name, task.key)), readable.get((name, task.key))
            at_floor = is_at_floor(score, task.higher_is_better)
            hatched = not task.leads or at_floor
            shade = None
            if not hatched and score is not None and score.value is not None:
                shade = shade_of(score.value, values[task.key], task.higher_is_better)
            cells.append(
                RankedCell(
                    card,
                    score,
                    plan.why_not_answerable(card, name),
                    name in task.leaders,
                    share,
                    is_silent(plan, share) or bool(score and score.withheld),
                    score is not None and exceeds_doubt(score),
                    at_floor,
                    hatched,
                    shade,
                    task.ranks.get(name),
                    len(task.ranks),
                    spans[task.key],
                )
            )
        rows.append(
            RankedRow(
                name,
                display_label(plan, name),
                entry.group,
                protocol if protocol != plan.run.protocol else None,
                isinstance(entry, BaselineModel),
                any(cell.not_asked is None for cell in cells) and not any(tutor == name for (tutor, _), _ in heads),
                ranked.get(name),
                cells,
                (usd or {}).get(name),
            )
        )
    return rows


def shade_of(value: float, values: Sequence[float], higher_is_better: bool) -> int:
    """Return the shade of a value among a column's values, from 0 for the worst one to SHADES for the best one."""
    worst, best = (min(values), max(values)) if higher_is_better else (max(values), min(values))
    return round(SHADES * (value - worst) / (best - worst)) if best != worst else SHADES // 2


def whisker_range(scores: Iterable[ReportedScore]) -> tuple[float, float]:
    """Return the scale on which a task's intervals are drawn: from 0 to 1, or wider to include all values."""
    values = [value for score in scores for value in (score.low, score.value, score.high) if value is not None]
    return min([0.0, *values]), max([1.0, *values])


def repeat_rows(run: ReportInput) -> list[dict[str, Any]]:
    """Return a row for each of the run's tutors and tasks with several answers to an item: how much grades vary."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for benchmark, scores in run.scores.items():
        for score in scores:
            if score.metric in (FLIP_RATE, WITHIN_DEVIATION) and score.scoring == "robust":
                key = benchmark, score.task, str(score.tutor)
                if score.tutor in run.plan.run.tutors:
                    names = {"benchmark": benchmark, "task": score.task, "tutor": score.tutor}
                    rows.setdefault(key, names)[score.metric] = score
    return list(rows.values())


def prices(plan: Plan, runtime: pd.DataFrame, sizes: Mapping[tuple[str, str], int]) -> dict[str, float]:
    """Return the US dollars for a hundred items by tutor, for tutors whose price is known on all their benchmarks.

    sizes: number of items by benchmark and task.
    """
    rows_of_run = runtime[runtime["tutor"].isin(plan.run.tutors)]
    by_tutor: dict[str, float] = {}
    for tutor, rows in rows_of_run.groupby("tutor"):
        items = sum(size for (benchmark, _), size in sizes.items() if benchmark in set(rows["benchmark"]))
        if rows["usd"].notna().all() and items:
            by_tutor[str(tutor)] = 100 * float(rows["usd"].sum()) / items
    return by_tutor


def shares_won(ranking: Ranking) -> dict[str, float]:
    """Return the share of each ranked tutor's comparisons with other tutors on leading tasks that it wins."""
    won = dict.fromkeys((row.tutor for row in ranking.ranked), 0)
    compared = dict(won)
    for comparison in ranking.comparisons:
        for name, verdict in ((comparison.first, "BETTER"), (comparison.second, "WORSE")):
            compared[name] += 1
            won[name] += comparison.verdict == verdict
    return {name: won[name] / number for name, number in compared.items() if number}


def price_picture(ranking: Ranking, usd: Mapping[str, float]) -> str:
    """Return a chart of the tutors' prices and shares of comparisons won; empty with fewer than two priced tutors."""
    from maieutic.report.figures import scatter_chart

    won = shares_won(ranking)
    labels = {row.tutor: row.label for row in ranking.tutors}
    table = pd.DataFrame(
        {"label": labels[name], "kind": "tutor", "usd": usd[name], "value": share}
        for name, share in won.items()
        if usd.get(name)
    )
    if len(table) < 2:
        return ""
    return scatter_chart(
        table, "usd", "value", ("US dollars for 100 items (log)", "share of comparisons won"), log=True
    )


def missing_lines(
    plan: Plan, selected: Mapping[str, Sequence[Card]], scores: Mapping[str, Sequence[ReportedScore]]
) -> list[str]:
    """Return lines that explain missing headline scores: for each task and reason, a line with the tutors' names.

    Tasks that are not graded in this run are left out.
    """
    lines: list[str] = []
    for benchmark, cards in selected.items():
        headlines = headlines_of(scores.get(benchmark, []), [])  # without cards, scores of references are included
        for card in cards:
            if plan.why_not_graded(card):
                continue
            missing: dict[str, list[str]] = {}
            for tutor in (name for name in plan.run.tutors if name in plan.tutors):
                if plan.why_not_answerable(card, tutor):
                    continue  # what a tutor was not asked is not missing
                score = headlines.get((card.task, tutor))
                if score is None or score.value is None:
                    why = without_headline(scores.get(benchmark, []), card, tutor)
                    missing.setdefault(why, []).append(display_label(plan, tutor))
            lines += [f"{card.title}: {why} ({join_names(tutors)})" for why, tutors in missing.items()]
    return lines


def without_headline(scores: Iterable[ReportedScore], card: Card, tutor: str) -> str:
    """Return why a tutor has no headline score on a task."""
    withheld = (score for score in scores if score.withheld and (score.task, score.tutor) == (card.task, tutor))
    if score := next(withheld, None):
        return f"not ranked: {score.missing} of {score.n + score.missing} items have no answer"
    return "no score: the job failed, or nothing can be graded"


def overview_section(
    run: ReportInput,
    runtime: pd.DataFrame,
    selected: Mapping[str, Sequence[Card]],
    rankings: Rankings,
    lacking: Sequence[str],
) -> dict[str, Any]:
    """Return the template variables of the overview. lacking: lines on missing headline scores."""
    plan = run.plan
    by_scoring: dict[Scoring, Ranking] = rankings.by_scoring
    without = cards_without_values(plan, selected)
    cards = [card for card in all_cards(selected) if card not in [other for other, _ in without]]
    usd = prices(plan, runtime, run.sizes)
    return {
        "line": run_line(run, selected, runtime),
        "ranking": by_scoring["robust"],
        "most_chips": MOST_CHIPS,
        "benchmarks": [(name, sum(card.benchmark == name for card in cards)) for name in selected],
        "columns": {scoring: table_columns(run, cards, by_scoring[scoring]) for scoring in SCORINGS},
        "tables": {scoring: board_rows_of(plan, cards, run.scores, by_scoring[scoring], usd) for scoring in SCORINGS},
        "priced": bool(usd),
        "without": without,
        "unjudged": [card.title for card in cards if card.task in plan.tasks_without_rubric.get(card.benchmark, [])],
        "price_picture": price_picture(by_scoring["robust"], usd),
        "repeated": repeat_rows(run),
        "lacking": lacking,
        "unanswered": run.unanswered,
        "unheeded": run.unheeded,
        "cards": cards,
    }
