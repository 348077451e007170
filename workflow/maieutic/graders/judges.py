"""What a judge's verdicts say of a reply: a grade for each criterion, and the shares of desired verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from maieutic.cards import JUDGE
from maieutic.graders.reading import KEPT
from maieutic.judges.cases import by_order, merged
from maieutic.judges.rubrics import Rubric, desired_of, read_rubric
from maieutic.records import SCORINGS, Grade, Judgement, Scoring

DESIRED_SHARE = "desired_share"
SAME_IN_BOTH = "same_in_both_orders"


def grades_by_judge(judgements: Sequence[Judgement], model: str) -> list[Grade]:
    """The grades of one tutor by one judge. A verdict is read one way: both scorings show it."""
    by_reply: dict[tuple[str, str, str], list[Judgement]] = defaultdict(list)
    for one in judgements:
        if one.model == model:
            by_reply[one.task, one.id, one.rubric].append(one)
    return [grade for of in by_reply.values() for scoring in SCORINGS for grade in grades_of_reply(of, scoring)]


def grades_of_reply(judgements: Sequence[Judgement], scoring: Scoring) -> list[Grade]:
    """What one rubric says of one reply: every criterion's label, right where it is the desired one, and the shares."""
    first = judgements[0]
    rubric = read_rubric(first.rubric).rubric
    common = {"id": first.id, "task": first.task, "grader": f"{JUDGE}/{scoring}"}
    grades = []
    for name, (verdict, raw) in merged(judgements, rubric.both_orders).items():
        wanted = desired_of(rubric, rubric.criteria.get(str(name)))
        known = verdict.value is not None and wanted is not None
        grades.append(
            Grade(
                **common,
                criterion=name,
                value=verdict.value,
                correct=verdict.value == wanted if known else None,
                raw=raw[-KEPT:],
                why_none=verdict.why_none,
            )
        )
    both = [same_in_both(judgements, common)] if rubric.both_orders else []
    return [*shares(rubric, grades, common), *both, *grades]


def shares(rubric: Rubric, grades: Sequence[Grade], common: dict[str, str]) -> list[Grade]:
    """The share of desired verdicts of all criteria and of each group. None where one of them could not be read."""
    groups: dict[str, list[Grade]] = defaultdict(list)
    for grade in grades:
        criterion = rubric.criteria.get(str(grade.criterion))
        if desired_of(rubric, criterion) is None:
            continue
        groups[DESIRED_SHARE].append(grade)
        if criterion and criterion.group:
            groups[criterion.group].append(grade)
    found = []
    for name, of in groups.items():
        marks = [grade.correct for grade in of]
        value = None if None in marks else sum(map(bool, marks)) / len(marks)
        why = None if value is not None else "a criterion has no verdict"
        found.append(Grade(**common, criterion=name, value=value, correct=None, raw="", why_none=why))
    return found


def same_in_both(judgements: Sequence[Judgement], common: dict[str, str]) -> Grade:
    """The share of criteria whose verdict is the same wherever the reply stands."""
    pairs = [[verdict.value for verdict, _ in of.values()] for of in by_order(judgements).values() if len(of) == 2]
    read = [one == other for one, other in pairs if None not in (one, other)]
    value = sum(read) / len(read) if read else None
    why = None if read else "no criterion has two verdicts"
    return Grade(**common, criterion=SAME_IN_BOTH, value=value, correct=None, raw="", why_none=why)
