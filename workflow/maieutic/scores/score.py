"""Scores from grades: one number for each metric and scoring, with its interval and counts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import variance
from typing import NamedTuple, TypedDict, Unpack

from maieutic.config.cards import JUDGE, MODEL_GRADERS, Card, Metric, card_path, card_without_graders, read_card
from maieutic.core.files import atomic_file
from maieutic.core.jobs import SampledJob
from maieutic.core.json_text import json_value
from maieutic.core.records import SCORINGS, Grade, Item, Score, Scoring, read_checked_records, read_items
from maieutic.core.stats import BootstrapSettings, Estimate, estimate_statistic
from maieutic.graders.evidence import is_doubt
from maieutic.graders.gold import right_verdicts
from maieutic.graders.registry import OBJECTIVE_GRADERS
from maieutic.scores.metrics import NO_LABEL, RELEASED, GradedItem
from maieutic.scores.metrics import Metric as Function
from maieutic.scores.registry import METRICS


class GradeKey(NamedTuple):
    """Key that distinguishes the grades of one grader on one item: the grader's kind, the scoring and the criterion."""

    kind: str
    scoring: Scoring
    criterion: str | None


GradesByKey = dict[GradeKey, dict[str, Grade]]  # grades by grade key, then by item id
GradeIndex = dict[tuple[str, str | None], GradesByKey]  # grades by task and grader; the grader is None for parsers
READABLE = "_readable"
FLIP_RATE, WITHIN_DEVIATION = "flip_rate", "within_item_deviation"  # metrics of several answers to one item


def all_metrics(card: Card) -> dict[str, Metric]:
    """Return the metrics on a card, and for each metric of an objective parser a second one over readable answers.

    An unreadable reply counts as wrong in the first metric and is left out of the second.
    """
    metrics = {}
    for name, metric in card.metrics.items():
        metrics[name] = metric
        graders = {part.grader for part in metric.parts} or {metric.grader or card.graders[0]}
        if graders & OBJECTIVE_GRADERS:
            twin = {"headline": False, "readable": True, "function": metric.function or name}
            metrics[f"{name}{READABLE}"] = metric.model_copy(update=twin)
    return metrics


def reported_metrics(card: Card) -> dict[str, Metric]:
    """Return all metrics of a card, and those of several answers to one item."""
    undirected = Metric(higher_is_better=None)
    return {**all_metrics(card), FLIP_RATE: undirected, WITHIN_DEVIATION: undirected}


def index_grades(grades: Iterable[Grade]) -> GradeIndex:
    """Return grades indexed by task and grader, then by grade key and item id."""
    index: GradeIndex = defaultdict(dict)
    groups: dict[
        tuple[str | None, ...], dict[str, Grade]
    ] = {}  # the index's innermost mappings, for millions of grades
    for grade in grades:
        place = grade.task, grade.by, grade.kind, grade.scoring, grade.criterion
        if place not in groups:
            reading = GradeKey(grade.kind, grade.scoring, grade.criterion)
            groups[place] = index[grade.task, grade.by].setdefault(reading, {})
        groups[place][grade.id] = grade
    return index


def grades_by_grader(
    kind: str, card: Card, index: GradeIndex, judges: Sequence[str] | None
) -> dict[str | None, GradesByKey]:
    """Return the grades of one task for each grader of a kind, in the order of the run.

    The key is None for parsers, which come before a model that reads what they did not understand.
    """
    known = list(
        dict.fromkeys(by for (_, by), readings in index.items() if any(reading.kind == kind for reading in readings))
    )
    if kind not in MODEL_GRADERS:
        return {name: index.get((card.task, name), {}) for name in (None, *(by for by in known if by))}
    names = judges if kind == JUDGE and judges is not None else known
    return {name: index.get((card.task, name), {}) for name in names}


class Measurement(NamedTuple):
    """Metric of one tutor under one scoring, with the graded items. by: the grader, None for a parser."""

    name: str
    metric: Metric
    scoring: Scoring
    by: str | None
    evidence: MetricEvidence


