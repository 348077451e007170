"""From grades to scores: one number for each metric and scoring, with its interval and counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

from maieutic.config.cards import JUDGE, MODEL_GRADERS, Card, Metric, card_path, read_card, without
from maieutic.core.files import whole_file
from maieutic.core.jobs import Sampled
from maieutic.core.records import SCORINGS, Grade, Item, Score, Scoring, read_items, records_about
from maieutic.core.stats import Estimate, Sampling, estimate
from maieutic.graders.registry import OBJECTIVE
from maieutic.scores.metrics.common import RELEASED, Graded
from maieutic.scores.metrics.common import Metric as Function
from maieutic.scores.metrics.registry import METRICS


class Reading(NamedTuple):
    """What one grade is of: the grader's kind, the scoring, the criterion."""

    kind: str
    scoring: Scoring
    criterion: str | None


Given = dict[Reading, dict[str, Grade]]  # by reading, the grades of items by their id
Index = dict[tuple[str, str | None], Given]  # by task and grader (None: parsers)
READABLE = "_readable"
NO_LABEL = -1  # a step that no solution has, for a reply that names none


def all_metrics(card: Card) -> dict[str, Metric]:
    """A card's metrics, each one that rests on an objective parser followed by its twin over readable answers.

    In the metric itself a reply that cannot be read is wrong; the twin leaves it out.
    """
    metrics = {}
    for name, metric in card.metrics.items():
        metrics[name] = metric
        graders = {part.grader for part in metric.parts} or {metric.grader or card.graders[0]}
        if graders & OBJECTIVE:
            twin = {"headline": False, "readable": True, "function": metric.function or name}
            metrics[f"{name}{READABLE}"] = metric.model_copy(update=twin)
    return metrics


def index_of(grades: Iterable[Grade]) -> Index:
    """Grades by task, grader and reading."""
    index: Index = defaultdict(dict)
    for grade in grades:
        reading = Reading(grade.kind, grade.scoring, grade.criterion)
        index[grade.task, grade.by].setdefault(reading, {})[grade.id] = grade
    return index


def sources_of(kind: str, card: Card, index: Index, judges: Sequence[str] | None) -> dict[str | None, Given]:
    """The grades of one task by each grader of a kind, in the order of the run; None: parsers."""
    if kind not in MODEL_GRADERS:
        return {None: index.get((card.task, None), {})}
    known = list(
        dict.fromkeys(by for (_, by), readings in index.items() if any(reading.kind == kind for reading in readings))
    )
    names = judges if kind == JUDGE and judges is not None else known
    return {name: index.get((card.task, name), {}) for name in names}


class Measured(NamedTuple):
    """One metric of one tutor under one scoring, by one grader (None: a parser), with what is known of the items."""

    name: str
    metric: Metric
    scoring: Scoring
    by: str | None
    found: Found


def measured_on(card: Card, items: list[Item], index: Index, judges: Sequence[str] | None = None) -> Iterator[Measured]:
    """Everything that is measured of one tutor on one task.

    A tutor's reply that a parser cannot read is wrong, and counted as unreadable; what a model grader (a judge, a
    reward model) leaves open is missing. Of several judges or reward models the first one's headline metric is the
    task's headline.

    index: the tutor's grades; judges: those that judge this task; None: all that there are.
    """
    parsed = index.get((card.task, None), {})
    for name, metric in all_metrics(card).items():
        kind = metric.grader or card.graders[0]
        leader = None
        for grader, source in sources_of(kind, card, index, judges).items():
            # It judges the task, and every reply was refused: what it says nothing of is missing.
            silent = kind == JUDGE and judges is not None and not source and not metric.parts and not metric.subset
            for scoring in SCORINGS[1:] if metric.readable else SCORINGS:  # the released rules leave nothing open
                if silent:
                    evidence: Found | None = nothing_of(metric, items)
                elif metric.parts:
                    evidence = joined(metric, scoring, items, {**parsed, **source})
                else:
                    grades_of = source.get(Reading(kind, scoring, metric.criterion), {})
                    evidence = graded_items(metric, kind, scoring, items, grades_of)
                if evidence is not None:
                    leader = leader or grader  # a judge without a rubric for this task has said nothing of it
                    shown = metric if grader == leader else metric.model_copy(update={"headline": False})
                    yield Measured(name, shown, scoring, grader, evidence)


