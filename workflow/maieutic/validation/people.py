"""Prediction-powered estimates: a judge's mean, corrected by the replies that people labelled too.

Angelopoulos et al., "PPI++: Efficient Prediction-Powered Inference" (2023), by the authors' own library. The labelled
replies have to be a random part of the tutor's replies; replies to different dialogues count as independent.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from maieutic.core.intervals import LEVEL
from maieutic.core.records import Difference, Label, Scales, Score
from maieutic.core.stats import SHARE, Estimate, Interval, Sampling, estimate
from maieutic.datasets.sampling import ranked
from maieutic.judges.labels import Labels
from maieutic.people.labels import majority
from maieutic.scores.differences import with_holm
from maieutic.scores.score import Columns
from maieutic.validation.agreement import krippendorff_alpha, mean_cohen, usual_fleiss
from maieutic.validation.carry_over import audit_scores
from maieutic.validation.designs import Drawn, Parts, corrected_mean, difference_of, interval_of, population_of
from maieutic.validation.trust import TASK, Said, agreement_scores, pairings_of, plain, score

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
    not read; labels: all labels of people, whatever the judge says; drawn: of people's, how the reply was drawn, None
    where nobody has said it; divided: replies that annotators are divided about.
    """

    people: list[float]
    judge: list[float]
    alone: list[float]
    lost: list[str]
    labels: list[float]
    drawn: list[Design | None]
    divided: list[str]

    @property
    def lossy(self) -> bool:
        """Whether too much is lost: what is left of the replies, or of the labelled ones, is another population."""
        asked = len(self.people) + len(self.alone) + len(self.lost)
        drawn_in_all = len(self.labels) + len(self.divided)
        return len(self.lost) > MOST_LOST * asked or len(self.divided) > MOST_LOST * max(drawn_in_all, 1)

    def design(self) -> list[Drawn] | None:
        """The labelled replies as they were drawn; None where it is not known of each."""
        rows = zip(self.people, self.judge, self.drawn, strict=True)
        known = [Drawn(gold, said, *design) for gold, said, design in rows if design is not None]
        return known if known and len(known) == len(self.people) else None

    def parts(self, use_judge: bool = True) -> Parts | None:
        """The corrected rate by the design of the labels.

        None where it is not known, with too few labels, where too much is lost, or where the strata are not those of
        the replies: a stratum without a label, or two samples in one file.
        """
        design, judged = self.design(), [*self.judge, *self.alone]
        if design is None or len(design) < FEWEST or self.lossy:
            return None
        population, asked = population_of(design), len(judged) + len(self.lost)
        if population is not None and abs(population - asked) > MOST_LOST * asked:
            return None
        return corrected_mean(design, judged, use_judge)


Design = tuple[float, str | None, int | None]  # a probability, the stratum, the stratum's replies
Designs = Mapping[tuple[str, str, str], Design]  # by item, tutor and criterion
Known = Mapping[tuple[str, str, str], str | None]  # labels by item, tutor and criterion; None: annotators are divided


def cells_of(
    labelled: Known, verdicts: Said, scales: Scales, designs: Designs | None = None
) -> dict[tuple[str, str], Cells]:
    """By tutor and criterion, the judge's verdicts with and without a label beside them.

    A reply that annotators are divided about is neither labelled nor without a label: it belongs to no part.
    """
    cells: dict[tuple[str, str], Cells] = defaultdict(lambda: Cells([], [], [], [], [], [], []))
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
            if key in labelled and label is None:
                cell.divided.append(item)
            continue
        verdict = float(value == wanted)
        if label is None:
            cell.alone.append(verdict)
        else:
            cell.people.append(float(label == wanted))
            cell.judge.append(verdict)
            cell.drawn.append((designs or {}).get(key))
    return dict(cells)


