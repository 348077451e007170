"""Tests of intervals that are valid at every look: coverage of stopped runs, savings, an oracle, missing answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import ville
from maieutic.config.cards import Metric
from maieutic.core.errors import UserError
from maieutic.core.records import Item
from maieutic.launch.rounds import FIRST_LIMIT, GROWTH, width_of
from maieutic.scores.anytime import MeanBounds, betting_interval, bounds_of, stop_lines
from maieutic.scores.metrics import GradedItem
from maieutic.scores.score import Measurement, MetricEvidence

WIDTH = 0.06
# Share of right answers and number of items of published replies by Qwen3-4B
POPULATIONS = {"high": (0.982, 1150), "small": (0.872, 327), "middle": (0.406, 1150)}


def rounds(population: int) -> list[int]:
    """Return the numbers of items after each round."""
    limits, limit = [], FIRST_LIMIT
    while limit < population:
        limits.append(limit)
        limit = math.ceil(limit * GROWTH)
    return [*limits, population]


@pytest.mark.slow
@pytest.mark.parametrize("name", POPULATIONS)
def test_a_stopped_run_covers_the_value_over_all_items(name: str) -> None:
    share, population = POPULATIONS[name]
    right = round(share * population)
    answers = np.repeat([1.0, 0.0], [right, population - right])
    draw, limits, covered, runs = np.random.default_rng(11), [], 0, 60
    for _ in range(runs):
        order = draw.permutation(answers)
        for limit in rounds(population):
            low, high = betting_interval(order[:limit], population)
            if high - low <= WIDTH:
                break
        covered += low <= right / population <= high
        limits.append(limit)
    assert covered >= 0.95 * runs
    if name == "high":
        assert max(limits) <= population / 2, "at least half of the requests are saved"
    if name == "middle":
        assert set(limits) == {population}, "no sample is enough for this width"


def test_a_sample_of_all_items_has_no_width() -> None:
    assert betting_interval([1.0, 0.0, 0.0, 1.0], 4) == (0.5, 0.5)


@pytest.mark.parametrize("share", [0.02, 0.4, 0.97])
def test_in_a_large_population_it_is_the_interval_of_another_implementation(share: float) -> None:
    numbers = (np.random.default_rng(5).random(400) < share).astype(float)
    sequence = ville.BettingCS(grid=2001, intersect=False).fit(numbers)
    assert betting_interval(numbers, 10**12) == pytest.approx(sequence.interval(), abs=1e-9)


def test_numbers_between_0_and_1_are_means_too() -> None:
    numbers = np.random.default_rng(3).beta(8, 2, 500)
    low, high = betting_interval(numbers[:300], 500)
    assert low < numbers.mean() < high and high - low < 0.06


def test_a_missing_answer_can_have_any_value() -> None:
    """If one of an item's two answers is right and the other is missing, the item's value is 0.5 to 1."""
    items = [Item(id=str(number), task="t", cluster=str(number), vars={}, reference={}) for number in range(60)]
    metric = Metric(headline=True, function="accuracy")
    right = GradedItem(True, True, None)

    def interval(answers: int) -> tuple[float, float]:
        known = [(item, right) for item in items for _ in range(answers)]
        evidence = MetricEvidence(known, 0, len(items))
        measured = Measurement("accuracy", metric, "robust", None, evidence)
        ends = bounds_of(measured, [item.id for item in items], 60, repeats=2)
        assert ends is not None
        return ends

    assert interval(2) == (1.0, 1.0)
    assert interval(1) == (0.5, 1.0)
    assert interval(0) == (0.0, 1.0)


@pytest.mark.parametrize("words", ["0.06", "width=6", "width=0", "width=1.0", "width=", "n=50", "width=0.0"])
def test_other_stops_are_refused(words: str) -> None:
    with pytest.raises(UserError, match=r"--stop-at: expected width=NUMBER.*Fix: pass it as in --stop-at width=0\.06"):
        width_of(words)


def test_the_last_lines_say_what_was_saved_and_what_did_not_decide() -> None:
    row = MeanBounds(
        benchmark="b", task="t", tutor="a", metric="accuracy", by=None, value=0.9, low=0.88, high=0.93, n=380,
        population=1150, requests_left=770, limit=380,
    )  # fmt: skip
    other = row.model_copy(update={"task": "u", "metric": "f1", "low": None, "high": None, "n": 380})
    lines = stop_lines([row, other], WIDTH)
    assert lines[0] == "760 of 2,300 items were asked, which saves 1,540 requests to tutors"
    assert "the widest interval is 0.050 wide" in lines[1] and "95 %" in lines[1]
    assert lines[2] == "no means of numbers from 0 to 1, so they do not decide: b/u (f1)"
    everything = row.model_copy(update={"n": 1150, "requests_left": 0})
    wide = row.model_copy(update={"low": 0.6})
    assert stop_lines([wide], WIDTH)[1] == "this round is not the last one: intervals are still wider than 0.06"
    assert stop_lines([everything], WIDTH) == ["all 1,150 items were asked, so that no request was saved"]
