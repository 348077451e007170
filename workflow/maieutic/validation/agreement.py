"""Measures of a grader's agreement with people, each computed from a table of counts.

The rows of a table are the labels of people. Its columns are the labels of the grader, and a last column counts the
verdicts that cannot be parsed. The cluster bootstrap adds the tables of the resampled dialogues. Reported values are
computed by scikit-learn and scipy. The bootstrap uses vectorised functions that return the same numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from maieutic.core.records import Scale
from maieutic.core.stats import Array, BootstrapSettings, Estimate, Statistic, estimate_statistic, safe_ratio

# Numeric codes of MRBench's three labels; the first label of a scale is the desired one. People's labels are coded
# 1, 0.5 and 0, as in the authors' toolkit. The critic's published scores 1, 2 and 3 run in the opposite direction.
PEOPLE_CODES = (1.0, 0.5, 0.0)
CRITIC_CODES = (1.0, 2.0, 3.0)
PRINTED_CODES = CRITIC_CODES  # published codes, one for each of the three labels


class Pairing(NamedTuple):
    """Label of one reply by people (`gold`) and by a grader (`verdict`), as indexes into the scale.

    verdict: None if the grader's verdict cannot be parsed; length: length of the reply in characters; weight: number
    of replies that this one represents, 1 if all replies were equally likely to be labelled.
    """

    gold: int
    verdict: int | None
    problem: str
    length: int = 0
    weight: float = 1.0


class Measure(NamedTuple):
    """A measure of agreement, as two functions.

    value: function of people's labels, the verdicts and the number of labels in the scale; of_tables: function of
    tables of counts (... x labels x (labels + 1)); strict: True if the measure can count unparsed verdicts as wrong.
    """

    value: Callable[[list[int], list[int], int], float]
    of_tables: Callable[[Array], Array]
    strict: bool = False


def ratio_or_nan(part: Array, whole: Array) -> Array:
    """Return part / whole, NaN where the whole is 0."""
    return safe_ratio(part, whole, empty=math.nan)


def parsed_tables(tables: Array) -> Array:
    """Return the square part of the tables, without the last column of verdicts that cannot be parsed."""
    return tables[..., :-1]


def accuracy_of(tables: Array) -> Array:
    """Return the share of replies that people and the grader label alike. Unparsed verdicts count as wrong."""
    return ratio_or_nan(np.trace(parsed_tables(tables), axis1=-2, axis2=-1), tables.sum((-2, -1)))


def macro_f1_of(tables: Array) -> Array:
    """Return the mean F1 over all labels of the scale. The F1 of a label that neither side uses is 0."""
    square = parsed_tables(tables)
    hits, verdicts, gold = np.diagonal(square, axis1=-2, axis2=-1), square.sum(-2), tables.sum(-1)
    return np.divide(2 * hits, verdicts + gold, out=np.zeros_like(hits), where=verdicts + gold > 0).mean(-1)


def kappa_of(tables: Array, power: int) -> Array:
    """Return Cohen's kappa. A disagreement between labels i and j weighs |i - j| ** power, or 1 if `power` is 0."""
    square = parsed_tables(tables)
    places = np.arange(square.shape[-1])
    weights = (np.abs(places[:, None] - places) ** power).astype(float) if power else 1.0 - np.eye(len(places))
    total = square.sum((-2, -1))
    expected = square.sum(-1)[..., :, None] * square.sum(-2)[..., None, :]
    apart, by_chance = (square * weights).sum((-2, -1)), ratio_or_nan((expected * weights).sum((-2, -1)), total)
    return 1.0 - ratio_or_nan(apart, by_chance)


def table_correlation(tables: Array, gold_codes: Array, verdict_codes: Array) -> Array:
    """Return Pearson's correlation of people's and the grader's codes in each table; NaN if one side is constant.

    gold_codes, verdict_codes: codes of the labels (... x labels).
    """
    square = parsed_tables(tables)
    total = square.sum((-2, -1))[..., None, None]
    weights = ratio_or_nan(square, np.broadcast_to(total, square.shape))
    x, y = gold_codes[..., :, None], verdict_codes[..., None, :]
    mean_x, mean_y = ((weights * code).sum((-2, -1))[..., None, None] for code in (x, y))
    covariance = (weights * (x - mean_x) * (y - mean_y)).sum((-2, -1))
    spread = [(weights * (code - mean) ** 2).sum((-2, -1)) for code, mean in ((x, mean_x), (y, mean_y))]
    product = spread[0] * spread[1]
    return ratio_or_nan(covariance, np.sqrt(np.where(product > 1e-15, product, 0.0)))


def extend_codes(codes: Sequence[float], labels: int) -> list[float]:
    """Return one code for each of `labels` labels: those in `codes`, continued with the same step for longer scales."""
    if labels <= len(codes):
        return [*codes[:labels]]
    step = codes[1] - codes[0]
    return [codes[0] + step * place for place in range(labels)]


