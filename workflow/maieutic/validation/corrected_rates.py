"""Prediction-powered estimates: a judge's mean rate, corrected with people's labels of some of the judged replies.

Method: Angelopoulos et al., "PPI++: Efficient Prediction-Powered Inference" (2023), computed by the authors' library.
The labelled replies must be a random sample of the tutor's replies. Replies to different dialogues count as
independent.
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
from maieutic.core.stats import MEAN, SHARE, BootstrapSettings, Estimate, Interval, estimate_statistic
from maieutic.datasets.labelled_sets import LabelledData
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.people.labels import resolved_labels
from maieutic.people.reliability import NO_CORRECTION, CorrectedLabels
from maieutic.scores.differences import holm_corrected
from maieutic.scores.score import ScoreColumns
from maieutic.validation.agreement import fleiss_of_usual_count, krippendorff_alpha, mean_pairwise_cohen
from maieutic.validation.survey_estimators import (
    CorrectedRate,
    SampledReply,
    corrected_interval,
    corrected_mean,
    rate_difference,
    sampled_population,
)
from maieutic.validation.trust import (
    TASK,
    LabelsByReply,
    agreement_scores,
    pairings_of,
    score_without_interval,
    trust_score,
)

FEWEST_LABELS = 20  # minimum number of labelled replies for the normal approximation of the interval
NORMAL_QUANTILE = 1.959963984540054  # of a 95 % interval
MAX_LOST_SHARE = 0.1  # no estimate above this share of replies without a parsed verdict or with divided annotators


class CorrectedMean(NamedTuple):
    """A corrected mean and its 95 % interval."""

    value: float
    interval: Interval


def prediction_powered_mean(
    people: Sequence[float], judge: Sequence[float], alone: Sequence[float], bounded: bool = True
) -> CorrectedMean | None:
    """Estimate the mean label that people would give to all replies; None if there are too few labels.

    people, judge: labels and verdicts of the labelled replies, as numbers; alone: verdicts on all other replies;
    bounded: False for an interval that may reach beyond 0 and 1. If the judge's verdicts do not vary, the estimate is
    the mean of the labels.
    """
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # takes seconds to import, since it loads a compiler

    if len(people) < FEWEST_LABELS or not alone:
        return None
    gold, verdicts, rest = (np.array(values, dtype=float) for values in (people, judge, alone))
    # The library divides by the variance of the judge's verdicts. If the variance is 0, the judge's weight is set to 0.
    weight = 0.0 if np.ptp(np.concatenate([verdicts, rest])) == 0 else None
    value = float(np.ravel(ppi_mean_pointestimate(gold, verdicts, rest, lam=weight))[0])
    low, high = (float(np.ravel(end)[0]) for end in ppi_mean_ci(gold, verdicts, rest, alpha=1 - LEVEL, lam=weight))
    if not math.isfinite(value):
        return None
    # If the labels do not vary, the normal approximation yields a meaningless interval of zero width.
    known = math.isfinite(low + high) and len(set(people)) > 1
    if not known:
        return CorrectedMean(value, Interval(None, None))
    return CorrectedMean(value, Interval(max(low, 0.0), min(high, 1.0)) if bounded else Interval(low, high))


def with_annotator_errors(value: float, interval: Interval, variance: float) -> CorrectedMean | None:
    """Return a rate of corrected labels with a wider interval, within 0 to 1; None if it lies further outside.

    A rate further outside than its interval contradicts the annotators' known error rates. variance: variance that
    comes from these.
    """
    if interval.low is None or interval.high is None:
        return CorrectedMean(min(max(value, 0.0), 1.0), interval)
    low, high = (
        value + sign * math.hypot(end - value, NORMAL_QUANTILE * math.sqrt(variance))
        for sign, end in ((-1, interval.low), (1, interval.high))
    )
    if high < 0 or low > 1:
        return None
    return CorrectedMean(min(max(value, 0.0), 1.0), Interval(max(low, 0.0), min(high, 1.0)))


def survey_rate(parts: CorrectedRate, variance: float | None) -> CorrectedMean | None:
    """Return the rate of a sample whose sampling probabilities are known, with its interval.

    variance: variance that comes from the annotators' error rates, None for labels that are not corrected for them. A
    rate of corrected labels lies within 0 to 1; None if it contradicts the error rates.
    """
    if variance is None:
        return CorrectedMean(parts.value, corrected_interval(parts))
    parts = parts._replace(sampling=parts.sampling + variance)
    reach = NORMAL_QUANTILE * math.sqrt(max(parts.variance, 0.0))
    if not -reach <= parts.value <= 1 + reach:
        return None
    return CorrectedMean(min(max(parts.value, 0.0), 1.0), corrected_interval(parts))


class LabelledVerdicts(NamedTuple):
    """Labels and verdicts of one tutor's replies under one criterion, as numbers: 1 for the desired label, otherwise 0.

    people, judge: labels and verdicts of the replies that have both; alone: verdicts on replies without a label;
    labels: labels of all labelled replies, even if the verdict cannot be parsed; designs: sampling design of each
    reply in `people`, None if unknown; divided: items whose annotators have no majority label; lost: divided items and
    items whose verdict cannot be parsed.
    """

    people: list[float]
    judge: list[float]
    alone: list[float]
    lost: list[str]
    labels: list[float]
    designs: list[SamplingDesign | None]
    divided: list[str]

    @property
    def too_many_lost(self) -> bool:
        """True if so many replies are lost or divided that the rest no longer represents the tutor's replies."""
        judged = len(self.people) + len(self.alone) + len(self.lost)
        labelled = len(self.labels) + len(self.divided)
        return len(self.lost) > MAX_LOST_SHARE * judged or len(self.divided) > MAX_LOST_SHARE * max(labelled, 1)

    def sample(self) -> list[SampledReply] | None:
        """Return the labelled replies with their sampling designs; None if any design is unknown."""
        rows = zip(self.people, self.judge, self.designs, strict=True)
        known = [SampledReply(gold, verdict, *design) for gold, verdict, design in rows if design is not None]
        return known if known and len(known) == len(self.people) else None

    def corrected_rate(self, use_judge: bool = True) -> CorrectedRate | None:
        """Estimate the corrected rate from the sampling designs of the labelled replies.

        Returns None if a design is unknown, if there are too few labels, if too many replies are lost, or if the sizes
        of the strata do not add up to the number of the tutor's replies (because a stratum has no labels, or a file
        contains two samples). use_judge: False to estimate from the labels alone.
        """
        design, judged = self.sample(), [*self.judge, *self.alone]
        if design is None or len(design) < FEWEST_LABELS or self.too_many_lost:
            return None
        population, replies = sampled_population(design), len(judged) + len(self.lost)
        if population is not None and abs(population - replies) > MAX_LOST_SHARE * replies:
            return None
        return corrected_mean(design, judged, use_judge)


