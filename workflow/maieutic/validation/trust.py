"""What a grader is worth: its agreement with people on labelled replies, as scores of the task `trust`."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from maieutic.core.intervals import paired_difference
from maieutic.core.records import SCORINGS, Judgement, Label, Scale, Scales, Score
from maieutic.core.stats import (
    SHARE,
    Array,
    Estimate,
    Interval,
    Sampling,
    Statistic,
    estimate,
    mean_of,
    sums_by_cluster,
    without_each,
)
from maieutic.judges.labels import Labels
from maieutic.judges.questions import merged
from maieutic.judges.rubrics import read_rubric, word_of
from maieutic.scores.score import Columns, score_of
from maieutic.validation.agreement import MEASURES, PRINTED, Pairing, measure, statistic_of, tables_of

TASK = "trust"
MEAN_KAPPA = "mean_weighted_kappa"
WEIGHTED_KAPPA = "weighted_kappa"
BINARY = "binary"  # a subset of the scores: of labels that are desired or not
OF_THREE = frozenset({"lenient_macro_f1", "lenient_accuracy", "ac_paper"})  # measures of three labels
ORDERED = frozenset({"weighted_kappa", "ac", "spearman"})  # measures that need an order of the labels
YES_NO = Scale(labels=("yes", "no"))  # what classifiers say
ALL = "all"  # a subset: every item
PEOPLE = "people"  # the grader of labels that people gave
FEWEST = 20  # replies of one tutor with a verdict, below which its correlations are chance
LENIENCY = "leniency"
THIRDS = ("1 of 3", "2 of 3", "3 of 3")  # subsets of the scores: replies by length, the shortest first
APART: Statistic[float] = mean_of(float, (-1.0, 1.0))
PANEL_GAIN, PANEL_GAIN_P = "panel_gain", "panel_gain_p"
BY_TUTOR = ("ac_paper", "ac", "spearman", "weighted_kappa")
Said = dict[tuple[str, str, str], str | None]  # by item, tutor and criterion: a label, or none


def score(validated: str | None, metric: str, result: Estimate, **columns: Unpack[Columns]) -> Score:
    """One number of what a grader is worth on labelled replies. validated: that grader; None: a tutor's number."""
    columns["grader"] = validated
    return score_of(result, TASK, metric, **columns)


def of_its_task(judgement: Judgement) -> Judgement:
    """The judgement under `task/id`: two tasks may have items of one name."""
    return judgement.model_copy(update={"id": f"{judgement.task}/{judgement.id}"})


