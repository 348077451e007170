"""Agreement of a grader with people on labelled replies, as scores of the task `trust`."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from maieutic.config.rubrics import read_rubric, verdict_label
from maieutic.core.intervals import paired_difference
from maieutic.core.records import SCORINGS, Judgement, Label, Scale, Scales, Score
from maieutic.core.stats import (
    SHARE,
    Array,
    BootstrapSettings,
    Estimate,
    Interval,
    Statistic,
    estimate_statistic,
    leave_one_out,
    mean_statistic,
    sums_by_cluster,
)
from maieutic.datasets.labelled_sets import LabelledData
from maieutic.judges.questions import verdicts_by_criterion
from maieutic.scores.score import ScoreColumns, score_from_estimate
from maieutic.validation.agreement import MEASURES, PRINTED_CODES, Pairing, estimate_agreement, statistic_of, tables_of

TASK = "trust"
MEAN_KAPPA = "mean_weighted_kappa"
WEIGHTED_KAPPA = "weighted_kappa"
BINARY = "binary"  # `subset` of scores for binary labels (desired or not desired)
# Measures that apply only to scales of three labels
THREE_LABEL_MEASURES = frozenset({"lenient_macro_f1", "lenient_accuracy", "ac_paper"})
ORDINAL_MEASURES = frozenset({"weighted_kappa", "ac", "spearman"})  # measures that need an order of the labels
BINARY_SCALE = Scale(labels=("yes", "no"))  # scale of the criteria classifiers
ALL = "all"  # `subset` of scores over every item
PEOPLE = "people"  # grader's name in scores of people's own labels
FEWEST_FOR_CORRELATION = 20  # minimum number of a tutor's judged replies for its correlations
LENIENCY = "leniency"
LENGTH_THIRDS = ("1 of 3", "2 of 3", "3 of 3")  # `subset` of scores for a third of the replies, by length
MEAN_LENIENCY: Statistic[float] = mean_statistic(float, (-1.0, 1.0))
PANEL_GAIN, PANEL_GAIN_P = "panel_gain", "panel_gain_p"
TUTOR_MEASURES = ("ac_paper", "ac", "spearman", "weighted_kappa")
# Label by item, tutor and criterion; None if it cannot be parsed
LabelsByReply = dict[tuple[str, str, str], str | None]


def trust_score(validated: str | None, metric: str, result: Estimate, **columns: Unpack[ScoreColumns]) -> Score:
    """Return a score of the task `trust`. validated: the grader that the score is about; None for a tutor's score."""
    columns["grader"] = validated
    return score_from_estimate(result, TASK, metric, **columns)


def with_task_in_id(judgement: Judgement) -> Judgement:
    """Return the judgement with the id `task/id`, since items of two tasks may have the same id."""
    return judgement.model_copy(update={"id": f"{judgement.task}/{judgement.id}"})


def verdict_labels(judgements: Iterable[Judgement], rubric: str | None = None) -> LabelsByReply:
    """Return a judge's verdicts as labels. If it was asked about a criterion twice, the last parsed answer counts.

    rubric: the only rubric to consider, None for all.
    """
    verdicts: LabelsByReply = {}
    comparisons: dict[tuple[str, str, str], list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        if judgement.tutor is None or (rubric and judgement.rubric != rubric):
            continue
        if judgement.order is not None:  # a comparison; the verdicts in its two orders are combined below
            comparisons[judgement.id, judgement.tutor, judgement.rubric].append(judgement)
            continue
        for verdict in judgement.verdicts:
            key = judgement.id, judgement.tutor, str(verdict.criterion)
            value = verdict_label(verdict.value) if verdict.value is not None else None
            verdicts[key] = value if value is not None else verdicts.get(key)
    for (item, tutor, name), group in comparisons.items():
        for criterion, (verdict, _) in verdicts_by_criterion(group, read_rubric(name).rubric.both_orders).items():
            verdicts[item, tutor, str(criterion)] = None if verdict.value is None else verdict_label(verdict.value)
    return verdicts


def pairings_of(
    labels: Sequence[Label], verdicts: LabelsByReply, lengths: Mapping[tuple[str, str], int], scales: Scales
) -> dict[str, list[Pairing]]:
    """Return the pairings of people's labels and a grader's verdicts, by criterion.

    Replies that the grader was not asked about are left out. lengths: length of each reply in characters, 0 if absent.
    """
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
    sampling: BootstrapSettings,
    **columns: Any,
) -> list[Score]:
    """Return every measure of agreement for every criterion.

    Verdicts that cannot be parsed are left out (scoring `robust`) or count as wrong (`paper_compat`, as in BEA).
    scales: scales of the criteria, None for the binary labels of classifiers; columns: further columns of all scores.
    """
    scores = []
    columns |= {"subset": BINARY} if scales is None else {}
    by_criterion = {name: BINARY_SCALE if scales is None else scales[name] for name in pairings}
    for criterion, group in pairings.items():
        labels = len(by_criterion[criterion].labels)
        for name, definition in MEASURES.items():
            if not measure_applies(name, by_criterion[criterion]):
                continue
            for scoring in SCORINGS if definition.strict else SCORINGS[1:]:
                measured = estimate_agreement(name, group, labels, scoring == "paper_compat", sampling)
                scores.append(trust_score(model, name, measured, scoring=scoring, criterion=criterion, **columns))
        for name, value in companion_numbers(group).items():
            scores.append(score_without_interval(model, name, *value, criterion=criterion, **columns))
    return [*scores, *mean_scores(model, pairings, by_criterion, sampling, **columns)]


