"""Paired differences between tutors, a verdict on each difference, and the tutors' ranks that follow from the verdicts.

A verdict compares the first tutor with the second by a task's headline metric:

- BETTER, WORSE: the difference's p value, Holm-corrected over all pairs and tasks of the run, is below ALPHA.
- EQUIVALENT: the whole 95 % interval lies between -`report.equivalence` and +`report.equivalence`. If the difference
  is the same on every problem, the interval has no width; it is then widened on each side by 1 - 0.025^(1/problems),
  the largest difference that this number of problems cannot exclude.
- SAME: none of these, but no item has a different grade, for example because all replies are identical.
- INCONCLUSIVE: none of these, so more items are needed. The verdict is always INCONCLUSIVE if a tutor answered a
  smaller share of the items than `report.least_readable`, or if more of its requests than `run.max_missing` have no
  answer, since the answered items are not a random sample of the task, or if the order could turn, should all replies
  that the parser did not understand be right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import pandas as pd

from maieutic.core import paths
from maieutic.core.files import safe_cell
from maieutic.core.records import Difference, Score
from maieutic.plan.plan import Plan
from maieutic.report.tables import DIGITS, is_silent, metric_title, read_json, read_scores
from maieutic.scores.differences import holm_corrected, is_own_reference

ALPHA, POWER = 0.05, 0.8
Verdict = Literal["BETTER", "WORSE", "SAME", "EQUIVALENT", "INCONCLUSIVE"]
OPPOSITE: dict[Verdict, Verdict] = {"BETTER": "WORSE", "WORSE": "BETTER"}
_NORMAL = NormalDist()
# A 95 % interval is WIDTH standard errors wide. A true difference of DETECTABLE standard errors is found with
# probability POWER.
WIDTH = 2 * _NORMAL.inv_cdf(1 - ALPHA / 2)
DETECTABLE = _NORMAL.inv_cdf(1 - ALPHA / 2) + _NORMAL.inv_cdf(POWER)


class Contrast(NamedTuple):
    """A difference between two tutors on a task, with the verdict.

    detectable: smallest true difference that the task's items would reveal with a power of 80 % at the 5 % level,
    before Holm's correction; None without an interval. silent: names of the compared tutors that answered too few
    items. in_doubt: True if replies that the parser did not understand could turn the order.
    """

    difference: Difference
    verdict: Verdict
    detectable: float | None
    silent: frozenset[str] = frozenset()
    in_doubt: bool = False


def verdict_of(difference: Difference, higher_is_better: bool, equivalence: float) -> Verdict:
    """Return the verdict on the first tutor of a difference. equivalence: largest difference that is negligible."""
    value, p = difference.value, difference.p_holm
    if value and p is not None and p < ALPHA:
        return "BETTER" if (value > 0) == higher_is_better else "WORSE"
    low, high = difference.low, difference.high
    same = value == low == high == 0
    if low is not None and low == high:  # the interval has no width: widen it, as the module's docstring explains
        further = 1 - (ALPHA / 2) ** (1 / max(difference.clusters, 1))
        low, high = low - further, low + further
    within = low is not None and high is not None and -equivalence <= low and high <= equivalence
    if within:
        return "EQUIVALENT"
    return "SAME" if same else "INCONCLUSIVE"


def detectable(difference: Difference) -> float | None:
    """Return the smallest true difference that can be detected with the number of items compared.

    The standard error is computed from the interval's width. Returns None if there is no interval or its width is 0.
    """
    if difference.low is None or difference.high is None or difference.low == difference.high:
        return None
    return DETECTABLE * (difference.high - difference.low) / WIDTH


def tutor_contrasts(plan: Plan, results: Path) -> list[Contrast]:
    """Return the differences between the run's tutors in the headline metrics, from the jobs that have finished.

    The p values are corrected by Holm's method over all pairs of tutors and all tasks of the run, because one sentence
    of the page counts them together.
    """
    compared: list[tuple[Difference, bool]] = []
    headlines = headline_scores(plan, results)
    silent = {place for place, score in headlines.items() if score.withheld or is_silent(plan, score.readable)}
    for benchmark, loaded_cards in plan.benchmarks.items():
        cards = {loaded.card.task: loaded.card for loaded in loaded_cards}
        for entry in read_json(paths.DIFFERENCES.within(results, benchmark=benchmark)) or []:
            difference = Difference.model_validate(entry)
            card, both = cards.get(difference.task), {difference.first, difference.second}
            metric = card.metrics.get(difference.metric) if card else None
            if card is None or metric is None or not both <= {*plan.run.tutors}:
                continue  # skip a difference that was computed for another run's tasks or tutors
            if not any(is_own_reference(card, metric, tutor) for tutor in both):
                compared.append((difference, metric.higher_is_better is not False))
    corrected = holm_corrected([difference for difference, _ in compared])
    contrasts = []
    for difference, (_, higher_is_better) in zip(corrected, compared, strict=True):
        verdict = verdict_of(difference, higher_is_better, plan.config.report.equivalence)
        both = {difference.first, difference.second}
        too_few = frozenset(tutor for tutor in both if (difference.task, tutor) in silent)
        first, second = (headlines.get((difference.task, name)) for name in (difference.first, difference.second))
        turns = difference.scoring == "robust" and doubt_turns(verdict, first, second)
        reported: Verdict = "INCONCLUSIVE" if too_few or turns else verdict
        contrasts.append(Contrast(difference, reported, detectable(difference), too_few, turns))
    return contrasts


def headline_scores(plan: Plan, results: Path) -> dict[tuple[str, str], Score]:
    """Return the headline score, even if withheld, of each task and tutor under `robust`, by task and tutor."""
    return {
        (score.task, tutor): score
        for benchmark in plan.benchmarks
        for tutor, scores in read_scores(results, benchmark, plan.run.tutors).items()
        for score in scores
        if (score.headline or score.withheld) and score.scoring == "robust"
    }


def doubt_turns(verdict: Verdict, first: Score | None, second: Score | None) -> bool:
    """Return True if the tutor that is behind would lead if all its replies in doubt were right.

    first, second: headline scores of the two tutors, None if missing. A metric of which less is better has no doubt,
    because only parsers of answers doubt.
    """
    if verdict not in OPPOSITE or first is None or second is None:
        return False
    ahead, behind = (first, second) if verdict == "BETTER" else (second, first)
    return behind.best is not None and ahead.value is not None and behind.best >= ahead.value


def difference_table(contrasts: Sequence[Contrast]) -> pd.DataFrame:
    """Return a table with a row for each difference, its verdict and the smallest detectable difference."""
    rows = [
        {**contrast.difference.model_dump(), "verdict": contrast.verdict, "detectable": contrast.detectable}
        for contrast in contrasts
    ]
    table = pd.DataFrame(rows, columns=[*Difference.model_fields, "verdict", "detectable"])
    # Do not round p values, since small ones would become 0.
    rounded = dict.fromkeys(("value", "low", "high", "detectable"), DIGITS)
    return table.round(rounded).map(safe_cell)


class Ranks(NamedTuple):
    """Range of a tutor's ranks on a task. best, worst: best and worst possible rank; of: number of ranked tutors."""

    best: int
    worst: int
    of: int


