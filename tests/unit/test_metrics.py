"""Tests of metrics against scikit-learn and the values printed in papers, and of intervals against theory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from maieutic.config.cards import CARDS, read_card
from maieutic.core.records import Item, Reply, Score, Turn
from maieutic.core.stats import BootstrapSettings
from maieutic.replies.baselines import TUTORS
from maieutic.replies.parsing import grades_of
from maieutic.scores.metrics import (
    COMMON,
    RELEASED,
    GradedItem,
    macro_f1,
    macro_f1_of_occurring,
    mean_of_part_means,
    no_reason_read,
    part_mean,
    weighted_f1,
)
from maieutic.scores.registry import METRICS
from maieutic.scores.score import index_grades, score_task
from sklearn import metrics as sklearn
from task_items import items_of_card

RNG = np.random.default_rng(7)


def random_items(classes: int, n: int = 300) -> list[GradedItem]:
    """Return items with random labels, most of them right."""
    gold = RNG.integers(0, classes, n)
    predicted = np.where(RNG.random(n) < 0.6, gold, RNG.integers(0, classes + 1, n))
    return [GradedItem(int(a), bool(a == b), int(b)) for a, b in zip(predicted, gold, strict=True)]


BINARY = {"f1", "precision", "recall", "mcc"}


def labels(items: list[GradedItem]) -> tuple[list, list]:
    return [item.gold for item in items], [item.value for item in items]


def averaged(average: str) -> Callable[[list[GradedItem]], float]:
    return lambda items: sklearn.f1_score(*labels(items), average=average, zero_division=0)


# Values by scikit-learn. A metric without an oracle has its own cases in other tests.
ORACLES: dict[str, Callable[[list[GradedItem]], float]] = {
    "accuracy": lambda items: sklearn.accuracy_score([True] * len(items), [item.correct for item in items]),
    "f1": lambda items: sklearn.f1_score(*labels(items), zero_division=0),
    "precision": lambda items: sklearn.precision_score(*labels(items), zero_division=0),
    "recall": lambda items: sklearn.recall_score(*labels(items), zero_division=0),
    "micro_f1": averaged("micro"),
    "macro_f1": lambda items: sklearn.f1_score(*labels(items), labels=sorted({item.gold for item in items}), average="macro", zero_division=0),
    "weighted_f1": averaged("weighted"),
    "match": lambda items: sklearn.accuracy_score([True] * len(items), [item.correct for item in items]),
    "mean": lambda items: float(np.mean([item.value for item in items])),
    "mean_share": lambda items: float(np.mean([item.value for item in items])),
    "mean_rating": lambda items: float(np.mean([item.value for item in items])),
    "bleu": lambda items: float(np.mean([item.value for item in items])),
    "mcc": lambda items: sklearn.matthews_corrcoef(*labels(items)),
}  # fmt: skip

OF_PARTS = {"reason_accuracy", "mr_score", "kmp_overall", "kmp_principles"}  # see test_kmpbench.py


@pytest.mark.parametrize("name", [name for name in METRICS if name not in OF_PARTS])
@pytest.mark.filterwarnings("ignore:A single label was found")  # a warning of scikit-learn
@pytest.mark.parametrize("kind", ["random", "always one label", "single item"])
def test_sums_give_scikit_learns_value(name: str, kind: str) -> None:
    """The value from sums, which the bootstrap resamples, equals the reported value."""
    items = random_items(2 if name in BINARY else 5)
    if name in BINARY:
        items = [GradedItem(bool(item.value), item.correct, bool(item.gold)) for item in items]
    if kind == "always one label":
        items = [GradedItem(type(item.value)(1), item.gold == 1, item.gold) for item in items]
    if kind == "single item":
        items = items[:1]
    metric = METRICS[name]
    assert metric.from_sums(metric.counts(items).sum(0)) == pytest.approx(metric.value(items), nan_ok=True)
    if name in ORACLES:
        assert metric.value(items) == pytest.approx(ORACLES[name](items), abs=1e-12)


def test_every_metric_of_labels_is_compared_with_scikit_learn() -> None:
    """The released code's macro F1, which averages over every label that occurs, is compared as well."""
    assert {*COMMON} - OF_PARTS - {*ORACLES} == {"detection_f1"}, "computed from two accuracies: test_kmpbench.py"
    items = random_items(5)
    assert RELEASED["macro_f1"].value(items) == pytest.approx(averaged("macro")(items), abs=1e-12)
    assert RELEASED["macro_f1"].value(items) != pytest.approx(METRICS["macro_f1"].value(items))


def test_numbers_of_twenty_digits_are_labels_as_others() -> None:
    """scikit-learn itself rejects integers of this size."""
    items = [GradedItem(10**20, False, 3), GradedItem(3, True, 3), GradedItem(-1, False, 10**20)]
    places = {-1: 0, 3: 1, 10**20: 2}
    coded = [GradedItem(places[item.value], item.correct, places[item.gold]) for item in items]
    for name in ("micro_f1", "macro_f1", "weighted_f1"):
        assert METRICS[name].value(items) == pytest.approx(ORACLES[name](coded))


def test_f1_averages_the_classes_that_occur_in_each_resample() -> None:
    """Columns of two classes: hits, predictions, true members. A resample may lack a class or only predict it."""
    sums = np.array([[1.0, 0.0, 1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0, 1.0, 3.0]])
    assert macro_f1_of_occurring(sums).tolist() == [1.0, 0.5, 0.5]
    assert macro_f1(sums).tolist() == [1.0, 1.0, 0.5]
    assert weighted_f1(sums).tolist() == [1.0, 1.0, 0.25]
    assert [float(f1(sums[2])) for f1 in (macro_f1_of_occurring, macro_f1, weighted_f1)] == [0.5, 0.5, 0.25]


