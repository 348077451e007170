"""From grades to scores: one number for each metric and scoring, with its interval and counts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.cards import JUDGE, MODEL_GRADERS, REWARD, Card, Metric
from maieutic.files import whole_file
from maieutic.graders import GOLD_FIELD
from maieutic.graders.judges import Weighing, grades_by_judge
from maieutic.graders.rubric import NegativeWeights
from maieutic.metrics import METRICS, Graded
from maieutic.metrics import Metric as Function
from maieutic.records import SCORINGS, Grade, Item, Judgement, Score, Scoring, read_records
from maieutic.stats import Interval, clustered_interval

Given = dict[tuple[str, str | None], dict[str, Grade]]


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
    """Every score of one model on one task. An item without a readable grade is counted as missing, never as wrong.

    graded: by kind (reward models, judges) the grades of each; the first one's headline metric is the task's headline.
    judges: those that judge this task; None: all that there are.
    """
    parsed = by_criterion(card.task, grades)
    scores = []
    for name, metric in card.metrics.items():
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
            for scoring in SCORINGS:
                if silent:
                    found: Found | None = nothing_of(metric, items)
                elif metric.parts:
                    found = joined(metric, scoring, items, {**parsed, **source})
                else:
                    found = graded_items(metric, kind, items, source.get((f"{kind}/{scoring}", metric.criterion), {}))
                if found is not None:
                    leader = leader or grader  # a judge without a rubric for this task has said nothing of it
                    shown = metric if grader == leader else metric.model_copy(update={"headline": False})
                    score = score_metric(card, name, shown, scoring, model, found, resamples, seed)
                    scores.append(score.model_copy(update={"grader": grader}))
    return scores


OPEN = Graded(None, None, None)  # a judge was asked, and what it said could not be read


class Found(NamedTuple):
    """What is known of a metric's items: of `counted` ones, `missing` could not be read in full."""

    known: list[tuple[Item, Graded]]
    missing: int
    counted: int


def nothing_of(metric: Metric, items: list[Item]) -> Found:
    """A metric of whose items nothing is known."""
    counted = len(counted_items(metric, items))
    return Found([], counted, counted)


def graded_items(metric: Metric, kind: str, items: list[Item], grades: dict[str, Grade]) -> Found | None:
    """The items with their grade. None where the grader said nothing of this task."""
    if not grades:
        return None
    gold = GOLD_FIELD.get(kind)
    counted = counted_items(metric, items)
    counted = [item for item in counted if item.id in grades] if metric.subset else counted
    known = [(item, seen(item, grades.get(item.id), gold)) for item in counted]
    found = [(item, one) for item, one in known if one is not None]
    if metric.value is not None:
        found = [(item, one._replace(correct=one.value == metric.value)) for item, one in found]
    return Found(found, len(counted) - len(found), len(counted))


def counted_items(metric: Metric, items: list[Item]) -> list[Item]:
    """The items that a metric is made of."""
    return [item for item in items if metric.only.items() <= item.tags.items()]


def unread(grade: Grade | None) -> bool:
    """Whether a grade is there and says nothing."""
    return grade is not None and grade.value is None and grade.correct is None


def seen(item: Item, grade: Grade | None, gold: str | None) -> Graded | None:
    """What a metric sees of one item's grade; None where there is none, or where it could not be read."""
    if grade is None or unread(grade):
        return None
    return Graded(grade.value, grade.correct, item.reference[gold] if gold else None)


def joined(metric: Metric, scoring: Scoring, items: list[Item], given: Given) -> Found | None:
    """The items with the parts of a metric. One whose parser could read nothing is left out; so is one without a part.

    What a judge said and could not be read leaves the item in, since a judge is not asked of every item: the metric
    knows what it has. Such an item counts as missing too.
    """
    sources = [(part.grader, given.get((f"{part.grader}/{scoring}", part.criterion), {})) for part in metric.parts]
    if not any(grades for _, grades in sources):
        return None
    counted = counted_items(metric, items)
    found, missing = [], 0
    for item in counted:
        grades = [(kind, grades.get(item.id)) for kind, grades in sources]
        missing += not any(grade for _, grade in grades) or any(unread(grade) for _, grade in grades)
        parts = tuple(part_of(item, kind, grade) for kind, grade in grades)
        by_parser = any(kind not in MODEL_GRADERS and unread(grade) for kind, grade in grades)
        if not by_parser and any(part not in (None, OPEN) for part in parts):
            found.append((item, Graded(None, None, None, parts)))
    return Found(found, missing, len(counted))


def part_of(item: Item, kind: str, grade: Grade | None) -> Graded | None:
    """One of the grades that a metric is made of; None where nobody was asked."""
    if kind in MODEL_GRADERS and unread(grade):
        return OPEN
    return seen(item, grade, GOLD_FIELD.get(kind))


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
    function: Function = METRICS[metric.function or name]
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
