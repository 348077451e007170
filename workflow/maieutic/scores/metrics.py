"""Metrics: pure functions that map the graded items of one task to one number.

Each metric consists of additive counts per item and a function of their sums. The sums over all items yield the value;
the sums over resampled problems yield the interval, without visiting the items again. Tests compare each value with
scikit-learn, which is not imported here: the import takes a second of CPU time, more than all computations of a scoring
job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from maieutic.core.intervals import SHARE_BOUNDS
from maieutic.core.stats import RATING_BOUNDS, Array, Statistic, mean_statistic, safe_ratio

Counts = Array
NO_LABEL = -1  # label of an unreadable reply where a number is expected; it equals no step number and no gold label


class GradedItem(NamedTuple):
    """A metric's input for one item: the grade's value, its correctness and the reference value.

    parts: the inputs of a composite metric, one for each of its parts in the card's order; None for a part without a
    grade; unread: True if no value can be read from the reply, so that the value is one that counts as wrong.
    """

    value: Any
    correct: bool | None
    gold: Any
    parts: tuple[GradedItem | None, ...] = ()
    unread: bool = False


Metric = Statistic[GradedItem]


def ratio_or_zero(part: Counts, whole: Counts) -> Counts:
    """Return part / whole, or 0 where the whole is 0, as scikit-learn does."""
    return safe_ratio(part, whole, empty=0.0)


def binary_counts(items: Sequence[GradedItem]) -> Counts:
    """Return four counts per item: true positive, false positive, false negative, and 1.

    Wrong solutions are the positives.
    """
    pairs = [(bool(item.value), bool(item.gold)) for item in items]
    return np.array(
        [[prediction and true, prediction and not true, true and not prediction, 1.0] for prediction, true in pairs],
        dtype=float,
    )


def coded_labels(items: Sequence[GradedItem]) -> tuple[list[int], list[int]]:
    """Return the gold labels and the predicted labels, each as its index in the sorted list of all labels."""
    gold, predictions = [item.gold for item in items], [item.value for item in items]
    places = {label: place for place, label in enumerate(sorted({*gold, *predictions}))}
    return [places[label] for label in gold], [places[label] for label in predictions]


def class_counts(items: Sequence[GradedItem]) -> Counts:
    """Return three 0/1 columns per class (rightly predicted, predicted, true), as an array of items x (3 x classes)."""
    gold, predictions = coded_labels(items)
    classes = range(max([*gold, *predictions]) + 1)
    true = np.array([[label == kind for kind in classes] for label in gold], dtype=float)
    predicted = np.array([[label == kind for kind in classes] for label in predictions], dtype=float)
    return np.concatenate([true * predicted, predicted, true], axis=1)


def class_f1(sums: Counts) -> tuple[Counts, Counts, Counts]:
    """Return, for each class, its F1, its number of true members, and 1 if it occurs, else 0.

    A class may be absent from a resample.
    """
    hits, predicted, true = np.split(sums, 3, axis=-1)
    return ratio_or_zero(2 * hits, predicted + true), true, ((predicted + true) > 0).astype(float)


def macro_f1_of_occurring(sums: Counts) -> Counts:
    """Return the mean F1 of the classes that occur among the true or the predicted labels."""
    f1, _, occurs = class_f1(sums)
    return ratio_or_zero((f1 * occurs).sum(-1), occurs.sum(-1).astype(float))


def macro_f1(sums: Counts) -> Counts:
    """Return the mean F1 of the classes with true members. A class that is only predicted is left out."""
    f1, true, _ = class_f1(sums)
    return ratio_or_zero((f1 * (true > 0)).sum(-1), (true > 0).sum(-1).astype(float))


def weighted_f1(sums: Counts) -> Counts:
    """Return the mean F1 of the classes, weighted by their numbers of true members."""
    f1, true, _ = class_f1(sums)
    return ratio_or_zero((f1 * true).sum(-1), true.sum(-1))


def correct_as_number(item: GradedItem) -> float:
    """Return 1 if the item's answer is right, else 0."""
    return float(bool(item.correct))


def numeric_value(item: GradedItem) -> float:
    """Return the value of a grade as a number."""
    return float(item.value)


