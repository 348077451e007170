"""Paired differences between tutors, with a verdict on each.

A verdict compares the first tutor with the second by a task's headline metric. It rests on the interval that the page
shows: a picture and its verdict are one fact. The intervals of a family of differences hold together with a probability
of 95 % (`maieutic.scores.differences.simultaneous_interval`).

- BETTER, WORSE: the interval excludes 0.
- EQUIVALENT: the whole interval lies between -`report.equivalence` and +`report.equivalence`.
- SAME: neither of these, but every item has the same grade, for example because all replies are identical.
- OPEN: none of these, so more items are needed. The verdict is always OPEN if a smaller share of a tutor's items than
  `report.least_readable` has a grade, or if more of its requests than `run.max_missing` have no answer, since the
  graded items are not a random sample of the task, or if the order could turn, should all replies that the parser did
  not understand be right. Other replies that cannot be read count as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import pandas as pd

from maieutic.core.files import safe_cell
from maieutic.core.records import Difference, Score
from maieutic.report.tables import DIGITS, metric_title
from maieutic.scores.differences import items_that_decide, simultaneous_interval

Verdict = Literal["BETTER", "WORSE", "SAME", "EQUIVALENT", "OPEN"]
OPPOSITE: dict[Verdict, Verdict] = {"BETTER": "WORSE", "WORSE": "BETTER"}


class Contrast(NamedTuple):
    """A difference between two tutors on a task, with the verdict.

    low, high: ends of the difference's interval within its family, None without one; decisive: number of items that
    would decide an OPEN comparison with a probability of 80 %, None if unknown; leads: True if the comparison counts
    for the tutors' ranks.
    """

    difference: Difference
    verdict: Verdict
    low: float | None
    high: float | None
    decisive: int | None = None
    leads: bool = False


def verdict_of(difference: Difference, higher_is_better: bool, equivalence: float, comparisons: int) -> Verdict:
    """Return the verdict on the first tutor of a difference.

    equivalence: largest difference that is negligible; comparisons: number of differences in the family.
    """
    low, high = simultaneous_interval(difference, comparisons)
    if low is None or high is None:
        return "SAME" if difference.same else "OPEN"
    if low > 0 or high < 0:
        return "BETTER" if (low > 0) == higher_is_better else "WORSE"
    if -equivalence <= low and high <= equivalence:
        return "EQUIVALENT"
    return "SAME" if difference.same else "OPEN"


def contrast_of(
    difference: Difference,
    higher_is_better: bool,
    equivalence: float,
    comparisons: int,
    first: Score | None = None,
    second: Score | None = None,
    is_silent: bool = False,
) -> Contrast:
    """Return a difference with its interval and verdict. comparisons: number of differences in the family.

    first, second: headline scores of the two tutors, None if missing; is_silent: True if one of
    them has a grade for too few items.
    """
    verdict = verdict_of(difference, higher_is_better, equivalence, comparisons)
    turns = difference.scoring == "robust" and doubt_turns(verdict, first, second)
    reported: Verdict = "OPEN" if is_silent or turns else verdict
    decisive = items_that_decide(difference, comparisons) if verdict == "OPEN" else None
    return Contrast(difference, reported, *simultaneous_interval(difference, comparisons), decisive)


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
    """Return a table with a row for each difference, its interval within the family and its verdict."""
    columns = ["verdict", "simultaneous_low", "simultaneous_high", "decisive", "leads"]
    rows = [
        {
            **contrast.difference.model_dump(),
            **dict(
                zip(
                    columns,
                    (contrast.verdict, contrast.low, contrast.high, contrast.decisive, contrast.leads),
                    strict=True,
                )
            ),
        }
        for contrast in contrasts
    ]
    table = pd.DataFrame(rows, columns=[*Difference.model_fields, *columns]).astype({"decisive": "Int64"})
    # Do not round p values, since small ones would become 0.
    numbers = ("value", "low", "high", "centre", "error", "simultaneous_low", "simultaneous_high")
    return table.round(dict.fromkeys(numbers, DIGITS)).map(safe_cell)


def negative(number: float | None) -> float | None:
    """Return a number with the opposite sign, without a negative zero; None stays None."""
    return None if number is None else 0.0 - number


def reversed_difference(difference: Difference) -> Difference:
    """Return the second tutor's value minus the first's."""
    return difference.model_copy(
        update={
            "first": difference.second,
            "second": difference.first,
            "value": negative(difference.value),
            "low": negative(difference.high),
            "high": negative(difference.low),
            "centre": negative(difference.centre),
            "first_alone_right": difference.second_alone_right,
            "second_alone_right": difference.first_alone_right,
        }
    )


def with_first_tutor(contrast: Contrast, tutor: str) -> Contrast:
    """Return the contrast with `tutor` as the first of its two tutors. The contrast is reversed if necessary."""
    if contrast.difference.first == tutor:
        return contrast
    return contrast._replace(
        difference=reversed_difference(contrast.difference),
        verdict=OPPOSITE.get(contrast.verdict, contrast.verdict),
        low=negative(contrast.high),
        high=negative(contrast.low),
    )


def compact_contrasts(
    contrasts: Sequence[Contrast], values: Mapping[tuple[str, str, str, str], float | None]
) -> dict[str, Any]:
    """Return the contrasts as compact data for the page's script: lists of tutors and tasks, and one row per contrast.

    values: value of each tutor, by benchmark, task, scoring and tutor. A row contains the indices of the first tutor,
    the second tutor and the task; then value, ends of the interval, number of items that would decide, number of
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
                *(short(number) for number in (pair.value, contrast.low, contrast.high)),
                *(
                    contrast.decisive,
                    pair.n,
                    pair.clusters,
                    pair.first_alone_right,
                    pair.second_alone_right,
                    contrast.verdict,
                ),
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
