"""From grades to scores: one number for each metric and scoring, with its interval and counts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.cards import JUDGE, MODEL_GRADERS, REWARD, Card, Metric
from maieutic.files import whole_file
from maieutic.graders import GOLD_FIELD, OBJECTIVE
from maieutic.graders.judges import Weighing, grades_by_judge
from maieutic.graders.rubric import NegativeWeights
from maieutic.metrics import METRICS, RELEASED, Graded
from maieutic.metrics import Metric as Function
from maieutic.records import SCORINGS, Grade, Item, Judgement, Score, Scoring, read_records
from maieutic.stats import Interval, clustered_interval

Given = dict[tuple[str, str | None], dict[str, Grade]]
READABLE = "_readable"
NO_LABEL = -1  # a step that no solution has, for a reply that names none


def all_metrics(card: Card) -> dict[str, Metric]:
    """A card's metrics, each one that rests on an objective parser followed by its twin over readable answers.

    In the metric itself a reply that cannot be read is wrong; the twin leaves it out.
    """
    found = {}
    for name, metric in card.metrics.items():
        found[name] = metric
        graders = {part.grader for part in metric.parts} or {metric.grader or card.graders[0]}
        if graders & OBJECTIVE:
            twin = {"headline": False, "stand_in": False, "readable": True, "function": metric.function or name}
            found[f"{name}{READABLE}"] = metric.model_copy(update=twin)
    return found


def by_criterion(task: str, grades: list[Grade]) -> Given:
    """The grades of one task by grader and criterion."""
    given: Given = defaultdict(dict)
    for grade in grades:
        if grade.task == task:
            given[grade.grader, grade.criterion][grade.id] = grade
    return given


def score_task(
    card: Card,
    model: str,
    items: list[Item],
    grades: list[Grade],
    graded: dict[str, dict[str, list[Grade]]],
    resamples: int,
    seed: int,
    judges: Sequence[str] | None = None,
) -> list[Score]:
    """Every score of one model on one task.

    A tutor's reply that a parser cannot read is wrong, and counted as unreadable; what a model grader (a judge, a
    reward model) leaves open is missing.

    graded: by kind (reward models, judges) the grades of each; the first one's headline metric is the task's headline.
    judges: those that judge this task; None: all that there are.
    """
    parsed = by_criterion(card.task, grades)
    scores = []
    for name, metric in all_metrics(card).items():
        kind = metric.grader or card.graders[0]
        sources: dict[str | None, Given] = {None: parsed}
        if kind in MODEL_GRADERS:
            sources = {
                grader: by_criterion(card.task, given)
                for grader, given in graded.get(kind, {}).items()
                if kind != JUDGE or judges is None or grader in judges
            }
        leader = None
        for grader, source in sources.items():
            # It judges the task, and every reply was refused: what it says nothing of is missing.
            silent = kind == JUDGE and judges is not None and not source and not metric.parts and not metric.subset
            for scoring in SCORINGS[1:] if metric.readable else SCORINGS:  # the released rules leave nothing open
                if silent:
                    found: Found | None = nothing_of(metric, items)
                elif metric.parts:
                    found = joined(metric, scoring, items, {**parsed, **source})
                else:
                    grades_of = source.get((f"{kind}/{scoring}", metric.criterion), {})
                    found = graded_items(metric, kind, scoring, items, grades_of)
                if found is not None:
                    leader = leader or grader  # a judge without a rubric for this task has said nothing of it
                    shown = metric if grader == leader else metric.model_copy(update={"headline": False})
                    score = score_metric(card, name, shown, scoring, model, found, resamples, seed)
                    scores.append(score.model_copy(update={"grader": grader}))
    return scores


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
    known = [(item, seen(metric, kind, scoring, item, grades.get(item.id))) for item in counted]
    found = [(item, one) for item, one in known if one is not None]
    if metric.value is not None:
        found = [(item, one._replace(correct=one.value == metric.value)) for item, one in found]
    unreadable = sum(no_answer(kind, grades[item.id]) for item, _ in found)
    return Found(found, len(counted) - len(found), len(counted), unreadable)


def counted_items(metric: Metric, items: list[Item]) -> list[Item]:
    """The items that a metric is made of."""
    return [item for item in items if metric.only.items() <= item.tags.items()]


def unread(grade: Grade | None) -> bool:
    """Whether a grade is there and says nothing."""
    return grade is not None and grade.value is None and grade.correct is None


def no_answer(kind: str, grade: Grade | None) -> bool:
    """Whether a parser could read no answer in a tutor's reply."""
    return kind in OBJECTIVE and grade is not None and grade.value is None and grade.why_none is not None


