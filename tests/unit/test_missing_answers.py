"""Tests of missing answers: a tutor that answers one item of a task well, and no other, gets a low score."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from maieutic.config.cards import CARDS, Card, read_card
from maieutic.config.datasets import Dataset
from maieutic.core.records import Item, Reply, Score, Turn
from maieutic.core.stats import BootstrapSettings
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import read_source
from maieutic.graders.registry import OBJECTIVE_GRADERS
from maieutic.replies.parsing import grades_of
from maieutic.scores.score import READABLE, all_metrics, index_grades, score_task

SILENT = "I will pass on this."  # contains no yes or no, which the released rules would find in any word


def card_of(name: str) -> Card:
    return read_card(CARDS / f"{name}.yaml").card.without_grader("reward").without_grader("judge")


def tasks_by_grader() -> dict[str, str]:
    """Return a task for each objective grader, with the first metric by this grader."""
    tasks: dict[str, str] = {}
    graders: set[str] = set()
    for path in sorted(CARDS.glob("*/*.yaml")):
        card = card_of(name := f"{path.parent.name}/{path.stem}")
        for metric in sorted(card.metrics, key=lambda metric: metric != card.headline):
            grader = card.metrics[metric].grader or card.graders[0]
            if grader in OBJECTIVE_GRADERS - graders:
                tasks.setdefault(name, metric)
                graders.add(grader)
    return tasks


TASKS = tasks_by_grader()


def items_of(card: Card) -> list[Item]:
    registry = yaml.safe_load(Path("resources/registries/datasets.yaml").read_text(encoding="utf-8"))["datasets"]
    dataset = Dataset.model_validate(registry[card.dataset])
    assert dataset.demo is not None
    records = read_source(Path("resources/demo") / dataset.demo.path, dataset.format_of("demo"))
    return LOADERS[card.loader].load(records, card.task)


def scores_of(card: Card, items: list[Item], silent: str, answered: int) -> dict[tuple[str, str], Score]:
    """Score a tutor that gives the reference replies to the first `answered` items, and `silent` to the others."""
    grades = []
    for number, item in enumerate(items):
        references = item.reference.get("replies") or [item.reference["text"]]
        texts = references if number < answered else [silent] * len(references)
        turns = [Turn(messages="", text=text) for text in texts]
        reply = Reply(id=item.id, task=item.task, tutor="m", key="k", turns=turns)
        grades += [grade for grader in card.graders for grade in grades_of(grader, item, reply)]
    return {
        (score.metric, score.scoring): score
        for score in score_task(card, "m", items, index_grades(grades), BootstrapSettings(100, 1))
    }


@pytest.mark.parametrize("name", TASKS)
def test_what_a_tutor_does_not_answer_is_wrong(name: str) -> None:
    card, headline = card_of(name), TASKS[name]
    graded = card.missing_grader is None
    assert card.headline == headline or not graded, "a card with a missing grader has no headline metric"
    items = items_of(card)
    grader = card.metrics[headline].grader or card.graders[0]
    # Some graders accept any words as an answer.
    silent = "" if scores_of(card, items[:1], SILENT, 0)[headline, "robust"].readable else SILENT
    whole = scores_of(card, items, silent, len(items))[headline, "robust"]
    answered = 2 if grader == "error_detection" else 1  # a wrong solution and its correct twin
    scores = scores_of(card, items, silent, answered)
    score, readable = scores[headline, "robust"], scores[f"{headline}{READABLE}", "robust"]
    assert (score.n, score.missing, score.unreadable) == (len(items), 0, len(items) - answered)
    assert score.readable == pytest.approx(answered / len(items))
    assert score.headline is graded and not readable.headline
    assert (readable.n, readable.missing, readable.unreadable) == (answered, len(items) - answered, 0)
    assert score.value <= whole.value / 2 < readable.value, "its answers are good, but few"
    unanswered = scores_of(card, items, silent, 0)[headline, "robust"]
    assert (unanswered.value, unanswered.readable) == (0.0, 0.0)


def test_every_objective_grader_is_tested_here() -> None:
    graders = {grader for name in TASKS for grader in card_of(name).graders}
    assert graders >= OBJECTIVE_GRADERS


def test_paper_compat_has_no_metric_over_readable_answers() -> None:
    card = card_of("mathtutorbench/solution_correctness")
    scores = scores_of(card, items_of(card), SILENT, 0)
    assert ("f1_readable", "paper_compat") not in scores
    assert scores["f1", "paper_compat"].value == pytest.approx(2 / 3), "the released default is Yes"
    assert scores["f1", "robust"].value == 0.0


def test_an_unreadable_reply_is_wrong_in_every_metric_of_its_card() -> None:
    card = card_of("mathtutorbench/solution_correctness")
    items = items_of(card)
    scores = scores_of(card, items, SILENT, 0)
    robust = {name: score for (name, scoring), score in scores.items() if scoring == "robust"}
    for name in ("f1", "accuracy", "precision", "recall"):
        assert robust[name].value == 0.0, name
        assert robust[f"{name}{READABLE}"].value is None
    assert set(all_metrics(card)) == set(robust)


def test_no_answer_to_a_wrong_solution_counts_in_the_mr_score() -> None:
    """The MR score combines several graders: an unreadable verdict counts as wrong, and its step as not found."""
    card = card_of("kmpbench/ec")
    scores = scores_of(card, items_of(card), SILENT, 0)
    assert scores["task1_mcc", "robust"].value == -1.0
    assert scores["task2_step", "robust"].value == 0.0
    assert scores["correctness", "robust"].value == 0.0
