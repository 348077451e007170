"""Estimates of how long a run's trainings take, from the GPU's peak and the papers' times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from maieutic.config.models import CriteriaModel, RewardModel
from maieutic.launch.lengths import NOTHING, AmountRange
from maieutic.launch.serving_time import GPUS, parameter_count
from maieutic.plan.plan import Plan

EXAMPLE_TOKENS = 1500  # of a conversation: KMP-Pile's have 9.3 exchanges with 40 words a turn, WildChat's more
TRAINING_SHARES = AmountRange(0.3, 0.4)  # of a GPU's peak, in full fine-tuning of models of 1B to 10B
# The papers' times on one GPU: training a reward model and classifiers, scoring one model's replies (MathTutorBench,
# sections 4.3 and B, appendix C.2). Newer GPUs take down to a tenth.
REWARD_HOURS, CLASSIFIER_HOURS, SCORING_HOURS = 1.0, 0.25, 1 / 6
TRAINING_RULES = ("tune_tutor", "train_reward_model", "train_criteria")


class TrainingTime(NamedTuple):
    """Hours of all GPUs of one training. stage: `tunings` or `graders`; scoring: hours of a grader's scoring."""

    stage: str
    name: str
    hours: AmountRange
    scoring: AmountRange


def training_times(plan: Plan, gpu: str) -> list[TrainingTime]:
    """Return the time of each tuning and grader of a run that uses GPUs. gpu: type of the GPUs."""
    times = []
    for name, tuning in plan.config.tunings.items():
        base, gpus = plan.models[tuning.base], (tuning.needs or plan.models[tuning.base].needs).gpus
        if gpus and tuning.steps and (size := parameter_count(tuning.base, base)) is not None:
            operations = 6e9 * size.active * tuning.steps * tuning.batch_size * min(EXAMPLE_TOKENS, tuning.max_length)
            shares = (TRAINING_SHARES.high, TRAINING_SHARES.low)
            hours = AmountRange(*(operations / (share * GPUS[gpu].operations) / 3600 for share in shares))
            times.append(TrainingTime("tunings", name, hours, NOTHING))
    for name in plan.used_models:
        entry = plan.models[name]
        if not isinstance(entry, RewardModel | CriteriaModel) or not entry.needs.gpus:
            continue
        is_trained = isinstance(entry, CriteriaModel) or bool(entry.train and entry.train.mix)
        longest = (CLASSIFIER_HOURS if isinstance(entry, CriteriaModel) else REWARD_HOURS) * is_trained
        tutors = len(plan.run.tutors) if isinstance(entry, RewardModel) and name in plan.run.reward_models else 0
        parts = [AmountRange(0.1 * hours, hours).times(entry.needs.gpus) for hours in (longest, SCORING_HOURS * tutors)]
        times.append(TrainingTime("graders", name, *parts))
    return times


def training_lines(plan: Plan, trained: Iterable[str], gpu_names: Iterable[str]) -> list[str]:
    """Return a line on how long each planned training will take.

    trained: names of the tunings and graders that planned jobs train; gpu_names: names of the GPUs that they will use.
    The time is unknown for GPUs of several or of unknown types.
    """
    names = {*gpu_names}
    types = [kind for kind in GPUS if len(names) == 1 and kind in min(names).casefold()]
    times = {time.name: time.hours for time in training_times(plan, types[0])} if len(types) == 1 else {}
    lines = []
    for name in trained:
        hours = times.get(name)
        if hours is None or not hours.high:
            lines.append(f"training {name}: its time is known after its first steps")
        else:
            lines.append(f"training {name}: about {hours.low:.2g} to {hours.high:.2g} GPU hours ({min(names)})")
    return lines
