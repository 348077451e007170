"""What jobs get of a registry entry: without what cannot change their results, which would only repeat them."""

from __future__ import annotations

from typing import TypeVar

from maieutic.config.models import Model, PreferenceTraining, RewardModel

E = TypeVar("E", bound=Model)
# A tutor's protocol reaches its jobs by a field of their own.
FOR_THE_REPORT = {"label", "group", "paper", "notice", "price", "protocol", "size", "licence"}
FOR_THE_PLAN = {"shards"}
LIMITS = {"label_limit", "max_unreadable"}  # of a judge: which replies it is asked about, not what
OF_SCORING = {"token_budget", "dtype", "trained_on", "max_length", "overlong", "adapter"}


def without(entry: E, fields: set[str]) -> E:
    """An entry with the defaults of some of its fields."""
    return type(entry).model_validate(entry.model_dump(exclude=fields, exclude_defaults=True))


def for_asking(entry: E) -> E:
    """Of a tutor, a judge or the model that answers for one: what can change an answer, and its needs."""
    return without(entry, FOR_THE_REPORT | FOR_THE_PLAN | LIMITS)


def for_training(entry: E) -> E:
    """Of a grader that is trained: nothing of what scoring or the machine needs."""
    return without(entry, FOR_THE_REPORT | OF_SCORING | {"needs"})


def for_scoring(entry: RewardModel) -> RewardModel:
    """Of a reward model that scores: of its training no more than how long a conversation may be."""
    train = entry.train and PreferenceTraining(
        base=entry.train.base, max_length=entry.train.max_length, overlong=entry.train.overlong
    )
    return without(entry.model_copy(update={"train": train}), FOR_THE_REPORT | {"needs", "trained_on"})