def measure_task(
    card: Card,
    items: list[Item],
    index: GradeIndex,
    judges: Sequence[str] | None = None,
    headline_only: bool = False,
) -> Iterator[Measurement]:
    """Yield a measurement of one tutor on one task for each metric, grader and scoring.

    A reply that a parser cannot read counts as wrong and unreadable. A grade that a model grader (judge or reward
    model) did not produce counts as missing. If several graders of a kind have grades, only the first one's headline
    metric is the headline of the task.

    index: the tutor's grades; judges: judges of this task, None for all judges with grades; headline_only: True to
    leave out all other metrics.
    """
    parsed = index.get((card.task, None), {})
    for name, metric in all_metrics(card).items():
        if headline_only and not metric.headline:
            continue
        kind = metric.grader or card.graders[0]
        leaders: list[str | None] = []
        for grader, source in grades_by_grader(kind, card, index, judges).items():
            # A judge of this task has no grades if the tutor's server refused every request: all items are missing.
            silent = kind == JUDGE and judges is not None and not source and not metric.parts and not metric.subset
            # Metrics over readable answers are not computed under paper_compat, which has no unreadable answers.
            for scoring in SCORINGS[1:] if metric.readable else SCORINGS:
                if silent:
                    evidence: MetricEvidence | None = all_missing(metric, items)
                elif metric.parts:
                    evidence = items_with_parts(metric, scoring, items, {**parsed, **source})
                else:
                    grades_of = source.get(GradeKey(kind, scoring, metric.criterion), {})
                    evidence = graded_items(metric, kind, scoring, items, grades_of, source)
                if evidence is not None:
                    leaders.append(grader)  # without a rubric for this task, a judge has no evidence and cannot lead
                    reported = metric if grader == leaders[0] else metric.model_copy(update={"headline": False})
                    yield Measurement(name, reported, scoring, grader, evidence)


def score_task(
    card: Card,
    tutor: str,
    items: list[Item],
    index: GradeIndex,
    sampling: BootstrapSettings,
    judges: Sequence[str] | None = None,
    max_missing: float = 1.0,
) -> list[Score]:
    """Return every score of one tutor on one task. index, judges: see `measure_task`; max_missing: see `score_metric`.

    If items have copies, the intervals hold the variation between items and between answers, because an item and its
    copies are in one cluster.
    """
    scores = []
    for measurement in measure_task(card, items, index, judges):
        scores.append(score_metric(card, tutor, measurement, sampling, max_missing))
        if measurement.metric.headline:
            scores += repeat_scores(card, tutor, measurement, sampling)
    return scores


class ItemAnswers(NamedTuple):
    """All graded answers to one item. cluster: the item's problem."""

    cluster: str
    graded: list[GradedItem]


def answers_by_item(measured: Measurement) -> dict[str, ItemAnswers]:
    """Return the graded answers to each item, by the item's id. Copies of an item are further answers to it."""
    answers: dict[str, ItemAnswers] = {}
    for item, graded in measured.evidence.known:
        answers.setdefault(item.base, ItemAnswers(item.cluster, [])).graded.append(graded)
    return answers


def repeat_scores(card: Card, tutor: str, measured: Measurement, sampling: BootstrapSettings) -> list[Score]:
    """Return how much the grades of several answers to one item vary, or an empty list if items have no copies.

    FLIP_RATE: share of items whose answers have different grades; WITHIN_DEVIATION: square root of the mean variance
    of the grades (with n - 1 in the denominator) within an item, for grades that are numbers or right and wrong.
    """
    repeated = {name: answers for name, answers in answers_by_item(measured).items() if len(answers.graded) > 1}
    marks = {
        name: [graded.correct if graded.correct is not None else graded.value for graded in answers.graded]
        for name, answers in repeated.items()
    }
    flips = {name: float(len(set(values)) > 1) for name, values in marks.items()}
    variances = {
        name: variance([float(value) for value in values])
        for name, values in marks.items()
        if all(isinstance(value, int | float) for value in values)
    }
    scores = []
    for metric, values, root in ((FLIP_RATE, flips, False), (WITHIN_DEVIATION, variances, True)):
        if not values:
            continue
        inputs = [GradedItem(value, None, None) for value in values.values()]
        estimated = estimate_statistic(METRICS["mean"], inputs, [repeated[name].cluster for name in values], sampling)
        columns: ScoreColumns = {
            "tutor": tutor, "benchmark": card.benchmark, "criterion": measured.metric.criterion, "by": measured.by,
            "scoring": measured.scoring, "version": card.version,
        }  # fmt: skip
        score = score_from_estimate(estimated, card.task, metric, **columns)
        scores.append(square_root(score) if root else score)
    return scores