def corrected_rates(
    grader: str,
    labelled: Known,
    verdicts: Said,
    name: str,
    scales: Scales,
    sampling: Sampling,
    designs: Designs | None = None,
) -> list[Score]:
    """The corrected DAMR of every tutor and criterion with labels, beside the judge's and the labels' own.

    The value is None with fewer than 20 labels, or where more than a tenth of the replies is lost: what is left would
    be another population. Where every reply has a label, people have said it all, and their rate stands. Where it is
    known how the replies were drawn, it counts, and the labels that the judge saves are said too.
    """
    scores = []
    for (tutor, criterion), cell in cells_of(labelled, verdicts, scales, designs).items():
        if not cell.labels:
            continue
        columns: Columns = {"tutor": tutor, "criterion": criterion, "by": grader}
        n = len(cell.people) + len(cell.alone)
        judged, own = [*cell.judge, *cell.alone], [str(number) for number in range(n)]
        corrected, saved = None, None
        by_labels: tuple[float | None, Interval] = float(np.mean(cell.labels)), Interval(None, None)
        if not cell.lossy:
            corrected = whole_rate(cell, sampling)
            parts, alone = cell.parts(), cell.parts(use_judge=False)
            if corrected is None and parts is not None and alone is not None:
                corrected, saved = Corrected(parts.value, interval_of(parts)), parts.saved
                by_labels = alone.value, interval_of(alone)
            if corrected is None and cell.design() is None:
                corrected = prediction_powered(cell.people, cell.judge, cell.alone)
        value, interval = corrected or (None, Interval(None, None))
        measured = Estimate(value, interval, n, len(cell.lost), len(cell.labels))
        scores.append(score(None, name, measured, **columns))
        by_judge = estimate(SHARE, judged, own, sampling) if judged else Estimate(None, Interval(None, None), 0)
        scores.append(score(None, f"{name}_judge", by_judge._replace(n=n, clusters=0), **columns))
        scores.append(score(None, f"{name}_labels", Estimate(*by_labels, n), **columns))
        if saved is not None:
            scores.append(plain(None, f"{name}_saved", saved, n, 0, **columns))
    return scores


def corrected_differences(
    grader: str, labelled: Known, verdicts: Said, scales: Scales, designs: Designs
) -> list[Difference]:
    """How far each tutor's corrected rate is ahead of each other one's, where it is known how both were drawn."""
    cells = cells_of(labelled, verdicts, scales, designs)
    differences = []
    for criterion in scales:
        of_tutor = {tutor: cell for (tutor, name), cell in cells.items() if name == criterion}
        found = {tutor: cell.parts() for tutor, cell in of_tutor.items() if cell.alone}
        parts = {tutor: one for tutor, one in found.items() if one is not None}
        for first, second in itertools.combinations(parts, 2):
            both = shared_labels(labelled, criterion, first, second, scales[criterion].desired)
            apart = difference_of(parts[first], parts[second], correlation_of(both))
            differences.append(
                Difference(
                    benchmark=None,
                    task=TASK,
                    first=first,
                    second=second,
                    metric="ppi",
                    criterion=criterion,
                    by=grader,
                    scoring="robust",
                    value=apart.value,
                    low=apart.interval.low,
                    high=apart.interval.high,
                    p=apart.p,
                    n=parts[first].n + parts[second].n,
                    clusters=len(both),
                )
            )
    return with_holm(differences)


def shared_labels(
    labelled: Known, criterion: str, first: str, second: str, wanted: str | None
) -> list[tuple[float, float]]:
    """What people say of two tutors' replies to the same items."""
    items = [item for item, tutor, name in labelled if tutor == first and name == criterion]
    pairs = [[labelled.get((item, tutor, criterion)) for tutor in (first, second)] for item in items]
    return [(float(one == wanted), float(other == wanted)) for one, other in pairs if None not in (one, other)]


def correlation_of(pairs: Sequence[tuple[float, float]]) -> float:
    """Pearson's correlation; 0 where a side does not vary."""
    if len(pairs) < FEWEST:
        return 0.0
    first, second = np.array(pairs).T
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else 0.0


def whole_rate(cell: Cells, sampling: Sampling) -> Corrected | None:
    """The rate of people where no reply is without a label."""
    if cell.alone or len(cell.labels) < FEWEST:
        return None
    rate = estimate(SHARE, cell.labels, [str(number) for number in range(len(cell.labels))], sampling)
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
    weights = {vote.probability for vote in agreed}
    if len(weights) < 2:  # all were as likely to be labelled: each stands for as many
        agreed = [vote.model_copy(update={"probability": None}) for vote in agreed]
    pairings = pairings_of(agreed, verdicts, {}, scales)
    scores = agreement_scores(grader, pairings, scales, sampling) if pairings else []
    annotators = [vote for vote in labels if not vote.resolves]
    rates = corrected_rates(grader, known, verdicts, "ppi", scales, sampling, designs_of(labels))
    wanted = {name: scale.desired for name, scale in scales.items()}
    audits = audit_scores(grader, agreed, verdicts, wanted)
    return [*scores, *annotator_scores(grader, annotators, scales), *rates, *audits]


def designs_of(labels: Sequence[Label]) -> dict[tuple[str, str, str], Design]:
    """How each labelled reply was drawn, as far as it is known."""
    return {
        (label.id, label.tutor, label.criterion): (label.probability, label.stratum, label.stratum_size)
        for label in labels
        if label.probability is not None
    }