def measure_applies(name: str, scale: Scale) -> bool:
    """Return True if a measure applies to a scale.

    Measures that merge labels or use published codes need exactly three labels. `weighted_kappa` applies to every
    scale, since the traffic light of a criterion is based on it.
    """
    labels = len(scale.labels)
    if name in THREE_LABEL_MEASURES and labels != len(PRINTED_CODES):
        return False
    if name == "ac" and labels < len(PRINTED_CODES):
        return False
    return scale.level == "ordinal" or name == "weighted_kappa" or name not in ORDINAL_MEASURES | THREE_LABEL_MEASURES


def companion_numbers(pairings: Sequence[Pairing]) -> dict[str, tuple[float | None, int, int]]:
    """Return further numbers to show beside the agreement, each as (value, n, missing).

    They are the accuracy of always predicting the most frequent label, the share of verdicts that cannot be parsed,
    and the rank correlations of verdicts and of labels with the length of the reply.
    """
    gold = [pairing.gold for pairing in pairings]
    read = [pairing for pairing in pairings if pairing.verdict is not None]
    most = max((gold.count(place) for place in set(gold)), default=0)
    # Index 0 is the best label. Indexes are negated, so that better labels have higher numbers.
    correlation = rank_correlation([-(pairing.verdict or 0) for pairing in read], [pairing.length for pairing in read])
    people = rank_correlation([-pairing.gold for pairing in pairings], [pairing.length for pairing in pairings])
    n, missing = len(pairings), len(pairings) - len(read)
    return {
        "majority_accuracy": (most / n if n else None, n, 0),
        "unreadable": (missing / n if n else None, n, 0),
        "length_correlation": (correlation, len(read), missing),
        "people_length_correlation": (people, n, 0),
    }


def score_without_interval(
    validated: str | None, metric: str, value: float | None, n: int, missing: int, **columns: Unpack[ScoreColumns]
) -> Score:
    """Return a score of the task `trust` without an interval. validated: grader that the score is about, or None."""
    return trust_score(validated, metric, Estimate(value, Interval(None, None), n, missing), **columns)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's correlation of two sequences; None if one of them does not vary."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def estimate_rank_correlation(
    values: Sequence[float], others: Sequence[float], problems: Sequence[str], sampling: BootstrapSettings
) -> Estimate:
    """Estimate Spearman's correlation. The interval is that of Pearson's correlation of ranks, clustered by problem."""
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
    return estimate_statistic(Statistic(spearman, summands, pearson), ranks, problems, sampling)


def mean_scores(
    model: str,
    pairings: Mapping[str, Sequence[Pairing]],
    scales: Scales,
    sampling: BootstrapSettings,
    **columns: Any,
) -> list[Score]:
    """Return weighted kappa and length correlation, each averaged over the criteria for which it is defined.

    The mean kappa decides the traffic light. A third score is the share of unparsed verdicts over all criteria.
    """
    parsed = {name: [pairing for pairing in group if pairing.verdict is not None] for name, group in pairings.items()}
    known = {name: scale_kappa(group, scales[name]) for name, group in parsed.items()}
    used = [name for name, value in known.items() if not math.isnan(value)]
    total = sum(len(group) for group in pairings.values())
    missing = total - sum(len(group) for group in parsed.values())
    replies = max(map(len, pairings.values()), default=0)
    lengths = [
        value for group in parsed.values() if (value := companion_numbers(group)["length_correlation"][0]) is not None
    ]
    beside = [
        score_without_interval(model, "unreadable", missing / total if total else None, total, 0, **columns),
        score_without_interval(
            model, "length_correlation", sum(lengths) / len(lengths) if lengths else None, replies, 0, **columns
        ),
    ]
    pooled = [(name, pairing) for name in used for pairing in parsed[name]]
    statistic = mean_kappa_statistic({name: scales[name] for name in used})
    mean = estimate_statistic(statistic, pooled, [pairing.problem for _, pairing in pooled], sampling)
    return [trust_score(model, MEAN_KAPPA, mean._replace(n=replies), **columns), *beside]