# Inclusion probability, stratum, number of replies in the stratum
SamplingDesign = tuple[float, str | None, int | None]
SamplingDesigns = Mapping[tuple[str, str, str], SamplingDesign]  # by item, tutor and criterion
# Label by item, tutor and criterion; None if the annotators have no majority label
MajorityLabels = Mapping[tuple[str, str, str], str | None]


def verdicts_with_labels(
    labelled: MajorityLabels,
    verdicts: LabelsByReply,
    scales: Scales,
    designs: SamplingDesigns | None = None,
    values: Mapping[tuple[str, str, str], float] = NO_CORRECTION.values,
) -> dict[tuple[str, str], LabelledVerdicts]:
    """Return labels and verdicts by tutor and criterion.

    A reply whose annotators have no majority label counts as lost, not as labelled or unlabelled. values: value of each
    reply whose labels are corrected for its annotators' errors, also if they have no majority.
    """
    cells: dict[tuple[str, str], LabelledVerdicts] = defaultdict(lambda: LabelledVerdicts([], [], [], [], [], [], []))
    for (item, tutor, criterion), value in verdicts.items():
        desired = scales[criterion].desired if criterion in scales else None
        if desired is None:
            continue
        key, cell = (item, tutor, criterion), cells[tutor, criterion]
        label, number = labelled.get(key), values.get(key)
        if number is None and label is not None:
            number = float(label == desired)
        is_divided = key in labelled and number is None
        if number is not None:
            cell.labels.append(number)
        if value is None or is_divided:
            cell.lost.append(item)
            if is_divided:
                cell.divided.append(item)
            continue
        verdict = float(value == desired)
        if number is None:
            cell.alone.append(verdict)
        else:
            cell.people.append(number)
            cell.judge.append(verdict)
            cell.designs.append((designs or {}).get(key))
    return dict(cells)