def table_codes(codes: Sequence[float], tables: Array) -> Array:
    """Return the codes of each table's labels, as an array of shape ... x labels."""
    return np.broadcast_to(np.array(extend_codes(codes, tables.shape[-2])), tables.shape[:-1])


def midranks(counts: Array) -> Array:
    """Return the mean rank of the replies with each label. counts: numbers of replies by label (... x labels)."""
    return np.cumsum(counts, -1) - counts / 2 + 0.5


def pearson_of(verdict_codes: Sequence[float]) -> Callable[[Array], Array]:
    """Return a function of tables that computes Pearson's correlation of the verdicts' codes with people's codes."""
    return lambda tables: table_correlation(
        tables, table_codes(PEOPLE_CODES, tables), table_codes(verdict_codes, tables)
    )


def spearman_of(tables: Array) -> Array:
    """Return Spearman's rank correlation of labels and verdicts in each table."""
    square = parsed_tables(tables)
    return table_correlation(tables, midranks(square.sum(-1)), midranks(square.sum(-2)))


def merge_table_labels(tables: Array) -> Array:
    """Return tables with the first two labels merged, as in BEA 2025 ("Yes" and "To some extent" against "No")."""
    rows = np.stack([tables[..., :2, :].sum(-2), tables[..., 2:, :].sum(-2)], -2)
    return np.stack([rows[..., :2].sum(-1), rows[..., 2:-1].sum(-1), rows[..., -1]], -1)


def is_constant(codes: Sequence[float]) -> bool:
    """Return True if all codes are equal, so that a correlation with them is undefined."""
    return len(set(codes)) < 2


def pearson_value(verdict_codes: Sequence[float]) -> Callable[[list[int], list[int], int], float]:
    """Return a function that uses scipy to compute Pearson's correlation of the codes of labels and verdicts."""

    def value(gold: list[int], verdicts: list[int], labels: int) -> float:
        people, grader = extend_codes(PEOPLE_CODES, labels), extend_codes(verdict_codes, labels)
        x, y = [people[place] for place in gold], [grader[place] for place in verdicts]
        from scipy.stats import pearsonr

        return math.nan if is_constant(x) or is_constant(y) else float(pearsonr(x, y).statistic)

    return value


def spearman_value(gold: list[int], verdicts: list[int], labels: int) -> float:
    """Return Spearman's correlation of label indexes, computed by scipy. Index 0 is the best label on both sides."""
    from scipy.stats import spearmanr

    return math.nan if is_constant(gold) or is_constant(verdicts) else float(spearmanr(gold, verdicts).statistic)


def kappa_value(weights: str | None) -> Callable[[list[int], list[int], int], float]:
    """Return a function that uses scikit-learn to compute Cohen's kappa; NaN if all labels and verdicts are the same.

    weights: weighting of disagreements, as for `cohen_kappa_score`.
    """

    def value(gold: list[int], verdicts: list[int], labels: int) -> float:
        if len({*gold, *verdicts}) < 2:
            return math.nan
        from sklearn.metrics import cohen_kappa_score

        return float(cohen_kappa_score(gold, verdicts, labels=range(labels), weights=weights))

    return value


def macro_f1_value(gold: list[int], verdicts: list[int], labels: int) -> float:
    """Return macro F1 over all labels of a scale, computed by scikit-learn.

    labels: number of labels in the scale, also used as the index of unparsed verdicts.
    """
    from sklearn.metrics import f1_score

    return float(f1_score(gold, verdicts, labels=range(labels), average="macro", zero_division=0))