def kappa_name(scale: Scale) -> str:
    """Return the name of the kappa for the traffic light: `weighted_kappa` for ordered labels, otherwise `kappa`."""
    return "weighted_kappa" if scale.level == "ordinal" else "kappa"


def scale_kappa(pairings: Sequence[Pairing], scale: Scale) -> float:
    """Return the kappa that decides the traffic light; NaN without pairings, or if only one label is used."""
    return statistic_of(kappa_name(scale), len(scale.labels)).value(pairings) if pairings else math.nan


def mean_kappa_statistic(scales: Scales) -> Statistic[tuple[str, Pairing]]:
    """Return the statistic that averages weighted kappa over criteria. scales: the scale of each criterion."""
    sizes = {name: len(scale.labels) for name, scale in scales.items()}
    widths = [size * (size + 1) for size in sizes.values()]

    def of_each(pooled: Sequence[tuple[str, Pairing]]) -> dict[str, list[Pairing]]:
        return {name: [pairing for criterion, pairing in pooled if criterion == name] for name in sizes}

    def value(pooled: Sequence[tuple[str, Pairing]]) -> float:
        kappas = [scale_kappa(group, scales[name]) for name, group in of_each(pooled).items()]
        return sum(kappas) / len(kappas)

    def counts(pooled: Sequence[tuple[str, Pairing]]) -> Any:
        blocks = []
        for number, (name, group) in enumerate(of_each(pooled).items()):
            before, after = sum(widths[:number]), sum(widths[number + 1 :])
            blocks.append(np.pad(tables_of(group, sizes[name]), ((0, 0), (before, after))))
        return np.concatenate(blocks)

    def from_sums(sums: Any) -> Any:
        start, kappas = 0, []
        for (name, size), width in zip(sizes.items(), widths, strict=True):
            tables = sums[..., start : start + width].reshape(*sums.shape[:-1], size, size + 1)
            kappas.append(MEASURES[kappa_name(scales[name])].of_tables(tables))
            start += width
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the mean of a resample in which no criterion has a kappa is NaN
            return np.nanmean(np.stack(kappas), axis=0)

    return Statistic(value, counts, from_sums)


def subsets_of(labels: LabelledData) -> tuple[str, ...]:
    """Return the subsets of a labelled set: all items, and those of each source in the items' tags."""
    return (ALL, *sorted({item.tags["source"] for item in labels.items.values() if "source" in item.tags}))