def corrected_rates(
    grader: str,
    labelled: MajorityLabels,
    verdicts: LabelsByReply,
    name: str,
    scales: Scales,
    sampling: BootstrapSettings,
    designs: SamplingDesigns | None = None,
    errors: CorrectedLabels = NO_CORRECTION,
) -> list[Score]:
    """Return the corrected DAMR, the share of replies with the desired label, by labelled tutor and criterion.

    `{name}` is the corrected rate, `{name}_judge` the rate from the judge alone, `{name}_labels` that from the labels
    alone. The corrected rate is None with fewer than 20 labels, or if more than a tenth of the replies is lost, since
    the remaining ones would not represent them. If every reply has a label, it is the rate of the labels. If the
    sampling design is known, the estimate uses it, and `{name}_saved` is the number of labels that the judge saves.

    errors: labels corrected for the annotators' errors; intervals include the variance of the error rates. A rate that
    contradicts the error rates is None, as is then that of the labels.
    """
    scores = []
    cells = verdicts_with_labels(labelled, verdicts, scales, designs, errors.values)
    for (tutor, criterion), cell in cells.items():
        if not cell.labels:
            continue
        columns: ScoreColumns = {"tutor": tutor, "criterion": criterion, "by": grader}
        n = len(cell.people) + len(cell.alone)
        judged, clusters = [*cell.judge, *cell.alone], [str(number) for number in range(n)]
        corrected, saved, place = None, None, (tutor, criterion)
        is_changed = place in errors.shares
        by_labels: CorrectedMean | None = CorrectedMean(float(np.mean(cell.labels)), Interval(None, None))
        if not cell.too_many_lost:
            corrected = fully_labelled_rate(cell, sampling)
            parts, alone = cell.corrected_rate(), cell.corrected_rate(use_judge=False)
            if corrected is None and parts is not None and alone is not None:
                saved = parts.labels_saved
                corrected, by_labels = (
                    survey_rate(rate, errors.variance_of_rate(place, rate.value) if is_changed else None)
                    for rate in (parts, alone)
                )
                by_labels = by_labels if corrected else None
            else:
                if corrected is None and cell.sample() is None:
                    corrected = prediction_powered_mean(cell.people, cell.judge, cell.alone, bounded=not is_changed)
                if corrected is not None and is_changed:
                    variance = errors.variance_of_rate(place, corrected.value)
                    corrected = with_annotator_errors(*corrected, variance)
                    by_labels = by_labels and with_annotator_errors(*by_labels, variance) if corrected else None
        value, interval = corrected or (None, Interval(None, None))
        measured = Estimate(value, interval, n, len(cell.lost), len(cell.labels))
        scores.append(trust_score(None, name, measured, **columns))
        by_judge = (
            estimate_statistic(SHARE, judged, clusters, sampling) if judged else Estimate(None, Interval(None, None), 0)
        )
        scores.append(trust_score(None, f"{name}_judge", by_judge._replace(n=n, clusters=0), **columns))
        value, interval = by_labels or (None, Interval(None, None))
        labels_alone = Estimate(value, interval, n)
        scores.append(trust_score(None, f"{name}_labels", labels_alone, **columns))
        if saved is not None:
            scores.append(score_without_interval(None, f"{name}_saved", saved, n, 0, **columns))
    return scores


def corrected_differences(
    grader: str,
    labelled: MajorityLabels,
    verdicts: LabelsByReply,
    scales: Scales,
    designs: SamplingDesigns,
    errors: CorrectedLabels = NO_CORRECTION,
) -> list[Difference]:
    """Return the differences of corrected rates between any two tutors whose sampling designs are known."""
    cells = verdicts_with_labels(labelled, verdicts, scales, designs, errors.values)
    differences = []
    for criterion in scales:
        of_tutor = {tutor: cell for (tutor, name), cell in cells.items() if name == criterion}
        estimates = {tutor: cell.corrected_rate() for tutor, cell in of_tutor.items() if cell.alone}
        parts = {tutor: corrected for tutor, corrected in estimates.items() if corrected is not None}
        for first, second in itertools.combinations(parts, 2):
            both = shared_labels(labelled, criterion, first, second, scales[criterion].desired)
            known = errors.variance_of_difference(
                ((first, criterion), parts[first].value), ((second, criterion), parts[second].value)
            )
            apart = rate_difference(parts[first], parts[second], label_correlation(both), known)
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
    return holm_corrected(differences)


def shared_labels(
    labelled: MajorityLabels, criterion: str, first: str, second: str, desired: str | None
) -> list[tuple[float, float]]:
    """Return people's labels of two tutors' replies to the same items: 1 for the desired label, otherwise 0."""
    items = [item for item, tutor, name in labelled if tutor == first and name == criterion]
    pairs = [[labelled.get((item, tutor, criterion)) for tutor in (first, second)] for item in items]
    return [(float(label == desired), float(other == desired)) for label, other in pairs if None not in (label, other)]


