"""A judge on pairs of replies, each shown in both orders: accuracy, position bias, what length alone would say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from maieutic.core.records import Judgement, Pair, Score
from maieutic.core.stats import MEAN, Estimate, Interval, Sampling, estimate
from maieutic.judges.kinds.base import Order
from maieutic.judges.questions import consistent
from maieutic.scores.score import score_of
from maieutic.validation.rewards import TASK, WITH_TIES, with_ties
from maieutic.validation.trust import rank_correlation

Orders = dict[Order, str | bool | None]  # first: the expert's reply; second: the novice's


def verdicts_by_pair(judgements: Sequence[Judgement], rubric: str) -> dict[str, Orders]:
    """What a judge said of each pair in each order."""
    verdicts: dict[str, Orders] = defaultdict(dict)
    for judgement in judgements:
        if judgement.rubric == rubric and judgement.order and judgement.verdicts:
            verdicts[judgement.id][judgement.order] = judgement.verdicts[0].value
    return dict(verdicts)


def pair_scores(
    model: str,
    pairs: Sequence[Pair],
    judgements: Sequence[Judgement],
    rubric: str,
    sampling: Sampling,
    headline: bool,
) -> list[Score]:
    """What a judge is worth on the pairs under one rubric.

    pair_accuracy: the mean of both orders, which is what a random order gives on average (MathTutorBench draws one);
    consistent_accuracy: both orders name the expert's reply; flip_rate: both orders name the same place;
    first_place: share of all verdicts for the reply that is shown first, 0.5 where place does not matter. These are of
    pairs of which people prefer one reply. accuracy_with_ties: of all pairs, right where people and judge say the same
    of first, second and tie (acc_eq of Deutsch et al., Ties Matter, 2023); the judge is tied where its orders differ.
    """
    by_pair = {pair.id: pair for pair in pairs}
    every = {name: orders for name, orders in verdicts_by_pair(judgements, rubric).items() if name in by_pair}
    verdicts = {name: orders for name, orders in every.items() if not by_pair[name].tie}
    problem = {name: by_pair[name].problem for name in verdicts}
    single = [(name, order, value) for name, orders in verdicts.items() for order, value in orders.items()]
    read = [(name, order, value) for name, order, value in single if value is not None]
    both = {name: orders for name, orders in verdicts.items() if len(orders) == 2 and None not in orders.values()}
    agreed = {name: consistent(orders) for name, orders in both.items()}
    lengths = {name: len(by_pair[name].chosen) - len(by_pair[name].rejected) for name in both}

    def of_pairs(metric: str, values: dict[str, float]) -> Score:
        problems = [problem[name] for name in values]
        return made(metric, estimate(MEAN, [*values.values()], problems, sampling, len(verdicts) - len(values)))

    def of_verdicts(metric: str, values: list[float], names: list[str], missing: int) -> Score:
        return made(metric, estimate(MEAN, values, [problem[name] for name in names], sampling, missing))

    def made(metric: str, result: Estimate) -> Score:
        first = headline and metric == "pair_accuracy"
        return score_of(result, TASK, metric, grader=model, criterion=rubric, headline=first)

    three = with_ties(by_pair, {name: consistent(orders) for name, orders in every.items()}, sampling)
    names = [name for name, _, _ in read]
    unread = len(single) - len(read)
    firsts = [float((value == "first") == (order == "ab")) for _, order, value in read]
    correlation = rank_correlation(
        [sum(1 if value == "first" else -1 for value in orders.values()) for orders in both.values()],
        [lengths[name] for name in both],
    )
    return [
        of_verdicts("pair_accuracy", [float(value == "first") for _, _, value in read], names, unread),
        of_pairs("consistent_accuracy", {name: float(value == "first") for name, value in agreed.items()}),
        of_pairs("flip_rate", {name: float(value == "tie") for name, value in agreed.items()}),
        of_verdicts("first_place", firsts, names, unread),
        of_verdicts("unreadable", [float(value is None) for _, _, value in single], [entry[0] for entry in single], 0),
        made("length_correlation", Estimate(correlation, Interval(None, None), len(both))),
        of_pairs("longer_reply_accuracy", {name: float(length > 0) for name, length in lengths.items()}),
        *([made(WITH_TIES, three)] if three is not None else []),
    ]
