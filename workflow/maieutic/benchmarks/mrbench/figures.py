"""The labelled tutors beside each other: every label of a dialogue, and pictures of what people and judges say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from maieutic.core import paths
from maieutic.core.records import Judgement, Score, read_records
from maieutic.datasets.sampling import select
from maieutic.judges.labels import Labels, read_labels
from maieutic.plan.plan import Plan
from maieutic.report.browser import short
from maieutic.report.figures import levels_chart, radar_chart, share_chart
from maieutic.report.tables import label_of
from maieutic.report.trust import called
from maieutic.validation.measures import CORRELATION, MEAN_LABEL, MEASURES, counted, parts_of
from maieutic.validation.trust import Said, said_by

Order = Callable[[Any], list[str]]  # tutors as the paper lists them


def verdicts_on_sets(plan: Plan, results: Path) -> dict[str, dict[str, Said]]:
    """By labelled set and by judge, as it is labelled on the page, what the judge says of the set."""
    said: dict[str, dict[str, Said]] = defaultdict(dict)
    for name in plan.run.judges:
        path = paths.LABELLED_VERDICTS.within(results, judge=name)
        by_set: dict[str, list[Judgement]] = defaultdict(list)
        for one in read_records(path, Judgement) if path.exists() else ():
            by_set[one.task].append(one)
        for release, own in by_set.items():
            said[release][label_of(plan, name)] = said_by(own)
    return said


def shown_set(
    plan: Plan, results: Path, release: str, said: Mapping[str, Said], dimensions: Sequence[str], order: Order
) -> dict[str, Any] | None:
    """Everything of one labelled set that is shown beside its tables; None where its files are gone.

    said: by judge what it says of the set.
    """
    folder = paths.LABELS.within(results, release=release).parent
    if not paths.LABELS.within(results, release=release).exists():
        return None
    labels = read_labels(folder)
    return {
        "distributions": share_chart(shares(labels, said, dimensions)),
        "confusions": [
            {"judge": judge, "tables": [confusion(labels, own, name) for name in dimensions]}
            for judge, own in said.items()
        ],
        "fifths": fifths(labels, dimensions),
        "dialogues": dialogues(labels, said, dimensions, order, plan.config.report.browser_items, plan.run.seed),
        "number": len(labels.items),
    }


def shares(labels: Labels, said: Mapping[str, Said], dimensions: Sequence[str]) -> pd.DataFrame:
    """How often each label of a dimension is given, by people and by each judge: dimension, by, label, place, share."""
    rows = []
    for name in dimensions:
        scale = labels.scales[name].labels
        people = Counter(one.label for one in labels.labels if one.criterion == name)
        by = {"people": people} | {
            judge: Counter(str(value) for key, value in own.items() if key[2] == name and value is not None)
            for judge, own in said.items()
        }
        for who, counts in by.items():
            for place, label in enumerate(scale):
                share = counts[label] / max(1, counts.total())
                rows.append({"dimension": called(name), "by": who, "label": label, "place": place, "share": share})
    return pd.DataFrame(rows, columns=["dimension", "by", "label", "place", "share"])


def fifths(labels: Labels, dimensions: Sequence[str]) -> list[dict[str, Any]]:
    """How often people give the first label to replies of each fifth by a measure: by measure and dimension."""
    shown = []
    for measure, count in MEASURES.items():
        values = counted(count, labels)
        rows = []
        for name in dimensions:
            own = [one for one in labels.labels if one.criterion == name]
            first = [one.label == labels.scales[name].labels[0] for one in own]
            rows.append(
                {"dimension": called(name), "parts": parts_of([values[one.id, one.tutor] for one in own], first)}
            )
        shown.append({"measure": measure, "rows": rows})
    return shown


def confusion(labels: Labels, said: Said, dimension: str) -> dict[str, Any]:
    """How often a judge says each label where people say each: a row for people's, a column for the judge's."""
    scale = labels.scales[dimension].labels
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in labels.labels:
        key = one.id, one.tutor, one.criterion
        if one.criterion == dimension and key in said:
            counts[one.label][said[key] or "unreadable"] += 1
    columns = [*scale, *(["unreadable"] if any("unreadable" in row for row in counts.values()) else [])]
    return {
        "dimension": called(dimension),
        "columns": columns,
        "rows": [{"label": label, "counts": [counts[label][column] for column in columns]} for label in scale],
    }


def dialogues(
    labels: Labels, said: Mapping[str, Said], dimensions: Sequence[str], order: Order, number: int, seed: int
) -> list[dict[str, Any]]:
    """A sample of the dialogues, each with every tutor's reply and all of its labels."""
    by_reply = {(one.id, one.tutor, one.criterion): one.label for one in labels.labels}
    texts = {(reply.id, reply.tutor): reply.text for reply in labels.replies}
    shown = []
    for item in select(list(labels.items.values()), number, seed):
        rows = []
        for tutor in order([tutor for name, tutor in texts if name == item.id]):
            cells = [
                {
                    "people": by_reply.get((item.id, tutor, name), ""),
                    "judges": [
                        f"{judge}: {own[item.id, tutor, name] or 'unreadable'}"
                        for judge, own in said.items()
                        if (item.id, tutor, name) in own
                        and own[item.id, tutor, name] != by_reply.get((item.id, tutor, name))
                    ],
                }
                for name in dimensions
            ]
            rows.append({"tutor": tutor, "reply": short(texts[item.id, tutor]), "cells": cells})
        name = item.tags.get("conversation", item.id)
        shown.append({"name": name, "history": short(item.vars.get("history", "")), "rows": rows})
    return shown


