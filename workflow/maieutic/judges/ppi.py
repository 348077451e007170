"""Prediction-powered estimates: a judge's mean, corrected by the replies that people labelled too.

Angelopoulos et al., "PPI++: Efficient Prediction-Powered Inference" (2023), by the authors' own library. The labelled
replies have to be a random part of the tutor's replies; replies to different dialogues count as independent.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maieutic.datasets.mrbench import DESIRED, LABELS
from maieutic.datasets.sampling import ranked
from maieutic.errors import UserError
from maieutic.judges.agreement import Measured, fleiss, mean_cohen
from maieutic.judges.labels import Labels
from maieutic.judges.trust import Said, Sampling, agreement_scores, pairings_of, plain, score
from maieutic.records import Label, Score
from maieutic.stats import LEVEL, Interval

FEWEST = 20  # labelled replies, below which the interval's normal approximation is no good
COLUMNS = ("task", "item", "tutor", "criterion", "label")


class Estimate(NamedTuple):
    """A corrected mean with its 95 % interval."""

    value: float
    interval: Interval


def prediction_powered(people: Sequence[float], judge: Sequence[float], alone: Sequence[float]) -> Estimate | None:
    """The mean of what people would say. people, judge: of the labelled replies; alone: the judge of the others.

    None with too few labels. A judge that always says the same adds nothing: then it is the mean of the labels.
    """
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # imports a compiler: some seconds

    if len(people) < FEWEST or not alone:
        return None
    gold, said, rest = (np.array(values, dtype=float) for values in (people, judge, alone))
    # The library divides by the judge's variance to weigh it; without any, its weight is 0.
    weight = 0.0 if np.ptp(np.concatenate([said, rest])) == 0 else None
    value = float(np.ravel(ppi_mean_pointestimate(gold, said, rest, lam=weight))[0])
    low, high = (float(np.ravel(end)[0]) for end in ppi_mean_ci(gold, said, rest, alpha=1 - LEVEL, lam=weight))
    if not math.isfinite(value):
        return None
    return Estimate(
        value, Interval(max(low, 0.0), min(high, 1.0)) if math.isfinite(low + high) else Interval(None, None)
    )


class Cells(NamedTuple):
    """What is known of one tutor's replies under one criterion: 1 where the desired label was given."""

    people: list[float]
    judge: list[float]
    alone: list[float]


def cells_of(labelled: Mapping[tuple[str, str, str], str], said: Said) -> dict[tuple[str, str], Cells]:
    """By tutor and criterion, the judge's verdicts with and without a label beside them."""
    cells: dict[tuple[str, str], Cells] = defaultdict(lambda: Cells([], [], []))
    for (item, tutor, criterion), value in said.items():
        if value is None or criterion not in DESIRED:
            continue
        cell = cells[tutor, criterion]
        verdict = float(value == DESIRED[criterion])
        label = labelled.get((item, tutor, criterion))
        if label is None:
            cell.alone.append(verdict)
        else:
            cell.people.append(float(label == DESIRED[criterion]))
            cell.judge.append(verdict)
    return dict(cells)


def corrected_rates(grader: str, labelled: Mapping[tuple[str, str, str], str], said: Said, name: str) -> list[Score]:
    """The corrected DAMR of every tutor and criterion with enough labels, beside the judge's and the labels' own."""
    found = []
    for (tutor, criterion), cell in cells_of(labelled, said).items():
        estimate = prediction_powered(*cell)
        if estimate is None:
            continue
        n = len(cell.people) + len(cell.alone)
        means = {
            "judge": float(np.mean([*cell.judge, *cell.alone])),
            "labels": float(np.mean(cell.people)),
        }
        found.append(
            score(
                tutor,
                f"{name}/{criterion}",
                "robust",
                Measured(estimate.value, estimate.interval, n, 0, len(cell.people)),
                grader=grader,
            )
        )
        found += [
            plain(tutor, f"{name}_{which}/{criterion}", value, n, 0).model_copy(update={"grader": grader})
            for which, value in means.items()
        ]
    return found


def half_of(labels: Labels, said: Said, seed: int) -> dict[tuple[str, str, str], str]:
    """The labels of a random half of the dialogues that the judge has seen: the others' are hidden from it."""
    seen = sorted({item for item, _, _ in said})
    kept = set(ranked(seen, seed)[: len(seen) // 2])
    return {(one.id, one.model, one.criterion): one.label for one in labels.labels if one.id in kept}


def read_people(path: Path) -> list[Label]:
    """Labels that people gave to this run's replies: a CSV with task, item, tutor, criterion, label, annotator.

    Raises UserError naming the line. `annotator` may be left out where there is one only.
    """
    mend = f"the columns are {', '.join(COLUMNS)}, and annotator"
    try:
        with open(path, encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(str(path), f"cannot be read: {error}", mend) from None
    found = []
    for number, row in enumerate(rows, 2):
        place = f"{path}:{number}"
        if missing := [name for name in COLUMNS if not (row.get(name) or "").strip()]:
            raise UserError(place, f"{', '.join(missing)} is missing", mend)
        task, item, tutor, criterion, label = ((row[name] or "").strip() for name in COLUMNS)
        if label not in LABELS.get(criterion, ()):
            known = ", ".join(LABELS.get(criterion, LABELS))
            raise UserError(place, f"no such label {criterion}: {label!r}", f"known: {known}")
        annotator = (row.get("annotator") or "").strip() or None
        found.append(
            Label(id=item, task=task, model=tutor, criterion=criterion, label=label, problem=item, annotator=annotator)
        )
    return found


def majority(labels: Sequence[Label]) -> list[Label]:
    """One label a reply and criterion: the most frequent one; none where annotators are divided."""
    by_key: dict[tuple[str, str, str], list[Label]] = defaultdict(list)
    for label in labels:
        by_key[label.id, label.model, label.criterion].append(label)
    chosen = []
    for of in by_key.values():
        counts = {name: sum(one.label == name for one in of) for name in {one.label for one in of}}
        best = [name for name, count in counts.items() if count == max(counts.values())]
        if len(best) == 1:
            chosen.append(of[0].model_copy(update={"label": best[0], "annotator": None}))
    return chosen


def annotator_scores(model: str, labels: Sequence[Label]) -> list[Score]:
    """How far people agree with each other, where several labelled the same replies."""
    by_key: dict[tuple[str, str, str], dict[str | None, str]] = defaultdict(dict)
    for label in labels:
        by_key[label.criterion, label.id, label.model][label.annotator] = label.label
    most = max((len(of) for of in by_key.values()), default=0)
    by_criterion: dict[str, list[list[str]]] = defaultdict(list)
    for (criterion, _, _), given in by_key.items():
        if len(given) == most and most > 1:
            by_criterion[criterion].append([given[name] for name in sorted(given, key=str)])
    found = []
    for criterion, of in by_criterion.items():
        found.append(plain(model, f"fleiss_kappa/{criterion}", fleiss(of), len(of), 0))
        found.append(plain(model, f"cohen_kappa/{criterion}", mean_cohen(of), len(of), 0))
    return found


def people_scores(grader: str, labels: Sequence[Label], said: Said, sampling: Sampling) -> list[Score]:
    """A judge against the labels that people gave to this run's replies, and the rates corrected by them."""
    agreed = majority(labels)
    known = {(one.id, one.model, one.criterion): one.label for one in agreed}
    pairings = pairings_of(agreed, said, {})
    found = agreement_scores(grader, pairings, sampling) if pairings else []
    return [*found, *annotator_scores(grader, labels), *corrected_rates(grader, known, said, "ppi")]