def said_by(judgements: Iterable[Judgement], rubric: str | None = None) -> Said:
    """A judge's verdicts. Where a criterion was asked for again, the answer that can be read counts."""
    verdicts: Said = {}
    both: dict[tuple[str, str, str], list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        if judgement.tutor is None or (rubric and judgement.rubric != rubric):
            continue
        if judgement.order is not None:  # a comparison: what is said in both orders, where both are asked
            both[judgement.id, judgement.tutor, judgement.rubric].append(judgement)
            continue
        for verdict in judgement.verdicts:
            key = judgement.id, judgement.tutor, str(verdict.criterion)
            value = word_of(verdict.value) if verdict.value is not None else None
            verdicts[key] = value if value is not None else verdicts.get(key)
    for (item, tutor, name), group in both.items():
        for criterion, (verdict, _) in merged(group, read_rubric(name).rubric.both_orders).items():
            verdicts[item, tutor, str(criterion)] = None if verdict.value is None else word_of(verdict.value)
    return verdicts


def pairings_of(
    labels: Sequence[Label], verdicts: Said, lengths: Mapping[tuple[str, str], int], scales: Scales
) -> dict[str, list[Pairing]]:
    """By criterion, what people and a grader say of each reply that the grader was asked about."""
    pairings: dict[str, list[Pairing]] = defaultdict(list)
    for label in labels:
        key = label.id, label.tutor, label.criterion
        if key not in verdicts:
            continue
        known = scales[label.criterion].labels
        value = verdicts[key]
        place = known.index(value) if value in known else None
        pairings[label.criterion].append(
            Pairing(
                known.index(label.label),
                place,
                label.problem,
                lengths.get((label.id, label.tutor), 0),
                1 / (label.probability or 1.0),
            )
        )
    return {name: pairings[name] for name in scales if name in pairings}


def agreement_scores(
    model: str,
    pairings: Mapping[str, Sequence[Pairing]],
    scales: Scales | None,
    sampling: Sampling,
    **columns: Any,
) -> list[Score]:
    """Every measure of every criterion. Unreadable verdicts: left out (robust), or wrong (paper_compat, as in BEA).

    scales: of the criteria; None: of labels that are desired or not, as classifiers give; columns: of every score.
    """
    scores = []
    columns |= {"subset": BINARY} if scales is None else {}
    by_criterion = {name: YES_NO if scales is None else scales[name] for name in pairings}
    for criterion, group in pairings.items():
        labels = len(by_criterion[criterion].labels)
        for name, about in MEASURES.items():
            if not measures(name, by_criterion[criterion]):
                continue
            for scoring in SCORINGS if about.strict else SCORINGS[1:]:
                measured = measure(name, group, labels, scoring == "paper_compat", sampling)
                scores.append(score(model, name, measured, scoring=scoring, criterion=criterion, **columns))
        for name, value in besides(group).items():
            scores.append(plain(model, name, *value, criterion=criterion, **columns))
    return [*scores, *mean_scores(model, pairings, by_criterion, sampling, **columns)]


def measures(name: str, scale: Scale) -> bool:
    """Whether a measure says something of a scale.

    A yes or a no cannot be merged, and has no printed coding; more than three labels have none either. The light rests
    on the weighted kappa, which of labels without an order is the plain one.
    """
    labels = len(scale.labels)
    if name in OF_THREE and labels != len(PRINTED):
        return False
    if name == "ac" and labels < len(PRINTED):
        return False
    return scale.level == "ordinal" or name == "weighted_kappa" or name not in ORDERED | OF_THREE


def besides(pairings: Sequence[Pairing]) -> dict[str, tuple[float | None, int, int]]:
    """What stands beside an agreement: the frequent label's accuracy, what cannot be read, what length explains."""
    gold = [pairing.gold for pairing in pairings]
    read = [pairing for pairing in pairings if pairing.said is not None]
    most = max((gold.count(place) for place in set(gold)), default=0)
    # The first label is the best one, so that more is better on both sides.
    correlation = rank_correlation([-(pairing.said or 0) for pairing in read], [pairing.length for pairing in read])
    people = rank_correlation([-pairing.gold for pairing in pairings], [pairing.length for pairing in pairings])
    n, missing = len(pairings), len(pairings) - len(read)
    return {
        "majority_accuracy": (most / n if n else None, n, 0),
        "unreadable": (missing / n if n else None, n, 0),
        "length_correlation": (correlation, len(read), missing),
        "people_length_correlation": (people, n, 0),
    }


def plain(
    validated: str | None, metric: str, value: float | None, n: int, missing: int, **columns: Unpack[Columns]
) -> Score:
    """A number without an interval."""
    return score(validated, metric, Estimate(value, Interval(None, None), n, missing), **columns)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's correlation, None where one side does not vary."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def ranked_correlation(
    values: Sequence[float], others: Sequence[float], problems: Sequence[str], sampling: Sampling
) -> Estimate:
    """Spearman's correlation. Its interval is that of the ranks' Pearson, over problems."""
    from scipy.stats import rankdata

    def summands(ranks: Sequence[tuple[float, float]]) -> np.ndarray:
        x, y = np.array(ranks).T
        return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def pearson(sums: np.ndarray) -> np.ndarray:
        n, sx, sy, sxx, syy, sxy = np.moveaxis(sums, -1, 0)
        spread = np.sqrt(np.maximum((n * sxx - sx**2) * (n * syy - sy**2), 0))
        return np.divide(n * sxy - sx * sy, spread, out=np.zeros_like(sxy), where=spread > 0)

    def spearman(ranks: Sequence[tuple[float, float]]) -> float:
        value = rank_correlation(*zip(*ranks, strict=True))
        return math.nan if value is None else value

    ranks = list(zip(rankdata(values), rankdata(others), strict=True))
    return estimate(Statistic(spearman, summands, pearson), ranks, problems, sampling)


def mean_scores(
    model: str,
    pairings: Mapping[str, Sequence[Pairing]],
    scales: Scales,
    sampling: Sampling,
    **columns: Any,
) -> list[Score]:
    """Weighted kappa averaged over the criteria that have one (for the traffic light); the unreadable share."""
    several = {name: [pairing for pairing in group if pairing.said is not None] for name, group in pairings.items()}
    known = {name: kappa_on(group, scales[name]) for name, group in several.items()}
    used = [name for name, value in known.items() if not math.isnan(value)]
    total = sum(len(group) for group in pairings.values())
    missing = total - sum(len(group) for group in several.values())
    replies = max(map(len, pairings.values()), default=0)
    lengths = [value for group in several.values() if (value := besides(group)["length_correlation"][0]) is not None]
    beside = [
        plain(model, "unreadable", missing / total if total else None, total, 0, **columns),
        plain(model, "length_correlation", sum(lengths) / len(lengths) if lengths else None, replies, 0, **columns),
    ]
    pooled = [(name, pairing) for name in used for pairing in several[name]]
    statistic = mean_kappa({name: scales[name] for name in used})
    mean = estimate(statistic, pooled, [pairing.problem for _, pairing in pooled], sampling)
    return [score(model, MEAN_KAPPA, mean._replace(n=replies), **columns), *beside]