def same_label(item: GradedItem) -> float:
    """Return 1 if the predicted label equals the gold label, else 0."""
    return float(item.value == item.gold)


def never_undefined(sums: Counts) -> bool:
    """Return False. Default of `metric_from_counts`, for metrics that are defined whenever there are items."""
    return False


def metric_from_counts(
    counts: Callable[[Sequence[GradedItem]], Counts],
    from_sums: Callable[[Counts], Counts],
    is_open: Callable[[Counts], bool] = never_undefined,
    bounds: tuple[float, float] = SHARE_BOUNDS,
) -> Metric:
    """Return a metric that is computed from sums of counts per item.

    counts: function that returns the counts of each item; from_sums: function that maps their sums to values; is_open:
    function that returns True for sums at which the metric is undefined (NaN); bounds: range of the metric.
    """

    def value(items: Sequence[GradedItem]) -> float:
        sums = counts(items).sum(axis=0)
        return math.nan if is_open(sums) else float(from_sums(sums))

    return Metric(value, counts, from_sums, bounds)


def mcc(sums: Counts) -> Counts:
    """Return Matthews' correlation coefficient from the sums of `binary_counts`."""
    tp, fp, fn, n = np.moveaxis(sums, -1, 0)
    tn = n - tp - fp - fn
    spread = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return ratio_or_zero(tp * tn - fp * fn, spread)


def detection_counts(items: Sequence[GradedItem]) -> Counts:
    """Return one row of four 0/1 counts per item, which sum to the hits and totals of both kinds of solutions.

    The columns: the mistake was located, the solution is wrong, the right solution was accepted, the solution is right.
    """
    return np.array(
        [
            [
                correct_as_number(item) * bool(item.gold),
                bool(item.gold),
                correct_as_number(item) * (not item.gold),
                not item.gold,
            ]
            for item in items
        ],
        dtype=float,
    )


def detection_f1(sums: Counts) -> Counts:
    """Return the harmonic mean of two accuracies: on wrong solutions and on right solutions.

    Source: ProcessBench, arXiv 2412.06559, section 4.1.
    """
    wrong, correct = ratio_or_zero(sums[..., 0], sums[..., 1]), ratio_or_zero(sums[..., 2], sums[..., 3])
    return ratio_or_zero(2 * wrong * correct, wrong + correct)


def part_correctness(part: GradedItem | None) -> float:
    """Return 1 for a right part, and 0 for a part that is wrong or was not requested."""
    return float(part is not None and bool(part.correct))


def reason_counts(items: Sequence[GradedItem]) -> Counts:
    """Return four 0/1 counts per item: solution wrong, its first wrong step located, reason parsed, reason right.

    The parts of each item are the step and the reason.
    """
    counts = []
    for item in items:
        step, reason = item.parts
        assert step is not None
        wrong, located = float(bool(step.gold)), part_correctness(step) * bool(step.gold)
        read = located * float(reason is None or reason.correct is not None)
        counts.append([wrong, located, read, read * part_correctness(reason)])
    return np.array(counts, dtype=float)


def reason_share(sums: Counts) -> Counts:
    """Return the share of wrong solutions with a right reason, from the sums of `reason_counts`.

    Reasons that could not be parsed are assumed to be right as often as the others.
    """
    wrong, located, read, accepted = np.moveaxis(sums, -1, 0)
    return ratio_or_zero(located, wrong) * ratio_or_zero(accepted, read)


def no_reason_read(sums: Counts) -> bool:
    """Return True if the sums of `reason_counts` show that reasons were needed but none could be parsed."""
    return bool(sums[1] and not sums[2])


def mr_counts(items: Sequence[GradedItem]) -> Counts:
    """Return the `binary_counts` of the verdicts, followed by the `reason_counts`.

    The parts of each item are the verdict, the step and the reason.
    """
    verdicts = [item.parts[0] for item in items]
    counts = binary_counts([verdict for verdict in verdicts if verdict is not None])
    counts_of_wrong = reason_counts([item._replace(parts=item.parts[1:]) for item in items])
    return np.concatenate([counts, counts_of_wrong], axis=1)