def label_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Pearson's correlation of pairs of labels; 0 with fewer than 20 pairs, or if one side does not vary."""
    if len(pairs) < FEWEST_LABELS:
        return 0.0
    first, second = np.array(pairs).T
    return float(np.corrcoef(first, second)[0, 1]) if np.ptp(first) and np.ptp(second) else 0.0


def fully_labelled_rate(cell: LabelledVerdicts, sampling: BootstrapSettings) -> CorrectedMean | None:
    """Return the rate of the labels if every reply has a label and there are at least 20 labels, otherwise None."""
    if cell.alone or len(cell.labels) < FEWEST_LABELS:
        return None
    clusters = [str(number) for number in range(len(cell.labels))]
    statistic = SHARE if {*cell.labels} <= {0.0, 1.0} else MEAN  # labels corrected for errors may lie outside 0 to 1
    rate = estimate_statistic(statistic, cell.labels, clusters, sampling)
    return CorrectedMean(float(rate.value or 0.0), rate.interval)


def labels_of_half(labels: LabelledData, verdicts: LabelsByReply, seed: int) -> MajorityLabels:
    """Return the labels of a random half of the judged dialogues. The labels of the other half are withheld."""
    seen = sorted({item for item, _, _ in verdicts})
    kept = set(ranked_by_seed(seen, seed)[: len(seen) // 2])
    return {(label.id, label.tutor, label.criterion): label.label for label in labels.labels if label.id in kept}


def annotator_scores(model: str | None, labels: Sequence[Label], scales: Scales) -> list[Score]:
    """Return the inter-annotator agreement of each criterion.

    fleiss_kappa is computed on the replies with the most common number of labels. cohen_kappa is averaged over pairs of
    annotators. krippendorff_alpha is computed on all labels, at the scale's level of measurement.
    """
    by_criterion: dict[str, dict[tuple[str, str], dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for label in labels:
        by_criterion[label.criterion][label.id, label.tutor][str(label.annotator)] = label.label
    scores = []
    for criterion, replies in by_criterion.items():
        several = [votes for votes in replies.values() if len(votes) > 1]
        if not several:
            continue
        fleiss = fleiss_of_usual_count([list(votes.values()) for votes in several])
        scores.append(score_without_interval(model, "fleiss_kappa", *fleiss, criterion=criterion))
        scores.append(
            score_without_interval(
                model, "cohen_kappa", mean_pairwise_cohen(several), len(several), 0, criterion=criterion
            )
        )
        scale = scales.get(criterion)
        if scale is not None:
            alpha = krippendorff_alpha([list(votes.values()) for votes in several], scale)
            scores.append(
                score_without_interval(model, "krippendorff_alpha", alpha, len(several), 0, criterion=criterion)
            )
    return scores


def people_scores(
    grader: str,
    labels: Sequence[Label],
    verdicts: LabelsByReply,
    scales: Scales,
    sampling: BootstrapSettings,
    errors: CorrectedLabels = NO_CORRECTION,
) -> list[Score]:
    """Return a judge's agreement with people's labels of this run's replies, and the judge's corrected rates."""
    merged = resolved_labels(labels)
    known = {(vote.id, vote.tutor, vote.criterion): label for vote, label in merged}
    agreed = [vote.model_copy(update={"label": label}) for vote, label in merged if label is not None]
    weights = {vote.probability for vote in agreed}
    if len(weights) < 2:  # all replies were equally likely to be labelled, so every reply has the weight 1
        agreed = [vote.model_copy(update={"probability": None}) for vote in agreed]
    pairings = pairings_of(agreed, verdicts, {}, scales)
    scores = agreement_scores(grader, pairings, scales, sampling) if pairings else []
    annotators = [vote for vote in labels if not vote.resolves]
    rates = corrected_rates(grader, known, verdicts, "ppi", scales, sampling, sampling_designs(labels), errors)
    return [*scores, *annotator_scores(grader, annotators, scales), *rates]


def sampling_designs(labels: Sequence[Label]) -> dict[tuple[str, str, str], SamplingDesign]:
    """Return the known sampling designs of labelled replies, by item, tutor and criterion."""
    return {
        (label.id, label.tutor, label.criterion): (label.probability, label.stratum, label.stratum_size)
        for label in labels
        if label.probability is not None
    }