def ranks(of_task: Iterable[Contrast]) -> dict[str, Ranks]:
    """Return each tutor's range of ranks on one task under one scoring.

    A tutor's best rank is 1 plus the number of tutors that are significantly better. Its worst rank is the number of
    all tutors minus the number of tutors that are significantly worse.
    """
    behind: dict[str, int] = {}
    ahead: dict[str, int] = {}
    for contrast in of_task:
        first, second = contrast.difference.first, contrast.difference.second
        for name in (first, second):
            behind.setdefault(name, 0)
            ahead.setdefault(name, 0)
        if contrast.verdict == "BETTER":
            ahead[first] += 1
            behind[second] += 1
        elif contrast.verdict == "WORSE":
            behind[first] += 1
            ahead[second] += 1
    return {name: Ranks(1 + behind[name], len(behind) - ahead[name], len(behind)) for name in behind}


def by_task(contrasts: Sequence[Contrast], scoring: str) -> dict[tuple[str, str], list[Contrast]]:
    """Group the contrasts of one scoring by benchmark and task."""
    tasks: dict[tuple[str, str], list[Contrast]] = {}
    for contrast in contrasts:
        difference = contrast.difference
        if difference.scoring == scoring:
            tasks.setdefault((str(difference.benchmark), difference.task), []).append(contrast)
    return tasks