def weighted(scale: Scale) -> str:
    """The kappa that a light rests on: quadratically weighted, of labels without an order the plain one."""
    return "weighted_kappa" if scale.level == "ordinal" else "kappa"


def kappa_on(pairings: Sequence[Pairing], scale: Scale) -> float:
    """That kappa of some pairings; NaN where there are none, or where both sides know one label only."""
    return statistic_of(weighted(scale), len(scale.labels)).value(pairings) if pairings else math.nan


def mean_kappa(scales: Scales) -> Statistic[tuple[str, Pairing]]:
    """The mean over criteria of the weighted kappa of each."""
    sizes = {name: len(scale.labels) for name, scale in scales.items()}
    widths = [size * (size + 1) for size in sizes.values()]

    def of_each(pooled: Sequence[tuple[str, Pairing]]) -> dict[str, list[Pairing]]:
        return {name: [pairing for criterion, pairing in pooled if criterion == name] for name in sizes}

    def value(pooled: Sequence[tuple[str, Pairing]]) -> float:
        kappas = [kappa_on(group, scales[name]) for name, group in of_each(pooled).items()]
        return sum(kappas) / len(kappas)

    def counts(pooled: Sequence[tuple[str, Pairing]]) -> Any:
        blocks = []
        for number, (name, group) in enumerate(of_each(pooled).items()):
            before, after = sum(widths[:number]), sum(widths[number + 1 :])
            blocks.append(np.pad(tables_of(group, sizes[name]), ((0, 0), (before, after))))
        return np.concatenate(blocks)

    def of_sums(sums: Any) -> Any:
        start, kappas = 0, []
        for (name, size), width in zip(sizes.items(), widths, strict=True):
            tables = sums[..., start : start + width].reshape(*sums.shape[:-1], size, size + 1)
            kappas.append(MEASURES[weighted(scales[name])].of_tables(tables))
            start += width
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a resample in which no criterion has a kappa has no mean
            return np.nanmean(np.stack(kappas), axis=0)

    return Statistic(value, counts, of_sums)


def subsets_of(labels: Labels) -> tuple[str, ...]:
    """All items of a labelled set, and those of each source that it says."""
    return (ALL, *sorted({item.tags["source"] for item in labels.items.values() if "source" in item.tags}))


def match_rates(grader: str, labels: Labels, verdicts: Said | None, sampling: Sampling) -> list[Score]:
    """DAMR: the share of a tutor's replies with the desired label, by tutor, criterion and subset (MRBench, 5.4).

    Of the criteria of which a label is desired. verdicts: a grader's; None: the labels that people gave.
    """
    scores = []
    by_cell: dict[tuple[str, str], list[tuple[str, str, str | None]]] = defaultdict(list)
    for label in labels.labels:
        key = label.id, label.tutor, label.criterion
        if verdicts is not None and key not in verdicts:
            continue
        value = label.label if verdicts is None else verdicts[key]
        by_cell[label.tutor, label.criterion].append((label.id, label.problem, value))
    for (tutor, criterion), cells in by_cell.items():
        wanted = labels.scales[criterion].desired
        if wanted is None:
            continue
        for subset in subsets_of(labels):
            part = [cell for cell in cells if subset in {ALL, labels.items[cell[0]].tags.get("source")}]
            read = [(problem, value) for _, problem, value in part if value is not None]
            if not part:
                continue
            desired = [float(value == wanted) for _, value in read]
            rate = estimate(SHARE, desired, [problem for problem, _ in read], sampling, missing=len(part) - len(read))
            by = None if verdicts is None else grader
            scores.append(score(None, "damr", rate, tutor=tutor, criterion=criterion, subset=subset, by=by))
    return scores


