"""Two tutors beside each other: every paired difference with the word that it comes to, and who ranks where.

The words, of the first tutor against the second by a task's headline metric:

- BETTER, WORSE: the difference's p value, corrected by Holm over all pairs and tasks of the benchmark, is below ALPHA.
- EQUIVALENT: the whole 95 % interval lies within `report.equivalence` on either side of zero. Where nothing varies,
  the interval is what so many problems allow: 1 - 0.025^(1/problems) on either side.
- INCONCLUSIVE: neither; more items would tell. A tutor of whose items fewer than `report.least_readable` have an answer
  is neither ahead nor behind: the items that both answered are no sample of the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import pandas as pd

from maieutic.core import paths
from maieutic.core.files import safe_cell
from maieutic.core.records import Difference
from maieutic.plan.plan import Plan
from maieutic.report.tables import DIGITS, is_silent, read_json, read_scores
from maieutic.scores.differences import against_itself

ALPHA, POWER = 0.05, 0.8
Verdict = Literal["BETTER", "WORSE", "EQUIVALENT", "INCONCLUSIVE"]
OPPOSITE: dict[Verdict, Verdict] = {"BETTER": "WORSE", "WORSE": "BETTER"}
_NORMAL = NormalDist()
# From an interval's width to a standard error, and from that to what is found in POWER of all repetitions.
WIDTH = 2 * _NORMAL.inv_cdf(1 - ALPHA / 2)
DETECTABLE = _NORMAL.inv_cdf(1 - ALPHA / 2) + _NORMAL.inv_cdf(POWER)


class Contrast(NamedTuple):
    """One difference and what it comes to.

    detectable: the smallest difference that as many items would find with a power of 80 % at the 5 % level, before
    Holm's correction; None without an interval. silent: those of the two that answered too few items of the task.
    """

    difference: Difference
    verdict: Verdict
    detectable: float | None
    silent: frozenset[str] = frozenset()


def verdict_of(difference: Difference, higher_is_better: bool, equivalence: float) -> Verdict:
    """What a difference comes to for the first tutor. equivalence: how far apart equal tutors may be."""
    value, p = difference.value, difference.p_holm
    if value and p is not None and p < ALPHA:
        return "BETTER" if (value > 0) == higher_is_better else "WORSE"
    low, high = difference.low, difference.high
    if low is not None and low == high:  # nothing varies: how far a share may be from it is what so few problems allow
        further = 1 - (ALPHA / 2) ** (1 / max(difference.clusters, 1))
        low, high = low - further, low + further
    within = low is not None and high is not None and -equivalence <= low and high <= equivalence
    return "EQUIVALENT" if within else "INCONCLUSIVE"


def detectable(difference: Difference) -> float | None:
    """The smallest difference that as many items would find, from the width of the interval, taken for a normal one.

    None without an interval, and where nothing varies.
    """
    if difference.low is None or difference.high is None or difference.low == difference.high:
        return None
    return DETECTABLE * (difference.high - difference.low) / WIDTH


def contrasts(plan: Plan, results: Path) -> list[Contrast]:
    """The differences of the run's tutors by headline metrics, as far as their jobs have come."""
    found = []
    silent = silent_on(plan, results)
    for benchmark, loadeds in plan.benchmarks.items():
        cards = {loaded.card.task: loaded.card for loaded in loadeds}
        for entry in read_json(paths.DIFFERENCES.within(results, benchmark=benchmark)) or []:
            difference = Difference.model_validate(entry)
            card, both = cards.get(difference.task), {difference.first, difference.second}
            metric = card.metrics.get(difference.metric) if card else None
            if card is None or metric is None or not both <= {*plan.run.tutors}:
                continue  # of a task or tutor that this run does not have
            if any(against_itself(card, metric, tutor) for tutor in both):
                continue
            better = metric.higher_is_better is not False
            verdict = verdict_of(difference, better, plan.config.report.equivalence)
            too_few = frozenset(tutor for tutor in both if (difference.task, tutor) in silent)
            if too_few:
                verdict = "INCONCLUSIVE"
            found.append(Contrast(difference, verdict, detectable(difference), too_few))
    return found


def silent_on(plan: Plan, results: Path) -> set[tuple[str, str]]:
    """Return the pairs of task and tutor with too few answered items to be ranked (`report.least_readable`)."""
    return {
        (score.task, tutor)
        for benchmark in plan.benchmarks
        for tutor, scores in read_scores(results, benchmark, plan.run.tutors).items()
        for score in scores
        if score.headline and score.scoring == "robust" and is_silent(plan, score.readable)
    }


