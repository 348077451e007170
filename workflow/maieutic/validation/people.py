"""Prediction-powered estimates: a judge's mean, corrected by the replies that people labelled too.

Angelopoulos et al., "PPI++: Efficient Prediction-Powered Inference" (2023), by the authors' own library. The labelled
replies have to be a random part of the tutor's replies; replies to different dialogues count as independent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from maieutic.core.records import Label, Scales, Score
from maieutic.core.stats import LEVEL, MEAN, Estimate, Interval, Sampling, estimate
from maieutic.datasets.sampling import ranked
from maieutic.judges.labels import Labels
from maieutic.people.labels import majority
from maieutic.validation.agreement import krippendorff_alpha, mean_cohen, usual_fleiss
from maieutic.validation.trust import Said, agreement_scores, pairings_of, plain, score

FEWEST = 20  # labelled replies, below which the interval's normal approximation is no good
MOST_LOST = 0.1  # share of replies that a judge may leave unread, or annotators divided, before there is no estimate


class Corrected(NamedTuple):
    """A corrected mean with its 95 % interval."""

    value: float
    interval: Interval


def prediction_powered(people: Sequence[float], judge: Sequence[float], alone: Sequence[float]) -> Corrected | None:
    """The mean of what people would say. people, judge: of the labelled replies; alone: the judge of the others.

    None with too few labels. A judge that always says the same adds nothing: then it is the mean of the labels.
    """
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # imports a compiler: some seconds

    if len(people) < FEWEST or not alone:
        return None
    gold, verdicts, rest = (np.array(values, dtype=float) for values in (people, judge, alone))
    # The library divides by the judge's variance to weigh it; without any, its weight is 0.
    weight = 0.0 if np.ptp(np.concatenate([verdicts, rest])) == 0 else None
    value = float(np.ravel(ppi_mean_pointestimate(gold, verdicts, rest, lam=weight))[0])
    low, high = (float(np.ravel(end)[0]) for end in ppi_mean_ci(gold, verdicts, rest, alpha=1 - LEVEL, lam=weight))
    if not math.isfinite(value):
        return None
    # Where the labels do not vary, the normal approximation has no width and says nothing.
    known = math.isfinite(low + high) and len(set(people)) > 1
    return Corrected(value, Interval(max(low, 0.0), min(high, 1.0)) if known else Interval(None, None))


class Cells(NamedTuple):
    """What is known of one tutor's replies under one criterion: 1 where the desired label was given.

    people, judge: of replies with both; alone: the judge of replies without a label; lost: replies that the judge has
    not read; labels: all labels of people, whatever the judge says.
    """

    people: list[float]
    judge: list[float]
    alone: list[float]
    lost: list[str]
    labels: list[float]


Known = Mapping[tuple[str, str, str], str | None]  # labels by item, tutor and criterion; None: annotators are divided


def cells_of(labelled: Known, verdicts: Said, scales: Scales) -> dict[tuple[str, str], Cells]:
    """By tutor and criterion, the judge's verdicts with and without a label beside them.

    A reply that annotators are divided about is neither labelled nor without a label: it belongs to no part.
    """
    cells: dict[tuple[str, str], Cells] = defaultdict(lambda: Cells([], [], [], [], []))
    for (item, tutor, criterion), value in verdicts.items():
        wanted = scales[criterion].desired if criterion in scales else None
        if wanted is None:
            continue
        key, cell = (item, tutor, criterion), cells[tutor, criterion]
        label = labelled.get(key)
        if label is not None:
            cell.labels.append(float(label == wanted))
        if value is None or (key in labelled and label is None):
            cell.lost.append(item)
            continue
        verdict = float(value == wanted)
        if label is None:
            cell.alone.append(verdict)
        else:
            cell.people.append(float(label == wanted))
            cell.judge.append(verdict)
    return dict(cells)


def corrected_rates(
    grader: str, labelled: Known, verdicts: Said, name: str, scales: Scales, sampling: Sampling
) -> list[Score]:
    """The corrected DAMR of every tutor and criterion with labels, beside the judge's and the labels' own.

    The value is None with fewer than 20 labels, or where more than a tenth of the replies is lost: what is left would
    be another population. Where every reply has a label, people have said it all, and their rate stands.
    """
    scores = []
    for (tutor, criterion), cell in cells_of(labelled, verdicts, scales).items():
        if not cell.labels:
            continue
        n = len(cell.people) + len(cell.alone)
        corrected = None
        if len(cell.lost) <= MOST_LOST * (n + len(cell.lost)):
            corrected = whole_rate(cell, sampling) or prediction_powered(cell.people, cell.judge, cell.alone)
        judged = [*cell.judge, *cell.alone]
        means = {"judge": float(np.mean(judged)) if judged else None, "labels": float(np.mean(cell.labels))}
        value, interval = corrected or (None, Interval(None, None))
        measured = Estimate(value, interval, n, len(cell.lost), len(cell.labels))
        scores.append(score(None, name, measured, tutor=tutor, criterion=criterion, by=grader))
        for which, mean in means.items():
            scores.append(plain(None, f"{name}_{which}", mean, n, 0, tutor=tutor, criterion=criterion, by=grader))
    return scores


def whole_rate(cell: Cells, sampling: Sampling) -> Corrected | None:
    """The rate of people where no reply is without a label."""
    if cell.alone or len(cell.labels) < FEWEST:
        return None
    rate = estimate(MEAN, cell.labels, [str(number) for number in range(len(cell.labels))], sampling)
    return Corrected(float(rate.value or 0.0), rate.interval)


def half_of(labels: Labels, verdicts: Said, seed: int) -> Known:
    """The labels of a random half of the dialogues that the judge has seen: the others' are hidden from it."""
    seen = sorted({item for item, _, _ in verdicts})
    kept = set(ranked(seen, seed)[: len(seen) // 2])
    return {(label.id, label.tutor, label.criterion): label.label for label in labels.labels if label.id in kept}


def annotator_scores(model: str | None, labels: Sequence[Label], scales: Scales) -> list[Score]:
    """How far people agree with each other.

    Fleiss: of the replies with the usual number of labels; Cohen: averaged over the pairs of annotators; Krippendorff's
    alpha: of all labels, by the scale's level.
    """
    by_criterion: dict[str, dict[tuple[str, str], dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for label in labels:
        by_criterion[label.criterion][label.id, label.tutor][str(label.annotator)] = label.label
    scores = []
    for criterion, replies in by_criterion.items():
        several = [votes for votes in replies.values() if len(votes) > 1]
        if not several:
            continue
        fleiss = usual_fleiss([list(votes.values()) for votes in several])
        scores.append(plain(model, "fleiss_kappa", *fleiss, criterion=criterion))
        scores.append(plain(model, "cohen_kappa", mean_cohen(several), len(several), 0, criterion=criterion))
        scale = scales.get(criterion)
        if scale is not None:
            alpha = krippendorff_alpha([list(votes.values()) for votes in several], scale)
            scores.append(plain(model, "krippendorff_alpha", alpha, len(several), 0, criterion=criterion))
    return scores


def people_scores(
    grader: str, labels: Sequence[Label], verdicts: Said, scales: Scales, sampling: Sampling
) -> list[Score]:
    """A judge against the labels that people gave to this run's replies, and the rates corrected by them."""
    merged = majority(labels)
    known = {(vote.id, vote.tutor, vote.criterion): label for vote, label in merged}
    agreed = [vote.model_copy(update={"label": label}) for vote, label in merged if label is not None]
    pairings = pairings_of(agreed, verdicts, {}, scales)
    scores = agreement_scores(grader, pairings, scales, sampling) if pairings else []
    annotators = [vote for vote in labels if not vote.resolves]
    rates = corrected_rates(grader, known, verdicts, "ppi", scales, sampling)
    return [*scores, *annotator_scores(grader, annotators, scales), *rates]
