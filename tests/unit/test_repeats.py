"""Tests of several answers to one item: copies of items, request keys, flip rates and intervals."""

from __future__ import annotations

import numpy as np
import pytest
from maieutic.config.cards import card_path, read_card
from maieutic.config.models import HostedModel
from maieutic.core.errors import UserError
from maieutic.core.journal import REPEAT
from maieutic.core.records import Grade, Item, without_copies
from maieutic.core.stats import BootstrapSettings
from maieutic.replies.generate import RequestLimits, tutor_request
from maieutic.run_plan import plan_of
from maieutic.scores import stage as scores_stage
from maieutic.scores.score import FLIP_RATE, WITHIN_DEVIATION, index_grades, score_task
from running import NO_GRADERS
from shipped import shipped

CARD = read_card(card_path("mathtutorbench", "problem_solving"))
SAMPLING = BootstrapSettings(200, 1)


def items_with_copies(number: int, repeats: int) -> list[Item]:
    """Return items with their copies, each item in a cluster of its own."""
    items = [
        Item(id=f"i{place}", task="problem_solving", cluster=f"c{place}", vars={}, reference={})
        for place in range(number)
    ]
    return [item.copy_number(repeat) for item in items for repeat in range(repeats)]


def scores_of(items: list[Item], right: dict[str, bool | None]) -> dict[str, tuple[float | None, ...]]:
    """Return value, ends of the interval, n and clusters of each metric. right: whether each answer is right."""
    grades = [
        Grade(id=item.id, task=item.task, kind="answer", scoring="robust", value=1.0, correct=right[item.id], raw="")
        for item in items
        if right.get(item.id) is not None
    ]
    scores = score_task(CARD.card, "t", items, index_grades(grades), SAMPLING)
    return {score.metric: (score.value, score.low, score.high, score.n, score.clusters) for score in scores}


def test_a_copy_names_its_item_and_the_item_itself_is_unchanged() -> None:
    item = items_with_copies(1, 1)[0].model_copy(update={"id": "a~2"})
    copies = [item.copy_number(repeat) for repeat in range(3)]
    assert [copy.id for copy in copies] == ["a~2", "a~2~2", "a~2~3"] and {copy.base for copy in copies} == {"a~2"}
    assert copies[0] == item and {copy.cluster for copy in copies} == {item.cluster}


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_first_request_is_that_of_a_run_without_repeats(temperature: float) -> None:
    card = CARD.model_copy(update={"card": CARD.card.model_copy(update={"temperature": temperature})})
    model = HostedModel(engine="hosted", base_url="https://x.org/v1", model="m", repeats=3)
    requests = [tutor_request(card, [], model, RequestLimits(None, 7), repeat) for repeat in range(3)]
    assert requests[0] == tutor_request(card, [], model.model_copy(update={"repeats": 1}), RequestLimits(None, 7))
    assert REPEAT not in requests[0] and [request[REPEAT] for request in requests[1:]] == [1, 2]
    assert [request["seed"] for request in requests[1:]] == [8, 9], "at any temperature"


def test_flip_rate_and_deviation_within_items() -> None:
    items = items_with_copies(4, 2)
    right = {item.id: item.repeat == 0 or item.base in ("i0", "i1") for item in items}  # i2 and i3 flip
    scores = scores_of(items, right)
    assert scores[FLIP_RATE][0] == 0.5 and scores[FLIP_RATE][3:] == (4, 4)
    assert scores[WITHIN_DEVIATION][0] == pytest.approx(0.5)  # variances 0, 0, 0.5, 0.5
    assert scores["accuracy"][0] == 0.75 and scores["accuracy"][3:] == (8, 4)


def test_equal_answers_change_neither_value_nor_interval() -> None:
    once, thrice = items_with_copies(30, 1), items_with_copies(30, 3)
    right = {item.id: int(item.base[1:]) % 3 > 0 for item in thrice}
    first, second = scores_of(once, right), scores_of(thrice, right)
    assert FLIP_RATE not in first and second[FLIP_RATE][0] == 0
    assert first["accuracy"][:3] == pytest.approx(second["accuracy"][:3])


def test_an_item_with_one_usable_answer_has_no_flip() -> None:
    items = items_with_copies(2, 2)
    scores = scores_of(items, {"i0": True, "i0~2": False, "i1": True, "i1~2": None})
    assert scores[FLIP_RATE][0] == 1 and scores[FLIP_RATE][3] == 1


@pytest.mark.slow
def test_the_interval_covers_the_expected_accuracy_over_items_and_answers() -> None:
    """Items differ in difficulty, and answers to one item vary: simulated, 30 items with three answers each."""
    draw = np.random.default_rng(5)
    items = items_with_copies(30, 3)
    covered = 0
    for _ in range(400):
        chances = dict(zip([item.base for item in items if not item.repeat], draw.beta(2, 1, 30), strict=True))
        right = {item.id: bool(draw.random() < chances[item.base]) for item in items}
        _, low, high, *_ = scores_of(items, right)["accuracy"]
        covered += low <= 2 / 3 <= high
    assert covered / 400 > 0.93


def test_copies_are_told_from_ids_that_look_like_copies() -> None:
    ids = ["a", "a~2", "b~2", "c~2", "c~2~3"]
    grades = [Grade(id=name, task="t", kind="answer", scoring="robust", value=1, correct=None, raw="") for name in ids]
    assert [grade.id for grade in without_copies(grades)] == ["a", "b~2", "c~2"]


def test_a_tutor_is_scored_on_its_own_number_of_answers() -> None:
    raw = shipped()
    raw["models"]["far"] = {"engine": "hosted", "base_url": "https://x.org/v1", "model": "m", "repeats": 3}
    raw["run"] |= {"tutors": ["far", "echo"], "tasks": ["mathtutorbench/problem_solving"], **NO_GRADERS}
    plan = plan_of(raw)
    assert (plan.repeats, plan.repeats_of("far"), plan.repeats_of("echo")) == (3, 3, 1)
    assert scores_stage.score_replies_job(plan, "mathtutorbench", "far").repeats == 3
    assert scores_stage.score_replies_job(plan, "mathtutorbench", "echo").repeats == 1
    assert scores_stage.compare_tutors_job(plan, "mathtutorbench").repeats == {"far": 3}
    raw["models"]["far"]["shards"] = 2
    with pytest.raises(UserError, match=r"models.far.shards: the run has repeats"):
        plan_of(raw)
