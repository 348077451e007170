"""How far a grader agrees with people: every measure is a function of one table of counts, label against label.

Rows are the labels of people, columns those of the grader and a last one for what could not be read. Tables of single
replies add up, so whole dialogues are drawn anew by adding their tables. Values come from scikit-learn and scipy;
the vectorised forms give the same numbers and serve the bootstrap.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from maieutic.core.records import Scale
from maieutic.core.stats import Array, Estimate, Sampling, Statistic, estimate, share

# MRBench's labels as numbers, best first where the first label is desired: 1, 0.5, 0 for people (the coding of the
# authors' own toolkit); a critic's printed scores 1, 2, 3 run the other way.
PEOPLE = (1.0, 0.5, 0.0)
CRITIC = (1.0, 2.0, 3.0)
PRINTED = CRITIC  # as many labels have a printed coding


class Pairing(NamedTuple):
    """What people and a grader say of one reply, as places in the list of labels; None: not to be read.

    weight: how many replies it stands for, where some were likelier to be labelled than others.
    """

    gold: int
    said: int | None
    problem: str
    length: int = 0
    weight: float = 1.0


class Measure(NamedTuple):
    """A measure of agreement. `value` of the readable pairings (gold, said), `of_tables` of ... x labels x labels + 1.

    strict: what cannot be read counts as wrong instead of being left out.
    """

    value: Callable[[list[int], list[int], int], float]
    of_tables: Callable[[Array], Array]
    strict: bool = False


def rate(part: Array, whole: Array) -> Array:
    """part / whole, NaN where there is nothing."""
    return share(part, whole, empty=math.nan)


def read_part(tables: Array) -> Array:
    """The square table of what was read."""
    return tables[..., :-1]


def accuracy_of(tables: Array) -> Array:
    """Share on the diagonal."""
    return rate(np.trace(read_part(tables), axis1=-2, axis2=-1), tables.sum((-2, -1)))


def macro_f1_of(tables: Array) -> Array:
    """Mean F1 of all labels of the protocol; 0 for one that neither people nor the grader use."""
    square = read_part(tables)
    hits, verdicts, gold = np.diagonal(square, axis1=-2, axis2=-1), square.sum(-2), tables.sum(-1)
    return np.divide(2 * hits, verdicts + gold, out=np.zeros_like(hits), where=verdicts + gold > 0).mean(-1)


def kappa_of(tables: Array, power: int) -> Array:
    """Cohen's kappa with weights |i - j| ** power; power 0: every disagreement weighs the same."""
    square = read_part(tables)
    places = np.arange(square.shape[-1])
    weights = (np.abs(places[:, None] - places) ** power).astype(float) if power else 1.0 - np.eye(len(places))
    total = square.sum((-2, -1))
    expected = square.sum(-1)[..., :, None] * square.sum(-2)[..., None, :]
    apart, by_chance = (square * weights).sum((-2, -1)), rate((expected * weights).sum((-2, -1)), total)
    return 1.0 - rate(apart, by_chance)


def correlation_of(tables: Array, gold_codes: Array, said_codes: Array) -> Array:
    """Pearson's correlation of codes (... x labels) under the counts; NaN where one side is constant."""
    square = read_part(tables)
    total = square.sum((-2, -1))[..., None, None]
    weights = rate(square, np.broadcast_to(total, square.shape))
    x, y = gold_codes[..., :, None], said_codes[..., None, :]
    mean_x, mean_y = ((weights * code).sum((-2, -1))[..., None, None] for code in (x, y))
    covariance = (weights * (x - mean_x) * (y - mean_y)).sum((-2, -1))
    spread = [(weights * (code - mean) ** 2).sum((-2, -1)) for code, mean in ((x, mean_x), (y, mean_y))]
    product = spread[0] * spread[1]
    return rate(covariance, np.sqrt(np.where(product > 1e-15, product, 0.0)))


def codes_of(codes: Sequence[float], labels: int) -> list[float]:
    """Codes for so many labels: the printed ones, and for more labels than these as many steps of one size."""
    if labels <= len(codes):
        return [*codes[:labels]]
    step = codes[1] - codes[0]
    return [codes[0] + step * place for place in range(labels)]


def coded(codes: Sequence[float], tables: Array) -> Array:
    """Codes for as many labels as a table has."""
    return np.broadcast_to(np.array(codes_of(codes, tables.shape[-2])), tables.shape[:-1])


