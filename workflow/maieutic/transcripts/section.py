"""Report page on a team's own transcripts: numbers by tutor, tag and position in the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import hypot
from typing import Any, NamedTuple

from maieutic.config.cards import Card, Metric
from maieutic.core.records import ReportedScore
from maieutic.plan.plan import Plan
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label
from maieutic.report.trust import corrected_rate_rows, criterion_title
from maieutic.transcripts.loaders import LOADERS
from maieutic.transcripts.moments import LAST_POSITION, POSITION, POSITIONS, TUTOR_TAG

ALL = "all"
POSITION_NAMES = [*(name for _, name in POSITIONS), LAST_POSITION]


class SubsetRow(NamedTuple):
    """Numbers of the turns with one value of a tag: the headline, and each criterion that has them.

    tag, value: empty tag for all turns.
    """

    tag: str
    value: str
    headline: ReportedScore
    criteria: list[ReportedScore | None]


def transcript_cards(plan: Plan) -> list[Card]:
    """Return the selected cards whose items are transcripts."""
    return [loaded.card for loaded in plan.cards.values() if loaded.card.loader in LOADERS]


def criteria_of(card: Card) -> dict[str, str]:
    """Return the names of a card's metrics of single criteria over all items, with the criteria."""
    return {
        name: str(metric.criterion)
        for name, metric in card.metrics.items()
        if not metric.headline and not metric.only and metric.function == "accuracy" and metric.value is None
    }


def subsets_of(card: Card) -> Iterator[tuple[str, str, str]]:
    """Yield the tag, the value and the metric of each subset in which the headline metric is computed."""
    headline = card.metrics[card.headline]
    for name, metric in card.metrics.items():
        if metric.only and is_variant(metric, headline):
            [(tag, value)] = metric.only.items()
            yield tag, value, name


def order_of_row(row: tuple[str, str, str]) -> tuple[str, int]:
    """Return the sort key of a row: tags by name, positions by their order, other values as on the card."""
    tag, value, _ = row
    return tag, POSITION_NAMES.index(value) if tag == POSITION and value in POSITION_NAMES else 0


def is_variant(metric: Metric, base: Metric) -> bool:
    """Return True if a metric is another metric for a subset of the items."""
    return (metric.grader, metric.criterion, metric.parts) == (base.grader, base.criterion, base.parts)


def subset_rows(card: Card, scores: Mapping[str, ReportedScore], criteria: Sequence[str]) -> list[SubsetRow]:
    """Return the rows of a tutor's table: all turns, then each value of each tag. scores: by metric."""
    rows = []
    for tag, value, name in [("", ALL, card.headline), *sorted(subsets_of(card), key=order_of_row)]:
        if name in scores and scores[name].n:
            suffix = name.removeprefix(card.headline)
            rows.append(SubsetRow(tag, value, scores[name], [scores.get(f"{other}{suffix}") for other in criteria]))
    return rows


def scores_by_metric(run: ReportInput, card: Card, tutor: str) -> dict[str, ReportedScore]:
    """Return a tutor's scores on a task under `robust`, by metric."""
    return {
        score.metric: score
        for score in run.scores.get(card.benchmark, [])
        if (score.task, score.tutor, score.scoring) == (card.task, tutor, "robust")
    }


class Independent(NamedTuple):
    """Difference of two values from different conversations, with its 95 % interval; `low` is None without one."""

    value: float
    low: float | None
    high: float | None


def difference_of(first: ReportedScore, second: ReportedScore) -> Independent | None:
    """Return the first value minus the second, by the method MOVER; None unless both have a value.

    The interval combines those of the two values, which must come from different conversations (Zou and Donner, 2008,
    "Construction of confidence limits about effect measures", Statistics in Medicine 27, section 2).
    """
    if first.value is None or second.value is None:
        return None
    value = first.value - second.value
    if None in (first.low, first.high, second.low, second.high):
        return Independent(value, None, None)
    assert first.low is not None and first.high is not None and second.low is not None and second.high is not None
    below = hypot(first.value - first.low, second.high - second.value)
    above = hypot(first.high - first.value, second.value - second.low)
    return Independent(value, value - below, value + above)


def version_table(rows: Sequence[SubsetRow], headings: Sequence[str], headline: str) -> dict[str, Any] | None:
    """Return the numbers of the versions of a tutor side by side, a row each for the headline and every criterion.

    The last column is the difference of the two versions with most turns, the later name first. It has no interval if
    some conversations have turns of both. None unless there are two versions.
    """
    versions = sorted((row for row in rows if row.tag == TUTOR_TAG), key=lambda row: row.value)
    if len(versions) < 2:
        return None
    largest = sorted(versions, key=lambda row: -row.headline.n)[:2]
    second, first = sorted(largest, key=lambda row: row.value)
    whole = next((row.headline.clusters for row in rows if not row.tag), None)
    are_apart = sum(row.headline.clusters or 0 for row in versions) == whole
    lines = []
    for place, name in enumerate([headline, *headings]):
        scores = [row.headline if not place else row.criteria[place - 1] for row in versions]
        minuend, subtrahend = (row.headline if not place else row.criteria[place - 1] for row in (first, second))
        apart = difference_of(minuend, subtrahend) if minuend is not None and subtrahend is not None else None
        if apart is not None and not are_apart:
            apart = Independent(apart.value, None, None)
        lines.append({"name": name, "scores": scores, "apart": apart, "is_headline": not place})
    return {"versions": [row.value for row in versions], "pair": (first.value, second.value), "rows": lines}