def accuracy_value(gold: list[int], verdicts: list[int], labels: int) -> float:
    """Return the accuracy, computed by scikit-learn."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(gold, verdicts))


def lenient_indexes(places: list[int], labels: int) -> list[int]:
    """Return the indexes after merging labels: 0 for the first two, 1 for all others, 2 for unparsed verdicts."""
    return [2 if place == labels else int(place >= 2) for place in places]


def on_merged_labels(
    value: Callable[[list[int], list[int], int], float],
) -> Callable[[list[int], list[int], int], float]:
    """Return a function that computes the measure `value` after the first two labels have been merged."""
    return lambda gold, verdicts, labels: value(lenient_indexes(gold, labels), lenient_indexes(verdicts, labels), 2)


MEASURES: dict[str, Measure] = {
    "kappa": Measure(kappa_value(None), lambda tables: kappa_of(tables, 0)),
    "weighted_kappa": Measure(kappa_value("quadratic"), lambda tables: kappa_of(tables, 2)),
    "ac_paper": Measure(pearson_value(CRITIC_CODES), pearson_of(CRITIC_CODES)),
    "ac": Measure(pearson_value(PEOPLE_CODES), pearson_of(PEOPLE_CODES)),
    "spearman": Measure(spearman_value, spearman_of),
    "macro_f1": Measure(macro_f1_value, macro_f1_of, strict=True),
    "accuracy": Measure(accuracy_value, accuracy_of, strict=True),
    "lenient_macro_f1": Measure(
        on_merged_labels(macro_f1_value), lambda tables: macro_f1_of(merge_table_labels(tables)), strict=True
    ),
    "lenient_accuracy": Measure(
        on_merged_labels(accuracy_value), lambda tables: accuracy_of(merge_table_labels(tables)), strict=True
    ),
}


def tables_of(pairings: Sequence[Pairing], labels: int) -> Array:
    """Return one flattened table per pairing, as an array of shape pairings x (labels * (labels + 1))."""
    tables = np.zeros((len(pairings), labels, labels + 1))
    for number, pairing in enumerate(pairings):
        tables[number, pairing.gold, labels if pairing.verdict is None else pairing.verdict] = pairing.weight
    return tables.reshape(len(pairings), -1)


def statistic_of(name: str, labels: int) -> Statistic[Pairing]:
    """Return a measure of agreement as a statistic of pairings.

    labels: number of labels in the scale, also used as the index of unparsed verdicts.
    """
    definition = MEASURES[name]

    def value(pairings: Sequence[Pairing]) -> float:
        if any(pairing.weight != 1.0 for pairing in pairings):
            sums = tables_of(pairings, labels).sum(0).reshape(labels, labels + 1)
            return float(definition.of_tables(sums))
        verdicts = [labels if pairing.verdict is None else pairing.verdict for pairing in pairings]
        return definition.value([pairing.gold for pairing in pairings], verdicts, labels)

    return Statistic(
        value=value,
        counts=lambda pairings: tables_of(pairings, labels),
        from_sums=lambda sums: definition.of_tables(sums.reshape(*sums.shape[:-1], labels, labels + 1)),
    )


def estimate_agreement(
    name: str, pairings: Sequence[Pairing], labels: int, strict: bool, sampling: BootstrapSettings
) -> Estimate:
    """Estimate one measure of agreement.

    strict: True to count unparsed verdicts as wrong (as in BEA) if the measure allows it. Otherwise, they are left out.
    """
    read = [pairing for pairing in pairings if pairing.verdict is not None]
    used = list(pairings) if strict and MEASURES[name].strict else read
    problems = [pairing.problem for pairing in used]
    return estimate_statistic(statistic_of(name, labels), used, problems, sampling, missing=len(pairings) - len(used))


def fleiss_kappa_of(labels_of_items: Sequence[Sequence[str]]) -> float | None:
    """Return Fleiss' kappa of items that all have equally many labels (MRBench, section 4.2); None if undefined."""
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    if not labels_of_items or len(labels_of_items[0]) < 2:
        return None
    counts, _ = aggregate_raters(np.array([list(labels) for labels in labels_of_items]))
    value = float(fleiss_kappa(counts))
    return None if math.isnan(value) else value


def fleiss_of_usual_count(labels_of_items: Sequence[Sequence[str]]) -> tuple[float | None, int, int]:
    """Return Fleiss' kappa of items with the most common number of labels, and the counts of these and other items."""
    usual = max(Counter(map(len, labels_of_items)).items(), key=lambda pair: (pair[1], pair[0]), default=(0, 0))[0]
    rated = [labels for labels in labels_of_items if len(labels) == usual]
    return fleiss_kappa_of(rated) if rated else None, len(rated), len(labels_of_items) - len(rated)


def krippendorff_alpha(labels_of_items: Sequence[Sequence[str]], scale: Scale) -> float | None:
    """Return Krippendorff's alpha of items with any number of labels, at the scale's level of measurement.

    Returns None if the labels do not vary, or if fewer than two items have two or more labels.
    """
    from truescore import krippendorff_alpha as alpha

    most = max(map(len, labels_of_items), default=0)
    places = [[float(scale.labels.index(label)) for label in labels] for labels in labels_of_items]
    several = [item for item in places if len(item) > 1]
    if len(several) < 2 or len({place for item in several for place in item}) < 2:
        return None
    by_item = np.array([[*item, *[math.nan] * (most - len(item))] for item in places])
    return float(alpha(by_item.T, level=scale.level))


def cohen_kappa_of(first: Sequence[object], second: Sequence[object]) -> float | None:
    """Return Cohen's kappa of two lists of labels; None if all labels are the same."""
    if len({*first, *second}) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(list(first), list(second)))


def mean_pairwise_cohen(labels_of_items: Sequence[Mapping[str, str]]) -> float | None:
    """Return Cohen's kappa of two annotators on the items that both labelled, averaged over pairs (MRBench, 5.2)."""
    from itertools import combinations

    values = []
    for annotator, other in combinations(sorted({name for labels in labels_of_items for name in labels}), 2):
        both = [
            (labels[annotator], labels[other]) for labels in labels_of_items if annotator in labels and other in labels
        ]
        kappa = cohen_kappa_of([label for label, _ in both], [label for _, label in both])
        values += [] if kappa is None else [kappa]
    return sum(values) / len(values) if values else None