def midranks(counts: Array) -> Array:
    """The rank that all members of a label share, for ... x labels counts."""
    return np.cumsum(counts, -1) - counts / 2 + 0.5


def pearson_of(said_codes: Sequence[float]) -> Callable[[Array], Array]:
    """Pearson's correlation with people's codes."""
    return lambda tables: correlation_of(tables, coded(PEOPLE, tables), coded(said_codes, tables))


def spearman_of(tables: Array) -> Array:
    """Spearman's rank correlation."""
    square = read_part(tables)
    return correlation_of(tables, midranks(square.sum(-1)), midranks(square.sum(-2)))


def lenient(tables: Array) -> Array:
    """The first two labels as one: Yes and To some extent against No (BEA 2025); non-offensive against Offensive."""
    rows = np.stack([tables[..., :2, :].sum(-2), tables[..., 2:, :].sum(-2)], -2)
    return np.stack([rows[..., :2].sum(-1), rows[..., 2:-1].sum(-1), rows[..., -1]], -1)


def constant(codes: Sequence[float]) -> bool:
    """Whether nothing varies, so that no correlation exists."""
    return len(set(codes)) < 2


def pearson_value(said_codes: Sequence[float]) -> Callable[[list[int], list[int], int], float]:
    """Pearson's correlation by scipy."""

    def value(gold: list[int], verdicts: list[int], labels: int) -> float:
        own, other = codes_of(PEOPLE, labels), codes_of(said_codes, labels)
        x, y = [own[place] for place in gold], [other[place] for place in verdicts]
        from scipy.stats import pearsonr

        return math.nan if constant(x) or constant(y) else float(pearsonr(x, y).statistic)

    return value


def spearman_value(gold: list[int], verdicts: list[int], labels: int) -> float:
    """Spearman's correlation by scipy. Places run from the best label, on both sides alike."""
    from scipy.stats import spearmanr

    return math.nan if constant(gold) or constant(verdicts) else float(spearmanr(gold, verdicts).statistic)


def kappa_value(weights: str | None) -> Callable[[list[int], list[int], int], float]:
    """Cohen's kappa by scikit-learn; NaN where both sides know one label only."""

    def value(gold: list[int], verdicts: list[int], labels: int) -> float:
        if len({*gold, *verdicts}) < 2:
            return math.nan
        from sklearn.metrics import cohen_kappa_score

        return float(cohen_kappa_score(gold, verdicts, labels=range(labels), weights=weights))

    return value


def macro_f1_value(gold: list[int], verdicts: list[int], labels: int) -> float:
    """Macro F1 by scikit-learn over all labels of the protocol; the place `labels` stands for what cannot be read."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, verdicts, labels=range(labels), average="macro", zero_division=0))


def accuracy_value(gold: list[int], verdicts: list[int], labels: int) -> float:
    """Accuracy by scikit-learn."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(gold, verdicts))


def merged(places: list[int], labels: int) -> list[int]:
    """Lenient places: 0 for the first two labels, 1 for the others; what cannot be read stays apart."""
    return [2 if place == labels else int(place >= 2) for place in places]


def leniently(value: Callable[[list[int], list[int], int], float]) -> Callable[[list[int], list[int], int], float]:
    """A measure of merged labels."""
    return lambda gold, verdicts, labels: value(merged(gold, labels), merged(verdicts, labels), 2)


MEASURES: dict[str, Measure] = {
    "kappa": Measure(kappa_value(None), lambda tables: kappa_of(tables, 0)),
    "weighted_kappa": Measure(kappa_value("quadratic"), lambda tables: kappa_of(tables, 2)),
    "ac_paper": Measure(pearson_value(CRITIC), pearson_of(CRITIC)),
    "ac": Measure(pearson_value(PEOPLE), pearson_of(PEOPLE)),
    "spearman": Measure(spearman_value, spearman_of),
    "macro_f1": Measure(macro_f1_value, macro_f1_of, strict=True),
    "accuracy": Measure(accuracy_value, accuracy_of, strict=True),
    "lenient_macro_f1": Measure(leniently(macro_f1_value), lambda tables: macro_f1_of(lenient(tables)), strict=True),
    "lenient_accuracy": Measure(leniently(accuracy_value), lambda tables: accuracy_of(lenient(tables)), strict=True),
}