def test_means_of_parts_use_their_own_columns() -> None:
    """Each part has two columns, its sum and how often it applied, in one sample and in a stack of resamples."""
    sums = np.array([[6.0, 2.0, 4.0, 4.0, 0.0, 0.0], [3.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    assert [part_mean(sums[0], part) for part in range(3)] == [3.0, 1.0, 0.0]
    assert part_mean(sums, 1).tolist() == [1.0, 0.0]
    assert mean_of_part_means(sums).tolist() == [2.0, 3.0], "a part that applies to nothing is left out"
    assert mean_of_part_means(sums[0]) == 2.0


@pytest.mark.parametrize(
    ("sums", "is_open"), [((5, 0, 0, 0), False), ((5, 3, 0, 0), True), ((5, 3, 2, 0), False), ((5, 3, 2, 2), False)]
)
def test_a_value_is_open_if_no_reason_could_be_read(sums: tuple[int, ...], is_open: bool) -> None:
    """Reasons that were read and are all wrong score 0, which is a value."""
    assert no_reason_read(np.array(sums, dtype=float)) is is_open


def scores_of(task: str, tutor: str, data: Path) -> dict[tuple[str, str], Score]:
    """Return a trivial tutor's scores on the real data by metric and scoring."""
    card = read_card(CARDS / "mathtutorbench" / f"{task}.yaml").card
    items = items_of_card(card, data, "published")
    grades = [
        grade
        for item in items
        for grader in card.graders
        for grade in grades_of(grader, item, reply(item, QUESTION_TUTORS.get(tutor) or TUTORS[tutor]))
    ]
    scores = score_task(card, tutor, items, index_grades(grades), BootstrapSettings(100, 1))
    return {(score.metric, score.scoring): score for score in scores}


def reply(item: Item, tutor: object) -> Reply:
    return Reply(id=item.id, task=item.task, tutor="m", key="k", turns=[Turn(messages="", text=tutor(item))])


QUESTION_TUTORS = {
    "last question": lambda item: item.reference["questions"][-1],
    "joined questions": lambda item: " ".join(item.reference["questions"]),
}

# Scores of trivial tutors on the full data under the released rules. The echo's value is between 0.5245 and 0.5256,
# depending on how sentences are split (after an abbreviation, inside $2.50); the other values do not depend on it.
FLOORS = [
    ("solution_correctness", "always-yes", "f1", 0.667), ("mistake_location", "always-0", "micro_f1", 0.50),
    ("socratic_questioning", "echo", "bleu", 0.525), ("socratic_questioning", "last question", "bleu", 1.00),
    ("socratic_questioning", "joined questions", "bleu", 0.58), ("problem_solving", "reference", "accuracy", 1.00),
    ("mistake_correction", "reference", "accuracy", 1.00), ("mistake_location", "reference", "micro_f1", 1.00),
    ("solution_correctness", "reference", "f1", 1.00), ("socratic_questioning", "reference", "bleu", 1.00),
]  # fmt: skip


def marked(case: tuple[str, str, str, float]) -> Any:
    """Return a case with its id; BLEU on a thousand items takes seconds, so such cases are marked as slow."""
    task, tutor, *_ = case
    return pytest.param(*case, id=f"{task}-{tutor}", marks=[pytest.mark.slow] if task == "socratic_questioning" else [])


@pytest.mark.parametrize(("task", "tutor", "metric", "expected"), [marked(floor) for floor in FLOORS])
def test_trivial_tutors_on_the_real_data(task: str, tutor: str, metric: str, expected: float, data: Path) -> None:
    score = scores_of(task, tutor, data)[metric, "paper_compat"]
    assert score.value == pytest.approx(expected, abs=0.005)
    assert (score.missing, score.n) == (0, read_card(CARDS / "mathtutorbench" / f"{task}.yaml").card.items)
    assert score.low <= score.value <= score.high


def test_the_robust_socratic_score_cannot_be_gamed_by_one_question(data: Path) -> None:
    scores = scores_of("socratic_questioning", "last question", data)
    assert scores["bleu", "robust"].value < 0.6 < scores["bleu", "paper_compat"].value


def test_a_refused_reply_is_missing_and_an_unreadable_one_wrong() -> None:
    card = read_card(CARDS / "mathtutorbench" / "problem_solving.yaml").card
    items = [Item(id=str(i), task=card.task, cluster=str(i), vars={}, reference={"answer": "5"}) for i in range(4)]
    replies = [reply(items[0], lambda _: "5"), reply(items[1], lambda _: "6"), reply(items[2], lambda _: "none")]
    replies.append(Reply(id="3", task=card.task, tutor="m", key="k", turns=[], error="400: too long"))
    grades = [grade for item, answer in zip(items, replies, strict=True) for grade in grades_of("answer", item, answer)]
    scores = {
        (score.metric, score.scoring): (score.value, score.n, score.missing, score.unreadable, score.readable)
        for score in score_task(card, "m", items, index_grades(grades), BootstrapSettings(100, 1))
    }
    assert scores == {
        ("accuracy", "paper_compat"): (pytest.approx(1 / 3), 3, 1, 1, 0.5),
        ("accuracy", "robust"): (pytest.approx(1 / 3), 3, 1, 1, 0.5),
        ("accuracy_readable", "robust"): (0.5, 2, 2, 0, 0.5),
    }