def square_root(score: Score) -> Score:
    """Return a score of variances as one of standard deviations."""
    roots = {
        name: None if (number := getattr(score, name)) is None else math.sqrt(max(0.0, number))
        for name in ("value", "low", "high")
    }
    return score.model_copy(update=roots)


UNPARSED = GradedItem(None, None, None)  # stands in for a grade of a judge whose answer could not be parsed


class MetricEvidence(NamedTuple):
    """Items and grades from which a metric is computed.

    known: items with their grades; missing: number of covered items without a complete grade; counted: number of items
    that the metric covers; unreadable: number of known items whose reply cannot be read and counts as wrong; doubtful:
    ids of those items whose reply the parser did not understand; unanswered: items whose request has no answer, each
    with its gold value; bounded: True if an answer to such an item can only be right or wrong.
    """

    known: list[tuple[Item, GradedItem]]
    missing: int
    counted: int
    unreadable: int = 0
    doubtful: frozenset[str] = frozenset()
    unanswered: Sequence[tuple[Item, object]] = ()
    bounded: bool = False


def all_missing(metric: Metric, items: list[Item]) -> MetricEvidence:
    """Return the evidence of a metric whose items are all missing."""
    counted = covered_items(metric, items)
    unanswered = [(item, right_verdicts(item).get(str(metric.criterion))) for item in counted]
    return MetricEvidence([], len(counted), len(counted), unanswered=unanswered)


def graded_items(
    metric: Metric, kind: str, scoring: Scoring, items: list[Item], grades: dict[str, Grade], source: GradesByKey
) -> MetricEvidence | None:
    """Return the evidence of a metric with one grade per item, or None if there are no grades.

    kind: kind of the grader; grades: its grades by item id; source: all grades of this grader, of which an item without
    an answer has none, or refused ones.
    """
    if not grades:
        return None
    counted = covered_items(metric, items)
    counted = [item for item in counted if item.id in grades] if metric.subset else counted
    known = [(item, metric_input(metric, kind, scoring, grades.get(item.id))) for item in counted]
    pairs = [(item, graded) for item, graded in known if graded is not None]
    if metric.value is not None:
        pairs = [(item, graded._replace(correct=graded.value == metric.value)) for item, graded in pairs]
    unread = [item.id for item, _ in pairs if has_no_answer(kind, grades[item.id])]
    doubtful = frozenset(name for name in unread if scoring == "robust" and is_doubt(grades[name].why_none))
    unanswered: list[tuple[Item, object]] = []
    if len(pairs) < len(counted):
        answered = {name for of_key in source.values() for name, grade in of_key.items() if not grade.refused}
        unanswered = [
            (item, grade.gold if (grade := grades.get(item.id)) else right_verdicts(item).get(str(metric.criterion)))
            for item in counted
            if item.id not in answered
        ]
    bounded = metric.value is not None or all(graded.correct is not None for _, graded in pairs)
    return MetricEvidence(
        pairs, len(counted) - len(pairs), len(counted), len(unread), doubtful, unanswered, bounded and bool(pairs)
    )


def covered_items(metric: Metric, items: list[Item]) -> list[Item]:
    """Return the items that a metric covers: those with the tags that the metric requires."""
    return [item for item in items if metric.only.items() <= item.tags.items()]


def is_empty_grade(grade: Grade | None) -> bool:
    """Return True if a grade exists but neither its value nor its correctness is set."""
    return grade is not None and grade.value is None and grade.correct is None


def has_no_answer(kind: str, grade: Grade | None) -> bool:
    """Return True if a grade records that an objective parser found no answer in a tutor's reply."""
    return (
        kind in OBJECTIVE_GRADERS
        and grade is not None
        and not grade.refused
        and grade.value is None
        and grade.why_none is not None
    )


def metric_input(metric: Metric, kind: str, scoring: Scoring, grade: Grade | None) -> GradedItem | None:
    """Return a metric's input from the grade of one item, or None if the grade is absent or empty.

    Under `robust` scoring, an unreadable reply is wrong, unless the metric covers only readable answers.
    """
    if grade is None or (metric.readable and has_no_answer(kind, grade)):
        return None
    if not is_empty_grade(grade):
        return GradedItem(grade.value, grade.correct, grade.gold)
    if scoring == "robust" and has_no_answer(kind, grade):
        return GradedItem(wrong_label(grade.gold), False, grade.gold, unread=True)
    return None