def leniency_scores(grader: str, labels: Labels, verdicts: Said, sampling: Sampling) -> list[Score]:
    """Return how much oftener a grader gives the desired label than people do: the difference of the two shares.

    By criterion with a desired label, and over all of them (criterion None); of all replies, and of each third of them
    by length in characters (subsets `1 of 3`: the shortest, to `3 of 3`). Unreadable verdicts are left out.
    """
    lengths = {(reply.id, reply.tutor): len(reply.text) for reply in labels.replies}
    rows: list[tuple[str, str, int, float]] = []  # criterion, problem, length, grader less people
    for label in labels.labels:
        value, wanted = verdicts.get((label.id, label.tutor, label.criterion)), labels.scales[label.criterion].desired
        if value is not None and wanted is not None:
            apart = float(value == wanted) - float(label.label == wanted)
            rows.append((label.criterion, label.problem, lengths.get((label.id, label.tutor), 0), apart))
    if not rows:
        return []
    third, two_thirds = np.quantile([length for _, _, length, _ in rows], [1 / 3, 2 / 3])
    parts: dict[str | None, Callable[[int], bool]] = {
        None: lambda length: True,
        THIRDS[0]: lambda length: length <= third,
        THIRDS[1]: lambda length: third < length <= two_thirds,
        THIRDS[2]: lambda length: length > two_thirds,
    }
    scores = []
    for criterion in (None, *dict.fromkeys(row[0] for row in rows)):
        for subset, within in parts.items():
            part = [row for row in rows if criterion in (None, row[0]) and within(row[2])]
            if part:
                found = estimate(APART, [row[3] for row in part], [row[1] for row in part], sampling)
                scores.append(score(grader, LENIENCY, found, criterion=criterion, subset=subset))
    return scores


def panel_gain(panel: str, verdicts: Said, judges: Mapping[str, Said], labels: Labels) -> list[Score]:
    """Return the paired difference in mean weighted kappa of a panel and its best judge; none without shared verdicts.

    The best judge has the highest mean kappa on the replies that all have labelled: it is chosen by the labels that it
    is compared on, which favours it. by: that judge. Interval and p value: Student's t over problems.
    """
    shared = [
        label
        for label in labels.labels
        if all(said.get((label.id, label.tutor, label.criterion)) is not None for said in (verdicts, *judges.values()))
    ]

    def sides(said: Said) -> tuple[float, Array]:
        groups = pairings_of(shared, said, {}, labels.scales)
        pooled = [(name, pairing) for name, group in groups.items() for pairing in group]
        statistic = mean_kappa({name: labels.scales[name] for name in groups})
        sums = sums_by_cluster(statistic.counts(pooled), [pairing.problem for _, pairing in pooled])
        return float(statistic.of_sums(sums.sum(axis=0))), without_each(sums, statistic.of_sums)

    if not shared or not judges:
        return []
    of_panel, alone = sides(verdicts), {name: sides(said) for name, said in judges.items()}
    best = max(alone, key=lambda name: -math.inf if math.isnan(alone[name][0]) else alone[name][0])
    contrast = paired_difference((of_panel[0], alone[best][0]), (of_panel[1], alone[best][1]), (-1.0, 1.0))
    if contrast is None:
        return []
    interval, replies = contrast.interval(), len({(label.id, label.tutor) for label in shared})
    found = Estimate(of_panel[0] - alone[best][0], Interval(*interval), replies)
    gain = score(panel, PANEL_GAIN, found, by=best)
    return [gain, plain(panel, PANEL_GAIN_P, contrast.p_value(), replies, 0, by=best)]


def correlations_by_tutor(grader: str, labels: Labels, verdicts: Said) -> list[Score]:
    """AC by tutor and dimension (MRBench, Tables 5 and 6), in both codings, Spearman and weighted kappa beside it.

    None with fewer than 20 replies; no interval: these are tables of 72 cells.
    """
    scores = []
    for tutor in dict.fromkeys(label.tutor for label in labels.labels):
        tutor_labels = [label for label in labels.labels if label.tutor == tutor]
        for criterion, group in pairings_of(tutor_labels, verdicts, {}, labels.scales).items():
            read = [pairing for pairing in group if pairing.said is not None]
            scale = labels.scales[criterion]
            for name in (name for name in BY_TUTOR if measures(name, scale)):
                value = math.nan
                if len(read) >= FEWEST:
                    value = MEASURES[name].value(
                        [pairing.gold for pairing in read], [pairing.said or 0 for pairing in read], len(scale.labels)
                    )
                known, missing = None if math.isnan(value) else value, len(group) - len(read)
                scores.append(plain(None, name, known, len(read), missing, tutor=tutor, criterion=criterion, by=grader))
    return scores