def difference_table(found: Sequence[Contrast]) -> pd.DataFrame:
    """One row a difference, with its word and the smallest detectable one."""
    rows = [
        {**contrast.difference.model_dump(), "verdict": contrast.verdict, "detectable": contrast.detectable}
        for contrast in found
    ]
    table = pd.DataFrame(rows, columns=[*Difference.model_fields, "verdict", "detectable"])
    rounded = dict.fromkeys(("value", "low", "high", "detectable"), DIGITS)  # and no p value: none of them is zero
    return table.round(rounded).map(safe_cell)


class Ranks(NamedTuple):
    """The best and the worst rank that a tutor may have on a task, of so many tutors."""

    best: int
    worst: int
    of: int


def ranks(of_task: Iterable[Contrast]) -> dict[str, Ranks]:
    """Every tutor's range of ranks on one task under one scoring.

    At best it stands behind those that are better than it beyond chance, at worst before those that are worse.
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


def by_task(found: Sequence[Contrast], scoring: str) -> dict[tuple[str, str], list[Contrast]]:
    """The contrasts of one scoring, by benchmark and task."""
    tasks: dict[tuple[str, str], list[Contrast]] = {}
    for contrast in found:
        difference = contrast.difference
        if difference.scoring == scoring:
            tasks.setdefault((str(difference.benchmark), difference.task), []).append(contrast)
    return tasks


def leading_pair(found: Sequence[Contrast], tutors: Sequence[str]) -> tuple[str, str] | None:
    """The two tutors that are ahead of most others: better less worse, over all tasks; None of fewer than two.

    Silence on a task counts like being worse: a tutor that answers few items is not named before one that answers.
    """
    credit = dict.fromkeys(tutors, 0)
    for contrast in found:
        gain = {"BETTER": 1, "WORSE": -1}.get(contrast.verdict, 0)
        credit[contrast.difference.first] += gain
        credit[contrast.difference.second] -= gain
        for tutor in contrast.silent:
            credit[tutor] -= 1
    compared = {name for one in found for name in (one.difference.first, one.difference.second)}
    order = sorted(compared, key=lambda name: (-credit[name], tutors.index(name)))
    return (order[0], order[1]) if len(order) > 1 else None


def seen_from(contrast: Contrast, tutor: str) -> Contrast:
    """A contrast with a tutor of it as the first one."""
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
    return Contrast(turned, OPPOSITE.get(contrast.verdict, contrast.verdict), contrast.detectable)


def for_page(found: Sequence[Contrast], values: Mapping[tuple[str, str, str, str], float | None]) -> dict[str, Any]:
    """The contrasts as the page's script reads them: tutors and tasks once, then one short row each.

    values: of each tutor, by benchmark, task, scoring and tutor. A row: places of the first tutor, the second one and
    the task; then value, low, high, p, corrected p, smallest detectable difference, items, problems, items that the
    first and the second alone has right, verdict.
    """
    tutors = list(dict.fromkeys(name for one in found for name in (one.difference.first, one.difference.second)))
    tasks = list(
        dict.fromkeys((str(one.difference.benchmark), one.difference.task, one.difference.scoring) for one in found)
    )
    place = {name: at for at, name in enumerate(tutors)}
    task_place = {task: at for at, task in enumerate(tasks)}
    metrics = {(str(one.difference.benchmark), one.difference.task): one.difference.metric for one in found}

    def short(number: float | None) -> float | None:
        return None if number is None else round(number, DIGITS)

    rows = []
    for contrast in found:
        one = contrast.difference
        rows.append(
            [
                place[one.first],
                place[one.second],
                task_place[str(one.benchmark), one.task, one.scoring],
                *(short(number) for number in (one.value, one.low, one.high)),
                *(one.p, one.p_holm, short(contrast.detectable)),
                *(one.n, one.clusters, one.first_alone_right, one.second_alone_right, contrast.verdict),
            ]
        )
    return {
        "tutors": tutors,
        "tasks": [
            {
                "task": f"{benchmark}/{task}",
                "scoring": scoring,
                "metric": metrics[benchmark, task],
                "values": [short(values.get((benchmark, task, scoring, tutor))) for tutor in tutors],
            }
            for benchmark, task, scoring in tasks
        ],
        "rows": rows,
    }
