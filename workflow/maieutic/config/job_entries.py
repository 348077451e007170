"""Registry entries as passed to jobs, without fields that cannot change results, so that their edits re-run nothing."""

from __future__ import annotations

from typing import TypeVar

from maieutic.config.models import Model, PreferenceTraining, RewardModel

E = TypeVar("E", bound=Model)
# `protocol` is among these fields because jobs receive a tutor's protocol in a separate field.
REPORT_FIELDS = {"label", "group", "paper", "notice", "price", "protocol", "size", "licence", "published_scores"}
PLAN_FIELDS = {"shards"}
BUDGET_FIELDS = {"most_tokens"}  # jobs receive them in `serving.budget.BUDGET_VARIABLE`
BATCH_FIELDS = {"batch", "batch_requests", "batch_mb"}  # jobs receive them in `serving.batches.BATCH_VARIABLE`
JUDGE_LIMIT_FIELDS = {"label_limit", "max_unreadable"}  # limits of a judge that do not change its requests
SCORING_FIELDS = {"token_budget", "dtype", "trained_on", "max_length", "overlong", "adapter"}


def without_fields(entry: E, fields: set[str]) -> E:
    """Return an entry with some of its fields reset to their defaults."""
    return type(entry).model_validate(entry.model_dump(exclude=fields, exclude_defaults=True))


def entry_for_asking(entry: E) -> E:
    """Return the entry of a tutor, judge or answering model with `needs` and the fields that can change an answer."""
    return without_fields(entry, REPORT_FIELDS | PLAN_FIELDS | JUDGE_LIMIT_FIELDS | BATCH_FIELDS | BUDGET_FIELDS)


def entry_for_training(entry: E) -> E:
    """Return a trained grader's entry without the fields that only scoring, the report or resource requests use."""
    return without_fields(entry, REPORT_FIELDS | SCORING_FIELDS | {"needs"})


def entry_for_scoring(entry: RewardModel) -> RewardModel:
    """Return a reward model's entry with the fields that scoring uses. `train` keeps only base and length limits."""
    train = entry.train and PreferenceTraining(
        base=entry.train.base, max_length=entry.train.max_length, overlong=entry.train.overlong
    )
    return without_fields(entry.model_copy(update={"train": train}), REPORT_FIELDS | {"needs", "trained_on"})