def wrong_label(gold: object) -> object:
    """Return a wrong value for an unreadable reply: the opposite verdict, NO_LABEL, or 0 if there is no gold value."""
    if isinstance(gold, bool):
        return not gold
    return 0.0 if gold is None else NO_LABEL


def items_with_parts(
    metric: Metric, scoring: Scoring, items: list[Item], readings: GradesByKey
) -> MetricEvidence | None:
    """Return the evidence of a composite metric, or None if there are no grades. Items without any part are left out.

    A judge is not asked about every item, so an item is also evaluated without the judge's part. If the judge's answer
    on an item cannot be parsed, the item is therefore included in the value and also counted as missing.
    """
    sources = [(part.grader, readings.get(GradeKey(part.grader, scoring, part.criterion), {})) for part in metric.parts]
    if not any(grades for _, grades in sources):
        return None
    counted = covered_items(metric, items)
    pairs, missing, unreadable, unanswered = [], 0, 0, list[tuple[Item, object]]()
    for item in counted:
        grades = [(kind, grades.get(item.id)) for kind, grades in sources]
        parts = tuple(metric_part(metric, scoring, kind, grade) for kind, grade in grades)
        by_parser = [kind for kind, grade in grades if kind not in MODEL_GRADERS and is_empty_grade(grade)]
        open_ = any(part is None and kind in by_parser for part, (kind, _) in zip(parts, grades, strict=True))
        missing += open_ or UNPARSED in parts or not any(grade for _, grade in grades)
        if not any(grade for _, grade in grades) or any(grade.refused for _, grade in grades if grade):
            unanswered.append((item, None))
        if not open_ and any(part not in (None, UNPARSED) for part in parts):
            pairs.append((item, GradedItem(None, None, None, parts)))
            unreadable += UNPARSED not in parts and any(has_no_answer(kind, grade) for kind, grade in grades)
    return MetricEvidence(pairs, missing, len(counted), unreadable, unanswered=unanswered)


def metric_part(metric: Metric, scoring: Scoring, kind: str, grade: Grade | None) -> GradedItem | None:
    """Return one part of a composite metric: UNPARSED if a model's grade is empty, None if there is no grade."""
    if kind in MODEL_GRADERS and is_empty_grade(grade):
        return UNPARSED
    return metric_input(metric, kind, scoring, grade)


def metric_function(name: str, metric: Metric, scoring: Scoring) -> Function:
    """Return the function that computes a metric. Under `paper_compat`, RELEASED takes precedence over METRICS."""
    function = metric.function or name
    return RELEASED.get(function, METRICS[function]) if scoring == "paper_compat" else METRICS[function]


def score_metric(
    card: Card, tutor: str, measured: Measurement, sampling: BootstrapSettings, max_missing: float = 1.0
) -> Score:
    """Return the score of one measurement, with its interval over whole problems.

    max_missing: share of items without an answer above which the score is no headline.
    """
    name, metric, scoring, by, evidence = measured
    known, clusters = [graded for _, graded in evidence.known], [item.cluster for item, _ in evidence.known]
    function = metric_function(name, metric, scoring)
    estimated = estimate_statistic(function, known, clusters, sampling)
    too_few = len(evidence.unanswered) > max_missing * evidence.counted
    return score_from_estimate(
        estimated._replace(n=evidence.counted - evidence.missing, missing=evidence.missing),
        card.task,
        name,
        tutor=tutor,
        benchmark=card.benchmark,
        criterion=metric.criterion,
        subset=", ".join(metric.only.values()) or None,
        by=by,
        scoring=scoring,
        headline=metric.headline and not too_few,
        withheld=metric.headline and too_few,
        if_wrong=value_if(function, evidence, right=False),
        if_right=value_if(function, evidence, right=True),
        unreadable=evidence.unreadable,
        doubtful=len(evidence.doubtful),
        best=function.value(known_if_right(evidence)) if evidence.doubtful else None,
        version=card.version,
    )


def value_if(function: Function, evidence: MetricEvidence, right: bool) -> float | None:
    """Return a metric's value if all items without an answer were right, or all wrong; None without such items."""
    if not evidence.unanswered or not evidence.bounded:
        return None
    answers = [
        GradedItem(1.0 if gold is None else gold, True, gold) if right else GradedItem(wrong_label(gold), False, gold)
        for _, gold in evidence.unanswered
    ]
    return function.value([*(graded for _, graded in evidence.known), *answers])