def leading_pair(contrasts: Sequence[Contrast], tutors: Sequence[str]) -> tuple[str, str] | None:
    """Return the two tutors with the most BETTER verdicts, less their WORSE verdicts; None for fewer than two tutors.

    For each comparison on a task of which a tutor answered too few items, this tutor is given a further WORSE verdict.
    A tutor therefore cannot lead by leaving items unanswered.
    """
    credit = dict.fromkeys(tutors, 0)
    for contrast in contrasts:
        gain = {"BETTER": 1, "WORSE": -1}.get(contrast.verdict, 0)
        credit[contrast.difference.first] += gain
        credit[contrast.difference.second] -= gain
        for tutor in contrast.silent:
            credit[tutor] -= 1
    compared = {name for contrast in contrasts for name in (contrast.difference.first, contrast.difference.second)}
    order = sorted(compared, key=lambda name: (-credit[name], tutors.index(name)))
    return (order[0], order[1]) if len(order) > 1 else None


def with_first_tutor(contrast: Contrast, tutor: str) -> Contrast:
    """Return the contrast with `tutor` as the first of its two tutors. The contrast is reversed if necessary."""
    difference = contrast.difference
    if difference.first == tutor:
        return contrast

    def negative(number: float | None) -> float | None:
        return None if number is None else -number

    turned = difference.model_copy(
        update={
            "first": difference.second,
            "second": difference.first,
            "value": negative(difference.value),
            "low": negative(difference.high),
            "high": negative(difference.low),
            "first_alone_right": difference.second_alone_right,
            "second_alone_right": difference.first_alone_right,
        }
    )
    return contrast._replace(difference=turned, verdict=OPPOSITE.get(contrast.verdict, contrast.verdict))


def compact_contrasts(
    contrasts: Sequence[Contrast], values: Mapping[tuple[str, str, str, str], float | None]
) -> dict[str, Any]:
    """Return the contrasts as compact data for the page's script: lists of tutors and tasks, and one row per contrast.

    values: value of each tutor, by benchmark, task, scoring and tutor. A row contains the indices of the first tutor,
    the second tutor and the task; then value, low, high, p, corrected p, smallest detectable difference, number of
    items, number of problems, number of items that only the first tutor has right, number that only the second tutor
    has right, and verdict.
    """
    differences = [contrast.difference for contrast in contrasts]
    tutors = list(dict.fromkeys(name for pair in differences for name in (pair.first, pair.second)))
    tasks = list(dict.fromkeys((str(pair.benchmark), pair.task, pair.scoring) for pair in differences))
    place = {name: at for at, name in enumerate(tutors)}
    task_place = {task: at for at, task in enumerate(tasks)}
    metrics = {(str(pair.benchmark), pair.task): pair.metric for pair in differences}

    def short(number: float | None) -> float | None:
        return None if number is None else round(number, DIGITS)

    rows = []
    for contrast in contrasts:
        pair = contrast.difference
        rows.append(
            [
                place[pair.first],
                place[pair.second],
                task_place[str(pair.benchmark), pair.task, pair.scoring],
                *(short(number) for number in (pair.value, pair.low, pair.high)),
                *(pair.p, pair.p_holm, short(contrast.detectable)),
                *(pair.n, pair.clusters, pair.first_alone_right, pair.second_alone_right, contrast.verdict),
            ]
        )
    return {
        "tutors": tutors,
        "tasks": [
            {
                "task": f"{benchmark}/{task}",
                "scoring": scoring,
                "metric": metric_title(metrics[benchmark, task]),
                "values": [short(values.get((benchmark, task, scoring, tutor))) for tutor in tutors],
            }
            for benchmark, task, scoring in tasks
        ],
        "rows": rows,
    }