def score_task(
    card: Card, tutor: str, items: list[Item], index: Index, sampling: Sampling, judges: Sequence[str] | None = None
) -> list[Score]:
    """Every score of one tutor on one task. index, judges: as of `measured_on`."""
    return [score_metric(card, tutor, measurement, sampling) for measurement in measured_on(card, items, index, judges)]


OPEN = Graded(None, None, None)  # a judge was asked, and what it said could not be read


class Found(NamedTuple):
    """What is known of a metric's items.

    Of `counted` ones, `missing` have no answer of their grader in full; of the known ones, `unreadable` are replies
    that cannot be read and count as wrong.
    """

    known: list[tuple[Item, Graded]]
    missing: int
    counted: int
    unreadable: int = 0


def nothing_of(metric: Metric, items: list[Item]) -> Found:
    """A metric of whose items nothing is known."""
    counted = len(counted_items(metric, items))
    return Found([], counted, counted)


def graded_items(
    metric: Metric, kind: str, scoring: Scoring, items: list[Item], grades: dict[str, Grade]
) -> Found | None:
    """The items with their grade. None where the grader said nothing of this task."""
    if not grades:
        return None
    counted = counted_items(metric, items)
    counted = [item for item in counted if item.id in grades] if metric.subset else counted
    known = [(item, seen(metric, kind, scoring, grades.get(item.id))) for item in counted]
    pairs = [(item, graded) for item, graded in known if graded is not None]
    if metric.value is not None:
        pairs = [(item, graded._replace(correct=graded.value == metric.value)) for item, graded in pairs]
    unreadable = sum(no_answer(kind, grades[item.id]) for item, _ in pairs)
    return Found(pairs, len(counted) - len(pairs), len(counted), unreadable)


def counted_items(metric: Metric, items: list[Item]) -> list[Item]:
    """The items that a metric is made of."""
    return [item for item in items if metric.only.items() <= item.tags.items()]


def unread(grade: Grade | None) -> bool:
    """Whether a grade is there and says nothing."""
    return grade is not None and grade.value is None and grade.correct is None


def no_answer(kind: str, grade: Grade | None) -> bool:
    """Whether a parser could read no answer in a tutor's reply."""
    return (
        kind in OBJECTIVE
        and grade is not None
        and not grade.refused
        and grade.value is None
        and grade.why_none is not None
    )


def seen(metric: Metric, kind: str, scoring: Scoring, grade: Grade | None) -> Graded | None:
    """What a metric sees of one item's grade; None where there is none, or where it says nothing.

    robust: an answer that cannot be read is a wrong one, unless the metric is over readable answers.
    """
    if grade is None or (metric.readable and no_answer(kind, grade)):
        return None
    if not unread(grade):
        return Graded(grade.value, grade.correct, grade.gold)
    if scoring == "robust" and no_answer(kind, grade):
        return Graded(wrong_label(grade.gold), False, grade.gold)
    return None


def wrong_label(gold: object) -> object:
    """A value that is wrong whatever the reply might have meant: the other verdict, no step, a quality of zero."""
    if isinstance(gold, bool):
        return not gold
    return 0.0 if gold is None else NO_LABEL


def joined(metric: Metric, scoring: Scoring, items: list[Item], readings: Given) -> Found | None:
    """The items with the parts of a metric. One without any part is left out.

    What a judge said and could not be read leaves the item in, since a judge is not asked of every item: the metric
    knows what it has. Such an item counts as missing too.
    """
    sources = [(part.grader, readings.get(Reading(part.grader, scoring, part.criterion), {})) for part in metric.parts]
    if not any(grades for _, grades in sources):
        return None
    counted = counted_items(metric, items)
    pairs, missing, unreadable = [], 0, 0
    for item in counted:
        grades = [(kind, grades.get(item.id)) for kind, grades in sources]
        parts = tuple(part_of(metric, scoring, kind, grade) for kind, grade in grades)
        by_parser = [kind for kind, grade in grades if kind not in MODEL_GRADERS and unread(grade)]
        open_ = any(part is None and kind in by_parser for part, (kind, _) in zip(parts, grades, strict=True))
        missing += open_ or OPEN in parts or not any(grade for _, grade in grades)
        if not open_ and any(part not in (None, OPEN) for part in parts):
            pairs.append((item, Graded(None, None, None, parts)))
            unreadable += OPEN not in parts and any(no_answer(kind, grade) for kind, grade in grades)
    return Found(pairs, missing, len(counted), unreadable)