def mean_rows(
    scores: Mapping[str, Sequence[Score]], release: str, dimensions: Sequence[str], order: Order
) -> list[dict[str, Any]]:
    """Each tutor's mean label by dimension, as people give it and as each judge does. scores: by who says it."""
    cells: dict[str, dict[str, dict[str, Score]]] = defaultdict(lambda: defaultdict(dict))
    for who, own in scores.items():
        for one in own:
            if (one.metric, one.release) == (MEAN_LABEL, release):
                cells[str(one.tutor)][who][str(one.criterion)] = one
    return [
        {"tutor": tutor if place == 0 else "", "by": who, "cells": [own.get(name) for name in dimensions]}
        for tutor in order(cells)
        for place, (who, own) in enumerate(cells[tutor].items())
    ]


def spider(people: Sequence[Score], release: str, dimensions: Sequence[str], order: Order) -> str:
    """The mean labels of all tutors as people give them, one ring a tutor; empty with fewer than three dimensions."""
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for one in people:
        if (one.metric, one.release) == (MEAN_LABEL, release) and one.value is not None:
            values[str(one.tutor)][str(one.criterion)] = one.value
    if len(dimensions) < 3 or not values:
        return ""
    rings = {tutor: [values[tutor].get(name, 0.0) for name in dimensions] for tutor in order(values)}
    return radar_chart(rings, [called(name) for name in dimensions])


def measure_rows(
    people: Sequence[Score], judged: Mapping[str, Sequence[Score]], release: str, dimensions: Sequence[str]
) -> list[dict[str, Any]]:
    """Spearman's correlation with people's labels, by dimension: what can be counted of a reply, then each judge."""
    cells: dict[str, dict[str, Score]] = defaultdict(dict)
    for one in people:
        if (one.metric, one.release) == (CORRELATION, release):
            cells[str(one.by)][str(one.criterion)] = one
    for judge, scores in judged.items():
        for one in scores:
            if (one.metric, one.release, one.scoring, one.tutor, one.by) == ("spearman", release, "robust", None, None):
                cells[judge][str(one.criterion)] = one
    return [{"what": what, "cells": [own.get(name) for name in dimensions]} for what, own in cells.items()]


def measure_chart(rows: Sequence[Mapping[str, Any]], dimensions: Sequence[str]) -> str:
    """The same as a picture: each correlation with its interval, dimension by dimension. rows: as above."""
    points = [
        {
            "level": called(name),
            "tutor": row["what"],
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "paper": None,
        }
        for row in rows
        for name, one in zip(dimensions, row["cells"], strict=True)
        if one is not None and one.value is not None
    ]
    if not points:
        return ""
    names = list(dict.fromkeys(str(point["tutor"]) for point in points))
    table = pd.DataFrame(points).astype({"paper": float})
    return levels_chart(table, "Spearman's correlation with people's labels", names)
