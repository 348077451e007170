"""Grades from a judge's verdicts: one for each criterion, and the shares of desired verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import JUDGE
from maieutic.config.rubrics import Rubric, desired_verdict, read_rubric
from maieutic.core.jobs import Job
from maieutic.core.records import (
    SCORINGS,
    Grade,
    Item,
    Judgement,
    NegativeWeights,
    Scoring,
    check_items_and_owner,
    read_items,
    read_records,
    write_records,
)
from maieutic.graders.gold import right_verdicts
from maieutic.graders.reading import MAX_PASSAGE_CHARACTERS
from maieutic.graders.weighted_rubric import (
    ARR_W,
    ARR_W_CLIPPED,
    ARR_W_READINGS,
    NEGATIVE_WEIGHT_READINGS,
    WeightedCriterion,
    arr_w,
    clip_score,
    favours_reply,
)
from maieutic.judges.questions import verdicts_by_criterion, verdicts_by_order

DESIRED_SHARE = "desired_share"
SAME_IN_BOTH = "same_in_both_orders"
HOLDS, FIRST, CHANGE = "{}_holds", "{}_first", "{}_change"  # criteria of a conversation's grades, by group of criteria
DueVerdicts = Mapping[tuple[str, str], Mapping[str, str]]  # verdicts that are right on an item (task, id), by criterion
CommonFields = dict[str, Any]  # fields that all grades of one reply by one judge share


class WeightedItems(NamedTuple):
    """Items with weighted criteria, by task and id. reading: rule by which negative weights count in a score."""

    items: Mapping[tuple[str, str], Item]
    reading: NegativeWeights

    @classmethod
    def of(cls, items: Iterable[Item], reading: NegativeWeights) -> WeightedItems:
        """Create an instance from items. reading: rule by which negative weights count in a score."""
        return cls({(item.task, item.id): item for item in items}, reading)


class GradeVerdicts(Job):
    """Job that grades one tutor's replies by one judge's verdicts.

    weighted: tasks whose items have their own weighted criteria; negative_weights: rule by which negative weights
    count, None if no task has weighted criteria.
    """

    judge: str
    tutor: str
    weighted: list[str] = []
    negative_weights: NegativeWeights | None = None


def grade_verdicts(*, job: GradeVerdicts, verdicts: Path, items: Path, out: Path) -> None:
    """Write the grades of one tutor's replies by one judge.

    verdicts: the judge's verdicts on a batch of tutors that includes the tutor; items: folder of the benchmark's items.
    """
    judgements = read_records(verdicts, Judgement)
    tasks = sorted({judgement.task for judgement in judgements})
    cases = read_items(items, [task for task in tasks if (items / f"{task}.jsonl").is_file()])
    check_items_and_owner(verdicts, judgements, cases)
    weighing = None
    if job.negative_weights:
        weighing = WeightedItems.of((item for item in cases if item.task in job.weighted), job.negative_weights)
    turns = {(item.task, item.id): 1 + len(item.script) for item in cases}
    verdicts_due = {(item.task, item.id): right_verdicts(item) for item in cases}
    write_records(out, grades_by_judge(job.judge, judgements, job.tutor, weighing, turns, verdicts_due))


def grades_by_judge(
    judge: str,
    judgements: Sequence[Judgement],
    tutor: str,
    weighing: WeightedItems | None = None,
    turns: Mapping[tuple[str, str], int] | None = None,
    due: DueVerdicts | None = None,
) -> list[Grade]:
    """Return the grades of one tutor's replies by one judge, once for each scoring.

    The grades of both scorings are equal, since a judge's verdicts do not depend on the scoring. weighing: items with
    weighted criteria, None if no task has any; turns: number of turns of each item's conversation, by task and id; due:
    verdicts that are right on the items, where the items say so.
    """
    by_reply: dict[tuple[str, str, str], list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        if judgement.tutor == tutor:
            by_reply[judgement.task, judgement.id, judgement.rubric].append(judgement)
    return [
        grade
        for group in by_reply.values()
        for scoring in SCORINGS
        for grade in grades_by_rubric(judge, group, scoring, weighing, turns, due)
    ]


def grades_by_rubric(
    judge: str,
    judgements: Sequence[Judgement],
    scoring: Scoring,
    weighing: WeightedItems | None = None,
    turns: Mapping[tuple[str, str], int] | None = None,
    due: DueVerdicts | None = None,
) -> list[Grade]:
    """Return the grades of one reply by one rubric: each criterion's verdict, and scores computed from the verdicts.

    turns: number of turns of each item's conversation, by task and id; due: verdicts that are right on the items.
    """
    first = judgements[0]
    rubric = read_rubric(first.rubric).rubric
    common: CommonFields = {"id": first.id, "task": first.task, "kind": JUDGE, "by": judge, "scoring": scoring}
    item = weighing.items.get((first.task, first.id)) if weighing and rubric.rules.weighted else None
    weights = weighted_criteria(item) if item else {}
    golds = (due or {}).get((first.task, first.id), {})
    grades = []
    for name, (verdict, raw) in verdicts_by_criterion(judgements, rubric.both_orders).items():
        gold = golds.get(str(name))
        desired = gold or desired_verdict(rubric, rubric.criteria.get(str(name)))
        if weighing and name in weights:  # a pass on a criterion that names a fault counts against the reply
            desired = favours_reply(weights[name], True, weighing.reading)
        known = verdict.value is not None and desired is not None
        grades.append(
            Grade(
                **common,
                criterion=name,
                value=verdict.value,
                correct=verdict.value == desired if known else None,
                gold=gold,
                raw=raw[-MAX_PASSAGE_CHARACTERS:],
                reason=verdict.reason,
                why_none=verdict.why_none,
            )
        )
    both = [order_consistency_grade(judgements, common)] if rubric.both_orders else []
    expected = (turns or {}).get((first.task, first.id), 1)
    conversation = conversation_grades(rubric, grades, expected, common) if rubric.rules.by_turn else []
    weighed = item_scores(weights, grades, weighing.reading, common) if weighing and weights else []
    return [*weighed, *desired_share_grades(rubric, grades, common), *both, *conversation, *grades]


def conversation_grades(rubric: Rubric, grades: Sequence[Grade], turns: int, common: CommonFields) -> list[Grade]:
    """Return the grades of a whole conversation from the grades of its turns, for each group of criteria.

    HOLDS: True if the tutor's turns have the desired label to the end; False if a turn has another label, or if the
    conversation ended early. FIRST: number of the first turn without the desired label, if there is one and the earlier
    turns have verdicts. CHANGE: 1 if the last turn is undesired and the first is not, -1 if only the first is
    undesired, else 0; only if there are several turns.

    grades: grades of the single turns; turns: number of turns of the whole conversation.
    """
    groups: dict[str, dict[int, bool | None]] = defaultdict(dict)
    for grade in grades:
        criterion = rubric.criteria[str(grade.criterion)]
        assert criterion.turn is not None and criterion.group is not None, "criteria of kind `turns` have both"
        groups[criterion.group][criterion.turn] = grade.correct
    summaries = []
    for name, by_turn in groups.items():
        numbers = sorted(by_turn)
        marks = [by_turn[number] for number in numbers]
        holds = False if False in marks or len(marks) < turns else None if None in marks else True
        why = "a turn has no verdict" if holds is None else None
        summaries.append(
            Grade(**common, criterion=HOLDS.format(name), value=holds, correct=holds, raw="", why_none=why)
        )
        if False in marks and None not in marks[: marks.index(False)]:
            first = numbers[marks.index(False)]
            summaries.append(Grade(**common, criterion=FIRST.format(name), value=first, correct=None, raw=""))
        if len(marks) > 1 and marks[0] is not None and marks[-1] is not None:
            change = int(marks[0]) - int(marks[-1])
            summaries.append(Grade(**common, criterion=CHANGE.format(name), value=change, correct=None, raw=""))
    return summaries


def weighted_criteria(item: Item) -> dict[str, WeightedCriterion]:
    """Return an item's criteria with their weights."""
    tags = item.reference["criterion_tags"]
    criteria = item.reference["criteria"]
    return {
        name: WeightedCriterion(criterion["weight"], tags[name]["prohibits"]) for name, criterion in criteria.items()
    }