def known_if_right(evidence: MetricEvidence) -> list[GradedItem]:
    """Return the grades of a metric's items, with every reply in doubt counted as right."""
    return [
        GradedItem(1.0 if graded.gold is None else graded.gold, True, graded.gold)
        if item.id in evidence.doubtful
        else graded
        for item, graded in evidence.known
    ]


class ScoreColumns(TypedDict, total=False):
    """Columns of a score other than its numbers, task and metric."""

    tutor: str | None
    grader: str | None
    benchmark: str | None
    criterion: str | None
    subset: str | None
    by: str | None
    scoring: Scoring
    headline: bool
    unreadable: int
    doubtful: int
    best: float | None
    if_wrong: float | None
    if_right: float | None
    withheld: bool
    version: int
    normal: float | None


def score_from_estimate(result: Estimate, task: str, metric: str, **columns: Unpack[ScoreColumns]) -> Score:
    """Return an estimate as a score. columns: further fields of the score; `scoring` is `robust` by default."""
    return Score(
        task=task,
        metric=metric,
        value=result.value,
        low=result.interval.low,
        high=result.interval.high,
        n=result.n,
        missing=result.missing,
        clusters=result.clusters,
        **{"scoring": "robust", "headline": False, **columns},
    )


class ScoringJob(SampledJob):
    """Base class of jobs that compute scores: tasks of one benchmark, and the graders that grade them in this run.

    judging: names of the judges with a rubric for each task; a task that is not listed is judged by all judges; absent:
    kinds of grader (`reward`, `judge`) that the run lacks; the cards' stand-in metrics replace their headline metrics;
    unjudged: tasks for which no judge of the run has a rubric.
    """

    benchmark: str
    tasks: list[str]
    judging: dict[str, list[str]] = {}
    absent: list[str] = []
    unjudged: list[str] = []

    def card(self, task: str) -> Card:
        """Return a task's card without the graders that are missing in the run."""
        card = read_card(card_path(self.benchmark, task)).card
        judged = task not in self.unjudged or JUDGE in self.absent
        return card_without_graders(card, self.absent if judged else [*self.absent, JUDGE])


class ScoreReplies(ScoringJob):
    """Job that computes the scores of one tutor on some tasks of one benchmark.

    repeats: number of answers to an item that count. A copy of an item beyond it repeats an earlier answer;
    max_missing: share of a task's items without an answer above which it has no headline score.
    """

    tutor: str
    repeats: int = 1
    max_missing: float = 0.05


def leading_names(leader: Iterable[Path]) -> set[str]:
    """Return the names of the leading reward model and judge. leader: the files that name them."""
    return {json_value(path.read_text(encoding="utf-8"))["leader"] for path in leader}


def leader_first(index: GradeIndex, names: Container[str | None]) -> GradeIndex:
    """Return the grades with those of the leading graders first. names: names of the leading graders."""
    return dict(sorted(index.items(), key=lambda entry: entry[0][1] not in names))


def judges_by_lead(judges: Sequence[str] | None, names: Container[str]) -> list[str] | None:
    """Return a task's judges with the leading one first. names: names of the leading graders."""
    return None if judges is None else sorted(judges, key=lambda name: name not in names)


def score_replies(
    *, job: ScoreReplies, items: Path, grades: list[Path], leader: list[Path] | None = None, out: Path
) -> None:
    """Write every score of one tutor on one benchmark as a JSON list.

    items: folder of the benchmark's items; grades: one file per grader, in the order of the run; leader: the files that
    name the leading reward model and judge, where they are not the first ones.
    """
    cases = read_items(items, job.tasks)
    index = index_grades(grade for path in grades for grade in read_checked_records(path, Grade, cases, by=...))
    names = leading_names(leader or [])
    index = leader_first(index, names)
    scores, sampling = [], BootstrapSettings(job.resamples, job.seed)
    for task in job.tasks:
        task_items = [item for item in cases if item.task == task and item.repeat < job.repeats]
        judges = judges_by_lead(job.judging.get(task), names)
        scores += score_task(job.card(task), job.tutor, task_items, index, sampling, judges, job.max_missing)
    write_scores(scores, out)


def write_scores(scores: list[Score], out: Path) -> None:
    """Write scores as a JSON list, atomically."""
    with atomic_file(out) as handle:
        handle.write("[\n" + ",\n".join(score.model_dump_json() for score in scores) + "\n]\n")