def mr_score(sums: Counts) -> Counts:
    """Return the MR-Score (MR-GSM8K, arXiv 2312.17080, section 3.3) from the sums of `mr_counts`.

    Step accuracy and reason accuracy are shares of the wrong solutions.
    """
    return combine_mr(mcc(sums[..., :4]), ratio_or_zero(sums[..., 5], sums[..., 4]), reason_share(sums[..., 4:]))


MR_WEIGHTS = (0.2, 0.3, 0.5)  # correctness, first wrong step and reason (MR-GSM8K, section 3.3)


def combine_mr(correlation: Counts, step: Counts, reason: Counts) -> Counts:
    """Return the weighted sum in the MR-Score: 0.2 max(0, MCC) + 0.3 step accuracy + 0.5 reason accuracy."""
    weights = MR_WEIGHTS
    return weights[0] * np.maximum(0, correlation) + weights[1] * step + weights[2] * reason


def level_counts(items: Sequence[GradedItem]) -> Counts:
    """Return two numbers for each part, its value and 1, as an array of items x (2 x parts).

    Both numbers are 0 for a part that does not apply to the item or could not be parsed.
    """
    return np.array([[cell for part in item.parts for cell in level_cells(part)] for item in items], dtype=float)


def level_cells(part: GradedItem | None) -> tuple[float, float]:
    """Return the value of a part and 1; return two zeros if the part does not apply or could not be parsed."""
    return (0.0, 0.0) if part is None or part.value is None else (numeric_value(part), 1.0)


def part_mean(sums: Counts, part: int) -> Counts:
    """Return the mean value of one part over the items to which it applies, from the sums of `level_counts`."""
    return ratio_or_zero(sums[..., 2 * part], sums[..., 2 * part + 1])


def mean_of_part_means(sums: Counts) -> Counts:
    """Return the mean of the parts' means, from the sums of `level_counts`.

    Parts that apply to no item are left out.
    """
    values, counts = sums[..., 0::2], sums[..., 1::2]
    return ratio_or_zero(ratio_or_zero(values, counts).sum(-1), (counts > 0).sum(-1).astype(float))


COMMON: dict[str, Metric] = {
    "accuracy": mean_statistic(correct_as_number, SHARE_BOUNDS),
    "f1": metric_from_counts(
        binary_counts, lambda sums: ratio_or_zero(2 * sums[..., 0], 2 * sums[..., 0] + sums[..., 1] + sums[..., 2])
    ),
    "precision": metric_from_counts(
        binary_counts, lambda sums: ratio_or_zero(sums[..., 0], sums[..., 0] + sums[..., 1])
    ),
    "recall": metric_from_counts(binary_counts, lambda sums: ratio_or_zero(sums[..., 0], sums[..., 0] + sums[..., 2])),
    "micro_f1": mean_statistic(same_label, SHARE_BOUNDS),  # equals the share of right labels if each item has one label
    "macro_f1": metric_from_counts(class_counts, macro_f1),
    "weighted_f1": metric_from_counts(class_counts, weighted_f1),
    "bleu": mean_statistic(numeric_value, SHARE_BOUNDS),
    "match": mean_statistic(correct_as_number, SHARE_BOUNDS),
    "mean": mean_statistic(numeric_value),
    "mean_share": mean_statistic(numeric_value, SHARE_BOUNDS),
    "mean_rating": mean_statistic(numeric_value, RATING_BOUNDS),
    "mcc": metric_from_counts(binary_counts, mcc, bounds=(-1.0, 1.0)),
    "detection_f1": metric_from_counts(detection_counts, detection_f1),
    "reason_accuracy": metric_from_counts(reason_counts, reason_share, no_reason_read),
    "mr_score": metric_from_counts(mr_counts, mr_score, lambda sums: no_reason_read(sums[4:])),
}

# Metrics that released code computes differently, used under `paper_compat`. In that code, macro F1 is the mean over
# every label that occurs, predicted or true.
RELEASED: dict[str, Metric] = {"macro_f1": metric_from_counts(class_counts, macro_f1_of_occurring)}