def dot_charts(rows: Sequence[SubsetRow]) -> list[dict[str, Any]]:
    """Return one small chart a tag: headline and interval for each of its values, in percent of the width."""
    charts = []
    for tag, group in groupby((row for row in rows if row.tag and row.tag != TUTOR_TAG), key=lambda row: row.tag):
        dots = [
            {
                "value": row.value,
                "score": row.headline,
                "at": 100 * (row.headline.value or 0.0),
                "low": 100 * (row.headline.low if row.headline.low is not None else row.headline.value or 0.0),
                "high": 100 * (row.headline.high if row.headline.high is not None else row.headline.value or 0.0),
            }
            for row in group
            if row.headline.value is not None
        ]
        if dots:
            charts.append({"tag": tag, "dots": dots})
    return charts


def dimension_rows(
    row: SubsetRow, headings: Sequence[str], names: Sequence[str], corrected: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a row per criterion: its rate over all turns by the judge, and the rate that people's labels correct.

    names: titles of the criteria, by which `corrected`, the corrected rates of the tutor, are found.
    """
    by_name = {str(line["criterion"]): line for line in corrected}
    return [
        {"name": heading, "score": score, "corrected": by_name.get(name)}
        for heading, name, score in zip(headings, names, row.criteria, strict=True)
    ]


def tutor_tables(run: ReportInput, card: Card) -> list[dict[str, Any]]:
    """Return the numbers of each tutor: of all its turns, by dimension, version, position and tag."""
    criteria = criteria_of(card)
    headings = [criterion_heading(run.plan, card, criterion) for criterion in criteria.values()]
    names = [criterion_title(criterion) for criterion in criteria.values()]
    labelled = corrected_rate_rows(run.plan, run.results)
    tables = []
    for tutor in run.plan.run.tutors:
        rows = subset_rows(card, scores_by_metric(run, card, tutor), list(criteria))
        if not rows:
            continue
        title = display_label(run.plan, tutor)
        corrected = [line for line in labelled if line["tutor"] == title and line["corrected"].value is not None]
        tables.append(
            {
                "tutor": title,
                "whole": rows[0],
                "dimensions": dimension_rows(rows[0], headings, names, corrected),
                "is_corrected": bool(corrected),
                "versions": version_table(rows, headings, card.headline),
                "charts": dot_charts(rows),
                "rows": rows,
            }
        )
    return tables


def criterion_heading(plan: Plan, card: Card, criterion: str) -> str:
    """Return the heading of a criterion's column: its title, and the desired label whose share the column shows."""
    scale = plan.people_scales.get(card.task, {}).get(criterion)
    return f"{criterion_title(criterion)}: {scale.desired}" if scale and scale.desired else criterion_title(criterion)


COMPARED = ("wins", "ties", "losses", "position_consistency")


def comparison_rows(run: ReportInput, card: Card) -> list[dict[str, Any]]:
    """Return a row per tutor whose turns were compared with the given ones, with its scores by metric."""
    rows = []
    for tutor in run.plan.run.tutors:
        by_metric = scores_by_metric(run, card, tutor)
        if scores := {metric: by_metric[metric] for metric in COMPARED if metric in by_metric}:
            rows.append({"tutor": display_label(run.plan, tutor), **scores})
    return rows


def transcripts_page(run: ReportInput) -> dict[str, Any] | None:
    """Return the variables of the page, or None for a run without transcripts."""
    cards = transcript_cards(run.plan)
    if not cards:
        return None
    parts = [
        {
            "card": card,
            "criteria": [criterion_heading(run.plan, card, criterion) for criterion in criteria_of(card).values()],
            "tables": tutor_tables(run, card),
        }
        for card in cards
        if card.tutors != "asked"
    ]
    compared = [row for card in cards if card.tutors == "asked" for row in comparison_rows(run, card)]
    return {
        "note": run.plan.config.report.note,
        "parts": parts,
        "compared": compared,
        "corrected": corrected_rate_rows(run.plan, run.results),
    }


def has_only_transcripts(plan: Plan) -> bool:
    """Return True if all tasks of a run are moments of transcripts."""
    return bool(plan.cards) and len(transcript_cards(plan)) == len(plan.cards)


PAGES = (
    Section("#/transcripts", "Transcripts", "transcripts", transcripts_page, main=True, opens=has_only_transcripts),
)