def part_of(metric: Metric, scoring: Scoring, kind: str, grade: Grade | None) -> Graded | None:
    """One of the grades that a metric is made of; None where nobody was asked."""
    if kind in MODEL_GRADERS and unread(grade):
        return OPEN
    return seen(metric, kind, scoring, grade)


def function_of(name: str, metric: Metric, scoring: Scoring) -> Function:
    """How a metric is computed; some otherwise by the released code."""
    named = metric.function or name
    return RELEASED.get(named, METRICS[named]) if scoring == "paper_compat" else METRICS[named]


def score_metric(card: Card, tutor: str, measured: Measured, sampling: Sampling) -> Score:
    """One number. Its value comes from scikit-learn or the mean, its interval from whole problems drawn again."""
    name, metric, scoring, by, evidence = measured
    known, clusters = [graded for _, graded in evidence.known], [item.cluster for item, _ in evidence.known]
    estimated = estimate(function_of(name, metric, scoring), known, clusters, sampling)
    return score_of(
        estimated._replace(n=evidence.counted - evidence.missing, missing=evidence.missing),
        card.task,
        name,
        tutor=tutor,
        benchmark=card.benchmark,
        criterion=metric.criterion,
        subset=", ".join(metric.only.values()) or None,
        by=by,
        scoring=scoring,
        headline=metric.headline,
        unreadable=evidence.unreadable,
        version=card.version,
    )


class Columns(TypedDict, total=False):
    """The columns of a score beside its number, task and metric."""

    tutor: str | None
    grader: str | None
    benchmark: str | None
    criterion: str | None
    subset: str | None
    by: str | None
    scoring: Scoring
    headline: bool
    unreadable: int
    version: int
    normal: float | None


def score_of(result: Estimate, task: str, metric: str, **columns: Unpack[Columns]) -> Score:
    """An estimate as a row of scores, `robust` unless its columns say otherwise."""
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


class ScoringJob(Sampled):
    """Some tasks of one benchmark, and by whom they are graded in this run.

    judging: by task the judges that have a rubric for it; a task that is not named is judged by all that there are;
    absent: the kinds of grader (`reward`, `judge`) that the run does without, so that the cards' stand-ins lead;
    unjudged: tasks for which no judge of the run has a rubric.
    """

    benchmark: str
    tasks: list[str]
    judging: dict[str, list[str]] = {}
    absent: list[str] = []
    unjudged: list[str] = []

    def card(self, task: str) -> Card:
        """A task's card without the graders that the run does without."""
        card = read_card(card_path(self.benchmark, task)).card
        judged = task not in self.unjudged or JUDGE in self.absent
        return without(card, self.absent if judged else [*self.absent, JUDGE])


class ScoreReplies(ScoringJob):
    """The scores of one tutor on some tasks of one benchmark."""

    tutor: str


def score_replies(*, job: ScoreReplies, items: Path, grades: list[Path], out: Path) -> None:
    """Write every score of one tutor on one benchmark, as a JSON list.

    items: the folder of the benchmark's items; grades: one file a grader, in the order of the run.
    """
    cases = read_items(items, job.tasks)
    index = index_of(grade for path in grades for grade in records_about(path, Grade, cases, by=...))
    scores, sampling = [], Sampling(job.resamples, job.seed)
    for task in job.tasks:
        of_task = [item for item in cases if item.task == task]
        scores += score_task(job.card(task), job.tutor, of_task, index, sampling, job.judging.get(task))
    write_scores(scores, out)


def write_scores(scores: list[Score], out: Path) -> None:
    """Scores as a JSON list."""
    with whole_file(out) as handle:
        handle.write("[\n" + ",\n".join(score.model_dump_json() for score in scores) + "\n]\n")
