"""What a judge's verdicts say of a reply: a grade for each criterion, and the shares of desired verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import JUDGE
from maieutic.core.jobs import Job
from maieutic.core.records import (
    SCORINGS,
    Grade,
    Item,
    Judgement,
    NegativeWeights,
    Scoring,
    checked,
    read_items,
    read_records,
    write_records,
)
from maieutic.graders.reading import KEPT
from maieutic.graders.rubric import ARR_W, ARR_W_CLIPPED, ARR_W_READINGS, READINGS, Weighed, arr_w, clipped, good
from maieutic.judges.questions import by_order, merged
from maieutic.judges.rubrics import Rubric, desired_of, read_rubric

DESIRED_SHARE = "desired_share"
SAME_IN_BOTH = "same_in_both_orders"
Common = dict[str, Any]  # what all grades of one reply by one judge share


class Weighing(NamedTuple):
    """What the scores of items with criteria of their own are made with: the items by task and id, and the reading."""

    items: Mapping[tuple[str, str], Item]
    reading: NegativeWeights

    @classmethod
    def of(cls, items: Iterable[Item], reading: NegativeWeights) -> Weighing:
        """The weighing of some items' criteria. reading: how a negative weight of theirs is read."""
        return cls({(item.task, item.id): item for item in items}, reading)


class GradeVerdicts(Job):
    """The grades of one tutor's replies by one judge.

    weighted: the tasks whose items bring weighted criteria of their own; negative_weights: how a negative weight of
    theirs is read, None where no task has any.
    """

    judge: str
    tutor: str
    weighted: list[str] = []
    negative_weights: NegativeWeights | None = None


def grade_verdicts(*, job: GradeVerdicts, verdicts: Path, items: Path, out: Path) -> None:
    """Write the grades of one tutor's replies by one judge.

    verdicts: what the judge said of a batch of tutors, the tutor among them; items: the folder of the benchmark's
    items.
    """
    judgements = read_records(verdicts, Judgement)
    tasks = sorted({judgement.task for judgement in judgements})
    cases = read_items(items, [task for task in tasks if (items / f"{task}.jsonl").is_file()])
    checked(verdicts, judgements, cases)
    weighing = None
    if job.negative_weights:
        weighing = Weighing.of((item for item in cases if item.task in job.weighted), job.negative_weights)
    write_records(out, grades_by_judge(job.judge, judgements, job.tutor, weighing))


def grades_by_judge(
    judge: str, judgements: Sequence[Judgement], tutor: str, weighing: Weighing | None = None
) -> list[Grade]:
    """The grades of one tutor by one judge. A verdict is read one way: both scorings show it."""
    by_reply: dict[tuple[str, str, str], list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        if judgement.tutor == tutor:
            by_reply[judgement.task, judgement.id, judgement.rubric].append(judgement)
    return [
        grade
        for group in by_reply.values()
        for scoring in SCORINGS
        for grade in grades_of_reply(judge, group, scoring, weighing)
    ]


def grades_of_reply(
    judge: str, judgements: Sequence[Judgement], scoring: Scoring, weighing: Weighing | None = None
) -> list[Grade]:
    """What one rubric says of one reply: every criterion's label, right where it is the desired one, and the shares."""
    first = judgements[0]
    rubric = read_rubric(first.rubric).rubric
    common: Common = {"id": first.id, "task": first.task, "kind": JUDGE, "by": judge, "scoring": scoring}
    item = weighing.items.get((first.task, first.id)) if weighing and rubric.rules.weighted else None
    own = weighed_criteria(item) if item else {}
    grades = []
    for name, (verdict, raw) in merged(judgements, rubric.both_orders).items():
        wanted = desired_of(rubric, rubric.criteria.get(str(name)))
        if weighing and name in own:  # a fault that is there is a pass that speaks against the reply
            wanted = good(own[name], True, weighing.reading)
        known = verdict.value is not None and wanted is not None
        grades.append(
            Grade(
                **common,
                criterion=name,
                value=verdict.value,
                correct=verdict.value == wanted if known else None,
                raw=raw[-KEPT:],
                reason=verdict.reason,
                why_none=verdict.why_none,
            )
        )
    both = [same_in_both(judgements, common)] if rubric.both_orders else []
    weighed = item_scores(own, grades, weighing.reading, common) if weighing and own else []
    return [*weighed, *shares(rubric, grades, common), *both, *grades]


def weighed_criteria(item: Item) -> dict[str, Weighed]:
    """An item's own criteria with their weights."""
    tags = item.reference["criterion_tags"]
    criteria = item.reference["criteria"]
    return {name: Weighed(criterion["weight"], tags[name]["prohibits"]) for name, criterion in criteria.items()}


def item_scores(
    criteria: Mapping[str, Weighed], grades: Sequence[Grade], reading: NegativeWeights, common: Common
) -> list[Grade]:
    """ARR_w of one reply by the run's reading and by each; clipped by the run's. None where a verdict is missing."""
    passed = {str(grade.criterion): bool(grade.value) for grade in grades if grade.value is not None}
    complete = criteria.keys() <= passed.keys()
    values = {each: arr_w(criteria, passed, each) if complete else None for each in READINGS}
    chosen = values[reading]
    named = {
        ARR_W: chosen,
        ARR_W_CLIPPED: None if chosen is None else clipped(chosen),
        **{ARR_W_READINGS[each]: value for each, value in values.items()},
    }
    why = None if complete else f"{len(criteria.keys() - passed.keys())} of {len(criteria)} criteria have no verdict"
    return [
        Grade(**common, criterion=name, value=value, correct=None, raw="", why_none=why)
        for name, value in named.items()
    ]


def shares(rubric: Rubric, grades: Sequence[Grade], common: Common) -> list[Grade]:
    """The share of desired verdicts of all criteria and of each group. None where one of them could not be read."""
    groups: dict[str, list[Grade]] = defaultdict(list)
    for grade in grades:
        criterion = rubric.criteria.get(str(grade.criterion))
        if desired_of(rubric, criterion) is None:
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


def same_in_both(judgements: Sequence[Judgement], common: Common) -> Grade:
    """The share of criteria whose verdict is the same wherever the reply stands."""
    pairs = [
        [verdict.value for verdict, _ in verdicts.values()]
        for verdicts in by_order(judgements).values()
        if len(verdicts) == 2
    ]
    read = [label == other for label, other in pairs if None not in (label, other)]
    value = sum(read) / len(read) if read else None
    why = None if read else "no criterion has two verdicts"
    return Grade(**common, criterion=SAME_IN_BOTH, value=value, correct=None, raw="", why_none=why)
