"""Metrics: pure functions from the graded items of one task to one number.

Each metric is written as counts that add up over items and a function of their sums: of all items it gives the value,
of resampled problems the interval, without touching the items again. Tests hold each value against scikit-learn's,
whose import (a second of CPU) would cost a scoring job more than all its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from maieutic.core.intervals import SHARE_BOUNDS
from maieutic.core.stats import RATING_BOUNDS, Array, Statistic, mean_of, share

Counts = Array


class Graded(NamedTuple):
    """What a metric sees of one item: the grade's value, whether it is right, and the reference value.

    parts: for a metric that is made of several grades, each of them in the card's order; None: not asked for.
    """

    value: Any
    correct: bool | None
    gold: Any
    parts: tuple[Graded | None, ...] = ()


Metric = Statistic[Graded]


def fraction(part: Counts, whole: Counts) -> Counts:
    """part / whole, and 0 where the whole is 0, as scikit-learn has it."""
    return share(part, whole, empty=0.0)


def binary_counts(items: Sequence[Graded]) -> Counts:
    """True positives, false positives, false negatives, items; positive: the solution is incorrect."""
    pairs = [(bool(item.value), bool(item.gold)) for item in items]
    return np.array(
        [[prediction and true, prediction and not true, true and not prediction, 1.0] for prediction, true in pairs],
        dtype=float,
    )


def coded_labels(items: Sequence[Graded]) -> tuple[list[int], list[int]]:
    """Gold and predicted labels by their places in the order of labels, so that each class has a column of counts."""
    gold, predictions = [item.gold for item in items], [item.value for item in items]
    places = {label: place for place, label in enumerate(sorted({*gold, *predictions}))}
    return [places[label] for label in gold], [places[label] for label in predictions]


def class_counts(items: Sequence[Graded]) -> Counts:
    """For each class in turn, true positives, predictions, and true members: items x (3 x classes)."""
    gold, predictions = coded_labels(items)
    classes = range(max([*gold, *predictions]) + 1)
    true = np.array([[label == kind for kind in classes] for label in gold], dtype=float)
    predicted = np.array([[label == kind for kind in classes] for label in predictions], dtype=float)
    return np.concatenate([true * predicted, predicted, true], axis=1)


def class_f1(sums: Counts) -> tuple[Counts, Counts, Counts]:
    """F1 of each class, its true members, and whether it occurs at all (a resample may lose a class)."""
    hits, predicted, true = np.split(sums, 3, axis=-1)
    return fraction(2 * hits, predicted + true), true, ((predicted + true) > 0).astype(float)


def macro_of_occurring(sums: Counts) -> Counts:
    """Mean F1 of the classes that occur, among the true ones or among the predictions."""
    f1, _, occurs = class_f1(sums)
    return fraction((f1 * occurs).sum(-1), occurs.sum(-1).astype(float))


def macro(sums: Counts) -> Counts:
    """Mean F1 of the classes with true members: a label that is never right has no F1 of its own."""
    f1, true, _ = class_f1(sums)
    return fraction((f1 * (true > 0)).sum(-1), (true > 0).sum(-1).astype(float))


def weighted(sums: Counts) -> Counts:
    """F1 of the classes weighted by their true members."""
    f1, true, _ = class_f1(sums)
    return fraction((f1 * true).sum(-1), true.sum(-1))


def right(item: Graded) -> float:
    """1 for a right answer."""
    return float(bool(item.correct))


def number(item: Graded) -> float:
    """The grade's own value."""
    return float(item.value)


def same_label(item: Graded) -> float:
    """1 where the predicted label is the true one."""
    return float(item.value == item.gold)


def always_closed(sums: Counts) -> bool:
    """Most metrics have a value wherever there are items."""
    return False


def of_counts(
    counts: Callable[[Sequence[Graded]], Counts],
    of_sums: Callable[[Counts], Counts],
    is_open: Callable[[Counts], bool] = always_closed,
    bounds: tuple[float, float] = SHARE_BOUNDS,
) -> Metric:
    """A metric that is defined by its counts. is_open: whether the sums of all items leave its value open (NaN)."""

    def value(items: Sequence[Graded]) -> float:
        sums = counts(items).sum(axis=0)
        return math.nan if is_open(sums) else float(of_sums(sums))

    return Metric(value, counts, of_sums, bounds)


def mcc(sums: Counts) -> Counts:
    """Matthews' correlation of binary counts (true positives, false positives, false negatives, items)."""
    tp, fp, fn, n = np.moveaxis(sums, -1, 0)
    tn = n - tp - fp - fn
    spread = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return fraction(tp * tn - fp * fn, spread)


def detection_counts(items: Sequence[Graded]) -> Counts:
    """Of the wrong solutions, those whose first wrong step was named; of the right ones, those found right."""
    return np.array(
        [
            [right(item) * bool(item.gold), bool(item.gold), right(item) * (not item.gold), not item.gold]
            for item in items
        ],
        dtype=float,
    )


