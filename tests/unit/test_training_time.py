"""Tests of the time of trainings that a run prints before they start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from maieutic.config.models import RewardModel, WeightsOnly
from maieutic.launch.training_time import training_lines, training_times

BASE = WeightsOnly.model_validate({"engine": "weights", "weights": {"repo": "org/base-8B", "revision": "0" * 40}})
JUDGED = RewardModel.model_validate(
    {"engine": "reward", "train": {"base": "base", "mix": {"mrbench": 1.0}}, "needs": {"gpus": 2}}
)
TUNING = SimpleNamespace(base="base", needs=SimpleNamespace(gpus=1), steps=100, batch_size=8, max_length=1000)
PLAN: Any = SimpleNamespace(
    config=SimpleNamespace(tunings={"mine": TUNING}),
    models={"base": BASE, "rm": JUDGED},
    used_models=["base", "rm"],
    run=SimpleNamespace(tutors=["a", "b"], reward_models=["rm"]),
)


def test_the_time_of_a_tuning_follows_from_the_gpus_peak() -> None:
    tuning, grader = training_times(PLAN, "h100")
    operations = 6 * 8e9 * 100 * 8 * 1000
    assert tuning.hours.low == pytest.approx(operations / (0.4 * 989e12) / 3600)
    assert tuning.hours.high == pytest.approx(operations / (0.3 * 989e12) / 3600)
    assert grader.hours == (0.2, 2.0), "an hour on each of two GPUs, or a tenth"
    assert grader.scoring.high == pytest.approx(2 * 2 / 6), "two tutors, ten minutes each, on two GPUs"


@pytest.mark.parametrize(
    ("gpus", "line"),
    [
        (["NVIDIA H100 80GB HBM3"], "training mine: about 0.027 to 0.036 GPU hours (NVIDIA H100 80GB HBM3)"),
        (["NVIDIA H100", "NVIDIA A100"], "training mine: its time is known after its first steps"),
        (["Unknown GPU"], "training mine: its time is known after its first steps"),
        ([], "training mine: its time is known after its first steps"),
    ],
)
def test_a_run_prints_the_time_of_a_training_before_it_starts(gpus: list[str], line: str) -> None:
    assert training_lines(PLAN, ["mine"], gpus) == [line]
