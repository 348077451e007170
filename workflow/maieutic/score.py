"""From grades to scores: one number for each metric and scoring, with its interval and counts."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from maieutic.cards import Card, Metric
from maieutic.files import whole_file
from maieutic.graders import GOLD_FIELD
from maieutic.metrics import METRICS, Graded
from maieutic.metrics import Metric as Function
from maieutic.records import SCORINGS, Grade, Item, Score, Scoring, read_records
from maieutic.stats import Interval, clustered_interval


def score_task(
    card: Card, model: str, items: list[Item], grades: list[Grade], resamples: int, seed: int
) -> list[Score]:
    """Every score of one model on one task. An item without a readable grade is counted as missing, never as wrong."""
    given: dict[tuple[str, str | None], dict[str, Grade]] = defaultdict(dict)
    for grade in grades:
        if grade.task == card.task:
            given[grade.grader, grade.criterion][grade.id] = grade
    scores = []
    for name, metric in card.metrics.items():
        for scoring in SCORINGS:
            if mine := given.get((f"{metric.grader or card.graders[0]}/{scoring}", metric.criterion)):
                scores.append(score_metric(card, name, metric, scoring, model, items, mine, resamples, seed))
    return scores


def score_metric(
    card: Card,
    name: str,
    metric: Metric,
    scoring: Scoring,
    model: str,
    items: list[Item],
    grades: dict[str, Grade],
    resamples: int,
    seed: int,
) -> Score:
    """One number. Its value comes from scikit-learn or the mean, its interval from whole problems drawn again."""
    function: Function = METRICS[metric.function or name]
    gold = GOLD_FIELD.get(metric.grader or card.graders[0])
    graded, clusters = [], []
    for item in items:
        grade = grades.get(item.id)
        if grade is None or (grade.value is None and grade.correct is None):
            continue
        graded.append(Graded(grade.value, grade.correct, item.reference[gold] if gold else None))
        clusters.append(item.cluster)
    value, interval = None, Interval(None, None)
    if graded:
        value = function.value(graded)
        interval = clustered_interval(function.counts(graded), function.of_sums, clusters, resamples, seed)
    return Score(
        task=card.task,
        model=model,
        metric=name,
        scoring=scoring,
        headline=metric.headline,
        value=value,
        low=interval.low,
        high=interval.high,
        n=len(graded),
        missing=len(items) - len(graded),
        clusters=len(set(clusters)),
    )


def score_replies(
    cards: list[Card], model: str, items_dir: Path, grades: Path, out: Path, resamples: int, seed: int
) -> None:
    """Write every score of one model on one benchmark, as a JSON list."""
    graded = read_records(grades, Grade)
    scores = []
    for card in cards:
        items = read_records(items_dir / f"{card.task}.jsonl", Item)
        scores += score_task(card, model, items, graded, resamples, seed)
    with whole_file(out) as handle:
        handle.write("[\n" + ",\n".join(score.model_dump_json() for score in scores) + "\n]\n")