def detection_f1(sums: Counts) -> Counts:
    """Harmonic mean of both accuracies (ProcessBench, arXiv 2412.06559, section 4.1)."""
    wrong, correct = fraction(sums[..., 0], sums[..., 1]), fraction(sums[..., 2], sums[..., 3])
    return fraction(2 * wrong * correct, wrong + correct)


def holds(part: Graded | None) -> float:
    """1 for a part that is right; one that nobody was asked for is not."""
    return float(part is not None and bool(part.correct))


def reason_counts(items: Sequence[Graded]) -> Counts:
    """Wrong solutions; of them those whose step is right, whose reason was read, and is right. Parts: step, reason."""
    counts = []
    for item in items:
        step, reason = item.parts
        assert step is not None
        wrong, located = float(bool(step.gold)), holds(step) * bool(step.gold)
        read = located * float(reason is None or reason.correct is not None)
        counts.append([wrong, located, read, read * holds(reason)])
    return np.array(counts, dtype=float)


def reason_share(sums: Counts) -> Counts:
    """The share of wrong solutions whose reason is right. A reason that could not be read counts as the others do."""
    wrong, located, read, accepted = np.moveaxis(sums, -1, 0)
    return fraction(located, wrong) * fraction(accepted, read)


def no_reason_read(sums: Counts) -> bool:
    """Whether reasons were asked for and none could be read."""
    return bool(sums[1] and not sums[2])


def mr_counts(items: Sequence[Graded]) -> Counts:
    """Binary counts of the verdicts, then step and reason of the wrong solutions. Parts: verdict, step, reason."""
    verdicts = [item.parts[0] for item in items]
    counts = binary_counts([verdict for verdict in verdicts if verdict is not None])
    of_wrong = reason_counts([item._replace(parts=item.parts[1:]) for item in items])
    return np.concatenate([counts, of_wrong], axis=1)


def mr_score(sums: Counts) -> Counts:
    """MR-Score (MR-GSM8K, arXiv 2312.17080, section 3.3): both accuracies are of the incorrect solutions."""
    return mr_of(mcc(sums[..., :4]), fraction(sums[..., 5], sums[..., 4]), reason_share(sums[..., 4:]))


def mr_of(correlation: Counts, step: Counts, reason: Counts) -> Counts:
    """0.2 max(0, MCC) + 0.3 step + 0.5 reason."""
    return 0.2 * np.maximum(0, correlation) + 0.3 * step + 0.5 * reason


def level_counts(items: Sequence[Graded]) -> Counts:
    """For each part in turn its value and whether it applies: items x (2 x parts)."""
    return np.array([[cell for part in item.parts for cell in cells_of(part)] for item in items], dtype=float)


def cells_of(part: Graded | None) -> tuple[float, float]:
    """A part's value and 1; zeros for one that does not apply or could not be read."""
    return (0.0, 0.0) if part is None or part.value is None else (number(part), 1.0)


def level(sums: Counts, part: int) -> Counts:
    """The mean of one part over the items that it applies to."""
    return fraction(sums[..., 2 * part], sums[..., 2 * part + 1])


def mean_level(sums: Counts) -> Counts:
    """The mean of the parts' means. A part that applies to no item is left out."""
    values, counts = sums[..., 0::2], sums[..., 1::2]
    return fraction(fraction(values, counts).sum(-1), (counts > 0).sum(-1).astype(float))


COMMON: dict[str, Metric] = {
    "accuracy": mean_of(right, SHARE_BOUNDS),
    "f1": of_counts(
        binary_counts, lambda sums: fraction(2 * sums[..., 0], 2 * sums[..., 0] + sums[..., 1] + sums[..., 2])
    ),
    "precision": of_counts(binary_counts, lambda sums: fraction(sums[..., 0], sums[..., 0] + sums[..., 1])),
    "recall": of_counts(binary_counts, lambda sums: fraction(sums[..., 0], sums[..., 0] + sums[..., 2])),
    "micro_f1": mean_of(same_label, SHARE_BOUNDS),  # with one label an item, micro F1 is the share of right labels
    "macro_f1": of_counts(class_counts, macro),
    "weighted_f1": of_counts(class_counts, weighted),
    "bleu": mean_of(number, SHARE_BOUNDS),
    "match": mean_of(right, SHARE_BOUNDS),
    "mean": mean_of(number),
    "mean_share": mean_of(number, SHARE_BOUNDS),
    "mean_rating": mean_of(number, RATING_BOUNDS),
    "mcc": of_counts(binary_counts, mcc, bounds=(-1.0, 1.0)),
    "detection_f1": of_counts(detection_counts, detection_f1),
    "reason_accuracy": of_counts(reason_counts, reason_share, no_reason_read),
    "mr_score": of_counts(mr_counts, mr_score, lambda sums: no_reason_read(sums[4:])),
}

# What the released code computes where ours differs: there macro F1 is over every label that occurs.
RELEASED: dict[str, Metric] = {"macro_f1": of_counts(class_counts, macro_of_occurring)}
