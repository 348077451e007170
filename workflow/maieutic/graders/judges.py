"""What a judge's verdicts say of a reply: one grade a criterion, and how many have the desired label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from maieutic.cards import JUDGE
from maieutic.graders.reading import KEPT
from maieutic.judges.rubrics import read_rubric
from maieutic.records import SCORINGS, Grade, Judgement, Scoring, Verdict

DESIRED_SHARE = "desired_share"


def grades_by_judge(judgements: Sequence[Judgement], model: str) -> list[Grade]:
    """The grades of one tutor by one judge. A verdict is read one way: both scorings show it."""
    by_reply: dict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for one in judgements:
        if one.model == model:
            by_reply[one.task, one.id].append(one)
    return [grade for of in by_reply.values() for scoring in SCORINGS for grade in grades_of_reply(of, scoring)]


def grades_of_reply(judgements: Sequence[Judgement], scoring: Scoring) -> list[Grade]:
    """Every criterion's label, right where it is the desired one; and the share of desired labels, if all are read."""
    first = judgements[0]
    criteria = read_rubric(first.rubric).rubric.criteria
    said: dict[str, tuple[Verdict, str]] = {}
    for one in judgements:
        for verdict in one.verdicts:  # asked for again, a criterion's later answer counts
            said[str(verdict.criterion)] = (verdict, one.raw)
    common = {"id": first.id, "task": first.task, "grader": f"{JUDGE}/{scoring}"}
    grades = []
    for name, (verdict, raw) in said.items():
        wanted = criteria[name].desired if name in criteria else None
        correct = verdict.value if isinstance(verdict.value, bool) else None
        if wanted is not None and verdict.value is not None:
            correct = verdict.value == wanted
        grades.append(
            Grade(
                **common,
                criterion=name,
                value=verdict.value,
                correct=correct,
                raw=raw[-KEPT:],
                why_none=verdict.why_none,
            )
        )
    marks = [grade.correct for grade in grades]
    value = None if None in marks or not marks else sum(map(bool, marks)) / len(marks)
    why = None if value is not None else "a criterion has no verdict"
    return [Grade(**common, criterion=DESIRED_SHARE, value=value, correct=None, raw="", why_none=why), *grades]
