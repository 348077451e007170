"""Tables and charts that compare people's labels of tutors' replies with those of judges."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from maieutic.core import paths
from maieutic.core.records import Judgement, Score, read_records
from maieutic.datasets.labelled_sets import LabelledData, read_labelled_data
from maieutic.plan.plan import Plan
from maieutic.report.figures import levels_chart, radar_chart, stacked_chart
from maieutic.report.tables import display_label
from maieutic.report.trust import criterion_title
from maieutic.validation.surface_measures import (
    CORRELATION,
    MEAN_LABEL,
    SURFACE_MEASURES,
    bin_by_measure,
    measure_replies,
)
from maieutic.validation.trust import LabelsByReply, verdict_labels

TutorOrder = Callable[[Any], list[str]]  # function that sorts tutors as in the paper's tables


def verdicts_by_release(plan: Plan, results: Path) -> dict[str, dict[str, LabelsByReply]]:
    """Return the verdicts on the labelled sets, by name of the set and display label of the judge."""
    by_release: dict[str, dict[str, LabelsByReply]] = defaultdict(dict)
    for name in plan.run.judges:
        path = paths.LABELLED_VERDICTS.within(results, judge=name)
        by_set: dict[str, list[Judgement]] = defaultdict(list)
        for judgement in read_records(path, Judgement) if path.exists() else ():
            by_set[judgement.task].append(judgement)
        for release, judgements in by_set.items():
            by_release[release][display_label(plan, name)] = verdict_labels(judgements)
    return by_release


def labelled_set_views(
    results: Path,
    release: str,
    by_judge: Mapping[str, LabelsByReply],
    dimensions: Sequence[str],
) -> dict[str, Any] | None:
    """Return the page's charts and tables for one labelled set, or None if the set's files were deleted.

    by_judge: each judge's verdicts on the set.
    """
    folder = paths.LABELS.within(results, release=release).parent
    if not paths.LABELS.within(results, release=release).exists():
        return None
    labels = read_labelled_data(folder)
    return {
        "distributions": stacked_chart(
            label_shares(labels, by_judge, dimensions), "share of labels", shares=True, facet="dimension"
        ),
        "fifths": first_label_by_fifth(labels, dimensions),
    }


PLACES = ("first label", "second", "third", "fourth")  # on the scale of a dimension


def label_shares(
    labels: LabelledData, by_judge: Mapping[str, LabelsByReply], dimensions: Sequence[str]
) -> pd.DataFrame:
    """Return the share of each label in each dimension, among people's labels and among each judge's.

    The columns are dimension, level (`people` or the judge), part (position of the label on its scale) and count (the
    share).
    """
    rows = []
    for name in dimensions:
        scale = labels.scales[name].labels
        people = Counter(label.label for label in labels.labels if label.criterion == name)
        counters = {"people": people} | {
            judge: Counter(str(value) for key, value in verdicts.items() if key[2] == name and value is not None)
            for judge, verdicts in by_judge.items()
        }
        for who, counts in counters.items():
            for label, place in zip_longest(scale, PLACES[: len(scale)], fillvalue="further"):
                share = counts[label] / max(1, counts.total())
                rows.append({"dimension": criterion_title(name), "level": who, "part": place, "count": share})
    return pd.DataFrame(rows, columns=["dimension", "level", "part", "count"])


def first_label_by_fifth(labels: LabelledData, dimensions: Sequence[str]) -> list[dict[str, Any]]:
    """Return a table for each surface measure, with one row per dimension.

    The measure divides the replies into fifths. For each fifth, a row contains the share of the replies to which people
    gave the first label of the scale.
    """
    tables = []
    for measure, count in SURFACE_MEASURES.items():
        values = measure_replies(count, labels)
        rows = []
        for name in dimensions:
            named = [label for label in labels.labels if label.criterion == name]
            first = [label.label == labels.scales[name].labels[0] for label in named]
            parts = bin_by_measure([values[label.id, label.tutor] for label in named], first)
            rows.append({"dimension": criterion_title(name), "parts": parts})
        tables.append({"measure": measure, "rows": rows})
    return tables


def mean_label_rows(
    scores: Mapping[str, Sequence[Score]], release: str, dimensions: Sequence[str], order: TutorOrder
) -> list[dict[str, Any]]:
    """Return each tutor's mean label in each dimension, from people and from each judge.

    scores: scores from people, then from each judge.
    """
    cells: dict[str, dict[str, dict[str, Score]]] = defaultdict(lambda: defaultdict(dict))
    for who, means in scores.items():
        for score in means:
            if (score.metric, score.release) == (MEAN_LABEL, release):
                cells[str(score.tutor)][who][str(score.criterion)] = score
    return [
        {"tutor": tutor if place == 0 else "", "by": who, "cells": [by_dimension.get(name) for name in dimensions]}
        for tutor in order(cells)
        for place, (who, by_dimension) in enumerate(cells[tutor].items())
    ]


def mean_label_radar(people: Sequence[Score], release: str, dimensions: Sequence[str], order: TutorOrder) -> str:
    """Return a radar chart of people's mean labels, with a ring per tutor; empty for fewer than three dimensions."""
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for score in people:
        if (score.metric, score.release) == (MEAN_LABEL, release) and score.value is not None:
            values[str(score.tutor)][str(score.criterion)] = score.value
    if len(dimensions) < 3 or not values:
        return ""
    rings = {tutor: [values[tutor].get(name, 0.0) for name in dimensions] for tutor in order(values)}
    return radar_chart(rings, [criterion_title(name) for name in dimensions])


def correlation_rows(
    people: Sequence[Score], judged: Mapping[str, Sequence[Score]], release: str, dimensions: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the Spearman correlations of surface measures, then of judges, with people's labels in each dimension."""
    cells: dict[str, dict[str, Score]] = defaultdict(dict)
    for score in people:
        if (score.metric, score.release) == (CORRELATION, release):
            cells[str(score.by)][str(score.criterion)] = score
    overall = ("spearman", release, "robust", None, None)
    for judge, scores in judged.items():
        for score in scores:
            if (score.metric, score.release, score.scoring, score.tutor, score.by) == overall:
                cells[judge][str(score.criterion)] = score
    return [
        {"what": what, "cells": [by_dimension.get(name) for name in dimensions]} for what, by_dimension in cells.items()
    ]


def correlation_chart(rows: Sequence[Mapping[str, Any]], dimensions: Sequence[str]) -> str:
    """Return a chart of correlations with their intervals, by dimension. rows: result of correlation_rows."""
    points = [
        {
            "level": criterion_title(name),
            "series": row["what"],
            "value": score.value,
            "low": score.low,
            "high": score.high,
            "paper": None,
        }
        for row in rows
        for name, score in zip(dimensions, row["cells"], strict=True)
        if score is not None and score.value is not None
    ]
    if not points:
        return ""
    names = list(dict.fromkeys(str(point["series"]) for point in points))
    table = pd.DataFrame(points).astype({"paper": float})
    return levels_chart(table, "Spearman's correlation with people's labels", names)