def seen(metric: Metric, kind: str, scoring: Scoring, item: Item, grade: Grade | None) -> Graded | None:
    """What a metric sees of one item's grade; None where there is none, or where it says nothing.

    robust: an answer that cannot be read is a wrong one, unless the metric is over readable answers.
    """
    if grade is None or (metric.readable and no_answer(kind, grade)):
        return None
    gold = item.reference[GOLD_FIELD[kind]] if kind in GOLD_FIELD else None
    if not unread(grade):
        return Graded(grade.value, grade.correct, gold)
    if scoring == "robust" and no_answer(kind, grade):
        return Graded(wrong_label(gold), False, gold)
    return None


def wrong_label(gold: object) -> object:
    """A value that is wrong whatever the reply might have meant: the other verdict, no step, a quality of zero."""
    if isinstance(gold, bool):
        return not gold
    return 0.0 if gold is None else NO_LABEL


def joined(metric: Metric, scoring: Scoring, items: list[Item], given: Given) -> Found | None:
    """The items with the parts of a metric. One without any part is left out.

    What a judge said and could not be read leaves the item in, since a judge is not asked of every item: the metric
    knows what it has. Such an item counts as missing too.
    """
    sources = [(part.grader, given.get((f"{part.grader}/{scoring}", part.criterion), {})) for part in metric.parts]
    if not any(grades for _, grades in sources):
        return None
    counted = counted_items(metric, items)
    found, missing, unreadable = [], 0, 0
    for item in counted:
        grades = [(kind, grades.get(item.id)) for kind, grades in sources]
        parts = tuple(part_of(metric, scoring, item, kind, grade) for kind, grade in grades)
        by_parser = [kind for kind, grade in grades if kind not in MODEL_GRADERS and unread(grade)]
        open_ = any(part is None and kind in by_parser for part, (kind, _) in zip(parts, grades, strict=True))
        missing += open_ or OPEN in parts or not any(grade for _, grade in grades)
        if not open_ and any(part not in (None, OPEN) for part in parts):
            found.append((item, Graded(None, None, None, parts)))
            unreadable += OPEN not in parts and any(no_answer(kind, grade) for kind, grade in grades)
    return Found(found, missing, len(counted), unreadable)


def part_of(metric: Metric, scoring: Scoring, item: Item, kind: str, grade: Grade | None) -> Graded | None:
    """One of the grades that a metric is made of; None where nobody was asked."""
    if kind in MODEL_GRADERS and unread(grade):
        return OPEN
    return seen(metric, kind, scoring, item, grade)


def score_metric(
    card: Card,
    name: str,
    metric: Metric,
    scoring: Scoring,
    model: str,
    found: Found,
    resamples: int,
    seed: int,
) -> Score:
    """One number. Its value comes from scikit-learn or the mean, its interval from whole problems drawn again."""
    named = metric.function or name
    function: Function = RELEASED.get(named, METRICS[named]) if scoring == "paper_compat" else METRICS[named]
    known = [one for _, one in found.known]
    clusters = [item.cluster for item, _ in found.known]
    value, interval = function.value(known) if known else None, Interval(None, None)
    if value is None or math.isnan(value):
        value = None
    else:
        interval = clustered_interval(function.counts(known), function.of_sums, clusters, resamples, seed)
    return Score(
        task=card.task,
        model=model,
        metric=name,
        scoring=scoring,
        headline=metric.headline,
        value=value,
        low=interval.low,
        high=interval.high,
        n=found.counted - found.missing,
        missing=found.missing,
        unreadable=found.unreadable,
        version=card.version,
        clusters=len(set(clusters)),
    )


def score_replies(
    cards: list[Card],
    model: str,
    items_dir: Path,
    grades: Path,
    rewards: dict[str, Path],
    judgements: dict[str, Path],
    out: Path,
    resamples: int,
    seed: int,
    judging: Mapping[str, Sequence[str]] | None = None,
    reading: NegativeWeights = "by_phrasing",
) -> None:
    """Write every score of one model on one benchmark, as a JSON list.

    rewards: grades by each reward model; judgements: what each judge said of a batch of tutors, this one among them;
    judging: by task the judges that have a rubric for it; None: all that there are; reading: of negative weights.
    """
    parsed = read_records(grades, Grade)
    items = {card.task: read_records(items_dir / f"{card.task}.jsonl", Item) for card in cards}
    weighing = Weighing.of((item for of in items.values() for item in of), reading)
    graded = {
        REWARD: {name: read_records(path, Grade) for name, path in rewards.items()},
        JUDGE: {
            name: grades_by_judge(read_records(path, Judgement), model, weighing) for name, path in judgements.items()
        },
    }
    scores = []
    for card in cards:
        scores += score_task(
            card, model, items[card.task], parsed, graded, resamples, seed, (judging or {}).get(card.task)
        )
    write_scores(scores, out)


def write_scores(scores: list[Score], out: Path) -> None:
    """Scores as a JSON list."""
    with whole_file(out) as handle:
        handle.write("[\n" + ",\n".join(score.model_dump_json() for score in scores) + "\n]\n")