def desired_match_rates(
    grader: str, labels: LabelledData, verdicts: LabelsByReply | None, sampling: BootstrapSettings
) -> list[Score]:
    """Return the DAMR, the share of a tutor's replies with the desired label (MRBench, 5.4).

    There is one score per tutor, criterion with a desired label, and subset. verdicts: verdicts of the grader; None for
    the labels of people.
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
        desired = labels.scales[criterion].desired
        if desired is None:
            continue
        for subset in subsets_of(labels):
            part = [cell for cell in cells if subset in {ALL, labels.items[cell[0]].tags.get("source")}]
            read = [(problem, value) for _, problem, value in part if value is not None]
            if not part:
                continue
            matches = [float(value == desired) for _, value in read]
            rate = estimate_statistic(
                SHARE, matches, [problem for problem, _ in read], sampling, missing=len(part) - len(read)
            )
            by = None if verdicts is None else grader
            scores.append(trust_score(None, "damr", rate, tutor=tutor, criterion=criterion, subset=subset, by=by))
    return scores


def leniency_scores(
    grader: str, labels: LabelledData, verdicts: LabelsByReply, sampling: BootstrapSettings
) -> list[Score]:
    """Return a grader's leniency: its share of desired labels minus people's share on the same replies.

    There is a score for each criterion with a desired label, and for all of these criteria together (criterion None).
    Each covers all replies, or a third of the replies by length in characters (subsets `1 of 3`, the shortest, to
    `3 of 3`). Verdicts that cannot be parsed are left out.
    """
    lengths = {(reply.id, reply.tutor): len(reply.text) for reply in labels.replies}
    rows: list[tuple[str, str, int, float]] = []  # criterion, problem, length, grader minus people
    for label in labels.labels:
        value, desired = verdicts.get((label.id, label.tutor, label.criterion)), labels.scales[label.criterion].desired
        if value is not None and desired is not None:
            apart = float(value == desired) - float(label.label == desired)
            rows.append((label.criterion, label.problem, lengths.get((label.id, label.tutor), 0), apart))
    if not rows:
        return []
    third, two_thirds = np.quantile([length for _, _, length, _ in rows], [1 / 3, 2 / 3])
    parts: dict[str | None, Callable[[int], bool]] = {
        None: lambda length: True,
        LENGTH_THIRDS[0]: lambda length: length <= third,
        LENGTH_THIRDS[1]: lambda length: third < length <= two_thirds,
        LENGTH_THIRDS[2]: lambda length: length > two_thirds,
    }
    scores = []
    for criterion in (None, *dict.fromkeys(row[0] for row in rows)):
        for subset, within in parts.items():
            part = [row for row in rows if criterion in (None, row[0]) and within(row[2])]
            if part:
                result = estimate_statistic(MEAN_LENIENCY, [row[3] for row in part], [row[1] for row in part], sampling)
                scores.append(trust_score(grader, LENIENCY, result, criterion=criterion, subset=subset))
    return scores


def panel_gain(
    panel: str, verdicts: LabelsByReply, judges: Mapping[str, LabelsByReply], labels: LabelledData
) -> list[Score]:
    """Return a panel's mean weighted kappa minus that of its best judge; [] without shared verdicts.

    The best judge has the highest mean kappa on the replies for which the panel and all its judges have a verdict. This
    judge is chosen and compared with the panel on the same labels, which favours the judge. The column `by` names the
    judge. The interval and the p value use Student's t over problems.
    """
    shared = [
        label
        for label in labels.labels
        if all(
            answers.get((label.id, label.tutor, label.criterion)) is not None
            for answers in (verdicts, *judges.values())
        )
    ]

    def sides(answers: LabelsByReply) -> tuple[float, Array]:
        groups = pairings_of(shared, answers, {}, labels.scales)
        pooled = [(name, pairing) for name, group in groups.items() for pairing in group]
        statistic = mean_kappa_statistic({name: labels.scales[name] for name in groups})
        sums = sums_by_cluster(statistic.counts(pooled), [pairing.problem for _, pairing in pooled])
        return float(statistic.from_sums(sums.sum(axis=0))), leave_one_out(sums, statistic.from_sums)

    if not shared or not judges:
        return []
    of_panel, alone = sides(verdicts), {name: sides(answers) for name, answers in judges.items()}
    best = max(alone, key=lambda name: -math.inf if math.isnan(alone[name][0]) else alone[name][0])
    contrast = paired_difference((of_panel[0], alone[best][0]), (of_panel[1], alone[best][1]), (-1.0, 1.0))
    if contrast is None:
        return []
    interval, replies = contrast.interval(), len({(label.id, label.tutor) for label in shared})
    difference = Estimate(of_panel[0] - alone[best][0], Interval(*interval), replies)
    gain = trust_score(panel, PANEL_GAIN, difference, by=best)
    return [gain, score_without_interval(panel, PANEL_GAIN_P, contrast.p_value(), replies, 0, by=best)]


def correlations_by_tutor(grader: str, labels: LabelledData, verdicts: LabelsByReply) -> list[Score]:
    """Return a grader's agreement with people by tutor and criterion.

    The measures are AC in both codings (MRBench, Tables 5 and 6), Spearman's correlation and weighted kappa. Values are
    None with fewer than 20 replies. Intervals are omitted, since the tables have 72 cells.
    """
    scores = []
    for tutor in dict.fromkeys(label.tutor for label in labels.labels):
        tutor_labels = [label for label in labels.labels if label.tutor == tutor]
        for criterion, group in pairings_of(tutor_labels, verdicts, {}, labels.scales).items():
            read = [pairing for pairing in group if pairing.verdict is not None]
            scale = labels.scales[criterion]
            for name in (name for name in TUTOR_MEASURES if measure_applies(name, scale)):
                value = math.nan
                if len(read) >= FEWEST_FOR_CORRELATION:
                    value = MEASURES[name].value(
                        [pairing.gold for pairing in read],
                        [pairing.verdict or 0 for pairing in read],
                        len(scale.labels),
                    )
                known, missing = None if math.isnan(value) else value, len(group) - len(read)
                scores.append(
                    score_without_interval(
                        None, name, known, len(read), missing, tutor=tutor, criterion=criterion, by=grader
                    )
                )
    return scores