def item_scores(
    criteria: Mapping[str, WeightedCriterion], grades: Sequence[Grade], reading: NegativeWeights, common: CommonFields
) -> list[Grade]:
    """Return grades with a reply's ARR_w by the run's reading of negative weights, also clipped, and by every reading.

    reading: the run's reading. The values are None if a criterion has no verdict.
    """
    passed = {str(grade.criterion): bool(grade.value) for grade in grades if grade.value is not None}
    complete = criteria.keys() <= passed.keys()
    values = {each: arr_w(criteria, passed, each) if complete else None for each in NEGATIVE_WEIGHT_READINGS}
    chosen = values[reading]
    named = {
        ARR_W: chosen,
        ARR_W_CLIPPED: None if chosen is None else clip_score(chosen),
        **{ARR_W_READINGS[each]: value for each, value in values.items()},
    }
    why = None if complete else f"{len(criteria.keys() - passed.keys())} of {len(criteria)} criteria have no verdict"
    return [
        Grade(**common, criterion=name, value=value, correct=None, raw="", why_none=why)
        for name, value in named.items()
    ]


def desired_share_grades(rubric: Rubric, grades: Sequence[Grade], common: CommonFields) -> list[Grade]:
    """Return grades with the share of desired verdicts among all criteria and in each group of criteria.

    The share is None if one of these verdicts is missing.
    """
    groups: dict[str, list[Grade]] = defaultdict(list)
    for grade in grades:
        criterion = rubric.criteria.get(str(grade.criterion))
        if desired_verdict(rubric, criterion) is None:
            continue
        groups[DESIRED_SHARE].append(grade)
        if criterion and criterion.group:
            groups[criterion.group].append(grade)
    share_grades = []
    for name, group in groups.items():
        marks = [grade.correct for grade in group]
        value = None if None in marks else sum(map(bool, marks)) / len(marks)
        why = None if value is not None else "a criterion has no verdict"
        share_grades.append(Grade(**common, criterion=name, value=value, correct=None, raw="", why_none=why))
    return share_grades


def order_consistency_grade(judgements: Sequence[Judgement], common: CommonFields) -> Grade:
    """Return a grade whose value is the share of criteria with the same verdict in both orders of the replies."""
    pairs = [
        [verdict.value for verdict, _ in verdicts.values()]
        for verdicts in verdicts_by_order(judgements).values()
        if len(verdicts) == 2
    ]
    same = [label == other for label, other in pairs if None not in (label, other)]
    value = sum(same) / len(same) if same else None
    why = None if same else "no criterion has two verdicts"
    return Grade(**common, criterion=SAME_IN_BOTH, value=value, correct=None, raw="", why_none=why)