def tables_of(pairings: Sequence[Pairing], labels: int) -> Array:
    """One table a pairing, flat: pairings x (labels * (labels + 1))."""
    tables = np.zeros((len(pairings), labels, labels + 1))
    for number, pairing in enumerate(pairings):
        tables[number, pairing.gold, labels if pairing.said is None else pairing.said] = pairing.weight
    return tables.reshape(len(pairings), -1)


def statistic_of(name: str, labels: int) -> Statistic[Pairing]:
    """A measure of agreement over pairings. A pairing that could not be read is in the place behind the last label."""
    about = MEASURES[name]

    def value(pairings: Sequence[Pairing]) -> float:
        if any(pairing.weight != 1.0 for pairing in pairings):
            sums = tables_of(pairings, labels).sum(0).reshape(labels, labels + 1)
            return float(about.of_tables(sums))
        verdicts = [labels if pairing.said is None else pairing.said for pairing in pairings]
        return about.value([pairing.gold for pairing in pairings], verdicts, labels)

    return Statistic(
        value=value,
        counts=lambda pairings: tables_of(pairings, labels),
        of_sums=lambda sums: about.of_tables(sums.reshape(*sums.shape[:-1], labels, labels + 1)),
    )


def measure(name: str, pairings: Sequence[Pairing], labels: int, strict: bool, sampling: Sampling) -> Estimate:
    """One measure of agreement. strict: unreadable verdicts count as wrong (BEA's way), else they are left out."""
    read = [pairing for pairing in pairings if pairing.said is not None]
    used = list(pairings) if strict and MEASURES[name].strict else read
    problems = [pairing.problem for pairing in used]
    return estimate(statistic_of(name, labels), used, problems, sampling, missing=len(pairings) - len(used))


def fleiss(labels_of_items: Sequence[Sequence[str]]) -> float | None:
    """Fleiss' kappa of items that each have as many labels (MRBench, section 4.2); None where there are none."""
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    if not labels_of_items or len(labels_of_items[0]) < 2:
        return None
    counts, _ = aggregate_raters(np.array([list(labels) for labels in labels_of_items]))
    value = float(fleiss_kappa(counts))
    return None if math.isnan(value) else value


def usual_fleiss(labels_of_items: Sequence[Sequence[str]]) -> tuple[float | None, int, int]:
    """Fleiss' kappa of the items with the usual number of labels: its value, how many they are, how many are left."""
    usual = max(Counter(map(len, labels_of_items)).items(), key=lambda pair: (pair[1], pair[0]), default=(0, 0))[0]
    rated = [labels for labels in labels_of_items if len(labels) == usual]
    return fleiss(rated) if rated else None, len(rated), len(labels_of_items) - len(rated)


def krippendorff_alpha(labels_of_items: Sequence[Sequence[str]], scale: Scale) -> float | None:
    """Krippendorff's alpha of items with any number of labels, by the scale's level.

    None where nothing varies, and of fewer than two items with two labels or more.
    """
    from truescore import krippendorff_alpha as alpha

    most = max(map(len, labels_of_items), default=0)
    places = [[float(scale.labels.index(label)) for label in labels] for labels in labels_of_items]
    several = [item for item in places if len(item) > 1]
    if len(several) < 2 or len({place for item in several for place in item}) < 2:
        return None
    by_item = np.array([[*item, *[math.nan] * (most - len(item))] for item in places])
    return float(alpha(by_item.T, level=scale.level))


def cohen(first: Sequence[object], second: Sequence[object]) -> float | None:
    """Cohen's kappa of two lists of labels; None where both know one label only."""
    if len({*first, *second}) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score

    return float(cohen_kappa_score(list(first), list(second)))


def mean_cohen(labels_of_items: Sequence[Mapping[str, str]]) -> float | None:
    """Cohen's kappa averaged over the pairs of annotators, each on what both labelled (MRBench, section 5.2)."""
    from itertools import combinations

    values = []
    for annotator, other in combinations(sorted({name for labels in labels_of_items for name in labels}), 2):
        both = [
            (labels[annotator], labels[other]) for labels in labels_of_items if annotator in labels and other in labels
        ]
        kappa = cohen([label for label, _ in both], [label for _, label in both])
        values += [] if kappa is None else [kappa]
    return sum(values) / len(values) if values else None
