"""Report page on a team's own transcripts: numbers by tutor, tag and position in the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from maieutic.config.cards import Card, Metric
from maieutic.core.records import ReportedScore
from maieutic.plan.plan import Plan
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label
from maieutic.report.trust import corrected_rate_rows, criterion_title
from maieutic.transcripts.loaders import LOADERS
from maieutic.transcripts.moments import LAST_POSITION, POSITION, POSITIONS

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


def tutor_tables(run: ReportInput, card: Card) -> list[dict[str, Any]]:
    """Return one table per tutor with the numbers of all its turns and of each subset."""
    criteria = criteria_of(card)
    tables = []
    for tutor in run.plan.run.tutors:
        if rows := subset_rows(card, scores_by_metric(run, card, tutor), list(criteria)):
            tables.append({"tutor": display_label(run.plan, tutor), "rows": rows})
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


PAGES = (Section("#/transcripts", "Transcripts", "transcripts", transcripts_page, main=True),)
