"""A judge's scores on pairs of replies shown in both orders: accuracy, position bias and influence of length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from maieutic.config.rubric_kinds import Order
from maieutic.core.records import Judgement, Pair, Score
from maieutic.core.stats import MEAN, BootstrapSettings, Estimate, Interval, estimate_statistic
from maieutic.judges.questions import verdict_of_both_orders
from maieutic.scores.score import score_from_estimate
from maieutic.validation.rewards import TASK, WITH_TIES, tie_aware_accuracy
from maieutic.validation.trust import rank_correlation

VerdictByOrder = dict[Order, str | bool | None]  # `first`: the expert's reply is better; `second`: the novice's


def verdicts_by_pair(judgements: Sequence[Judgement], rubric: str) -> dict[str, VerdictByOrder]:
    """Return a judge's verdicts under one rubric, by pair and order."""
    verdicts: dict[str, VerdictByOrder] = defaultdict(dict)
    for judgement in judgements:
        if judgement.rubric == rubric and judgement.order and judgement.verdicts:
            verdicts[judgement.id][judgement.order] = judgement.verdicts[0].value
    return dict(verdicts)


def judge_pair_scores(
    model: str,
    pairs: Sequence[Pair],
    judgements: Sequence[Judgement],
    rubric: str,
    sampling: BootstrapSettings,
    headline: bool,
) -> list[Score]:
    """Return a judge's scores on the pairs under one rubric.

    pair_accuracy: accuracy averaged over both orders, which is the expected accuracy for a random order, as in
    MathTutorBench; consistent_accuracy: share of pairs in which the judge chooses the expert's reply in both orders;
    flip_rate: share of pairs in which it chooses the same position in both orders; first_place: share of all verdicts
    that choose the reply shown first, 0.5 if the position has no effect. These scores exclude pairs that people call a
    tie.

    accuracy_with_ties: share of all pairs on which the judge agrees with people about the better reply or a tie (acc_eq
    of Deutsch et al., Ties Matter, 2023). The judge's verdict is a tie if its verdicts in the two orders differ.
    """
    by_pair = {pair.id: pair for pair in pairs}
    all_verdicts = {name: orders for name, orders in verdicts_by_pair(judgements, rubric).items() if name in by_pair}
    verdicts = {name: orders for name, orders in all_verdicts.items() if not by_pair[name].tie}
    problem = {name: by_pair[name].problem for name in verdicts}
    single = [(name, order, value) for name, orders in verdicts.items() for order, value in orders.items()]
    read = [(name, order, value) for name, order, value in single if value is not None]
    both = {name: orders for name, orders in verdicts.items() if len(orders) == 2 and None not in orders.values()}
    agreed = {name: verdict_of_both_orders(orders) for name, orders in both.items()}
    lengths = {name: len(by_pair[name].chosen) - len(by_pair[name].rejected) for name in both}

    def pair_score(metric: str, values: dict[str, float]) -> Score:
        problems = [problem[name] for name in values]
        return as_score(
            metric, estimate_statistic(MEAN, [*values.values()], problems, sampling, len(verdicts) - len(values))
        )

    def verdict_score(metric: str, values: list[float], names: list[str], missing: int) -> Score:
        return as_score(metric, estimate_statistic(MEAN, values, [problem[name] for name in names], sampling, missing))

    def as_score(metric: str, result: Estimate) -> Score:
        first = headline and metric == "pair_accuracy"
        return score_from_estimate(result, TASK, metric, grader=model, criterion=rubric, headline=first)

    with_tie = tie_aware_accuracy(
        by_pair, {name: verdict_of_both_orders(orders) for name, orders in all_verdicts.items()}, sampling
    )
    names = [name for name, _, _ in read]
    unread = len(single) - len(read)
    firsts = [float((value == "first") == (order == "ab")) for _, order, value in read]
    correlation = rank_correlation(
        [sum(1 if value == "first" else -1 for value in orders.values()) for orders in both.values()],
        [lengths[name] for name in both],
    )
    return [
        verdict_score("pair_accuracy", [float(value == "first") for _, _, value in read], names, unread),
        pair_score("consistent_accuracy", {name: float(value == "first") for name, value in agreed.items()}),
        pair_score("flip_rate", {name: float(value == "tie") for name, value in agreed.items()}),
        verdict_score("first_place", firsts, names, unread),
        verdict_score(
            "unreadable", [float(value is None) for _, _, value in single], [entry[0] for entry in single], 0
        ),
        as_score("length_correlation", Estimate(correlation, Interval(None, None), len(both))),
        pair_score("longer_reply_accuracy", {name: float(length > 0) for name, length in lengths.items()}),
        *([as_score(WITH_TIES, with_tie)] if with_tie is not None else []),
    ]
