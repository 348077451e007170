"""Metrics: pure functions from the graded items of one task to one number.

Each metric is written as counts that add up over items and a function of their sums, so that the bootstrap can
resample whole problems without touching the items again. The value itself is scikit-learn's where it has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

Counts = npt.NDArray[np.float64]


class Graded(NamedTuple):
    """What a metric sees of one item: the grade's value, whether it is right, and the reference value."""

    value: Any
    correct: bool | None
    gold: Any


class Metric(NamedTuple):
    """`value` of all items; `counts` (items x k) and `of_sums` (... x k -> ...) give the same number when resampled."""

    value: Callable[[list[Graded]], float]
    counts: Callable[[list[Graded]], Counts]
    of_sums: Callable[[Counts], Counts]


def share(part: Counts, whole: Counts) -> Counts:
    """part / whole, and 0 where the whole is 0, as scikit-learn has it."""
    return np.divide(part, whole, out=np.zeros_like(part, dtype=float), where=whole != 0)


def mean_of(read: Callable[[Graded], float]) -> Metric:
    """The mean of one number an item."""
    return Metric(
        value=lambda items: float(np.mean([read(item) for item in items])),
        counts=lambda items: np.array([[read(item), 1.0] for item in items]),
        of_sums=lambda sums: share(sums[..., 0], sums[..., 1]),
    )


def binary_counts(items: list[Graded]) -> Counts:
    """True positives, false positives, false negatives, items; positive: the solution is incorrect."""
    pairs = [(bool(item.value), bool(item.gold)) for item in items]
    return np.array([[said and true, said and not true, true and not said, 1.0] for said, true in pairs], dtype=float)


def labels(items: list[Graded]) -> tuple[list[Any], list[Any]]:
    """Gold and predicted labels, as scikit-learn takes them."""
    return [item.gold for item in items], [item.value for item in items]


def class_counts(items: list[Graded]) -> Counts:
    """For each class in turn, true positives, predictions, and true members: items x (3 x classes)."""
    gold, said = labels(items)
    classes = sorted({*gold, *said})
    true = np.array([[label == kind for kind in classes] for label in gold], dtype=float)
    predicted = np.array([[label == kind for kind in classes] for label in said], dtype=float)
    return np.concatenate([true * predicted, predicted, true], axis=1)


def class_f1(sums: Counts) -> tuple[Counts, Counts, Counts]:
    """F1 of each class, its true members, and whether it occurs at all (a resample may lose a class)."""
    hits, predicted, true = np.split(sums, 3, axis=-1)
    return share(2 * hits, predicted + true), true, ((predicted + true) > 0).astype(float)


def macro(sums: Counts) -> Counts:
    """Mean F1 of the classes that occur."""
    f1, _, occurs = class_f1(sums)
    return share((f1 * occurs).sum(-1), occurs.sum(-1).astype(float))


def weighted(sums: Counts) -> Counts:
    """F1 of the classes weighted by their true members."""
    f1, true, _ = class_f1(sums)
    return share((f1 * true).sum(-1), true.sum(-1))


def right(item: Graded) -> float:
    """1 for a right answer."""
    return float(bool(item.correct))


def number(item: Graded) -> float:
    """The grade's own value."""
    return float(item.value)


def averaged_f1(average: str, of_sums: Callable[[Counts], Counts]) -> Metric:
    """F1 over several classes, averaged as scikit-learn names it."""
    return Metric(
        lambda items: float(f1_score(*labels(items), average=average, zero_division=0)), class_counts, of_sums
    )


METRICS: dict[str, Metric] = {
    "accuracy": mean_of(right)._replace(
        value=lambda items: float(accuracy_score([True] * len(items), [bool(item.correct) for item in items]))
    ),
    "f1": Metric(
        lambda items: float(f1_score(*labels(items), zero_division=0)),
        binary_counts,
        lambda sums: share(2 * sums[..., 0], 2 * sums[..., 0] + sums[..., 1] + sums[..., 2]),
    ),
    "precision": Metric(
        lambda items: float(precision_score(*labels(items), zero_division=0)),
        binary_counts,
        lambda sums: share(sums[..., 0], sums[..., 0] + sums[..., 1]),
    ),
    "recall": Metric(
        lambda items: float(recall_score(*labels(items), zero_division=0)),
        binary_counts,
        lambda sums: share(sums[..., 0], sums[..., 0] + sums[..., 2]),
    ),
    # With one label an item, micro F1 is the share of right labels.
    "micro_f1": mean_of(right)._replace(
        value=lambda items: float(f1_score(*labels(items), average="micro", zero_division=0))
    ),
    "macro_f1": averaged_f1("macro", macro),
    "weighted_f1": averaged_f1("weighted", weighted),
    "bleu": mean_of(number),
    "match": mean_of(right),
    "mean": mean_of(number),
}
