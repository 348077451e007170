"""Input files of rules that depend on the run's selection. A rule names a function of this module in `plan.select`.

Each function takes the plan and the wildcards that it needs. All other inputs of rules are literal paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from maieutic.config import cards, rubrics
from maieutic.config.cards import LoadedCard
from maieutic.config.models import Model, PreferenceTraining, RewardModel
from maieutic.core import paths
from maieutic.plan.plan import Plan

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


# files by their names -------------------------------------------------------------------------------------------------


def card_files(loaded_cards: Iterable[LoadedCard]) -> list[str]:
    """Return the card, prompt and few-shot files of some tasks."""
    return [str(file) for loaded in loaded_cards for file in loaded.files]


def card_yaml_files(loaded_cards: Iterable[LoadedCard]) -> list[str]:
    """Return the card files of some tasks without prompts, for steps that only read replies."""
    return [str(file) for loaded in loaded_cards for file in loaded.files if file.suffix == ".yaml"]


def rubric_files(names: Iterable[str]) -> list[str]:
    """Return the files of rubric cards and their prompts."""
    return sorted({str(file) for name in names for file in rubrics.files_of_rubric(name)})


def item_files(benchmark: str, tasks: Iterable[str]) -> list[str]:
    """Return the item files of tasks of a benchmark."""
    return [paths.ITEMS.of(benchmark=benchmark, task=task) for task in tasks]


def tasks_of(cards_here: Iterable[cards.Card]) -> list[str]:
    """Return the names of the cards' tasks."""
    return [card.task for card in cards_here]


def label_files(releases: Iterable[str]) -> list[str]:
    """Return the files of labelled releases."""
    patterns = (paths.LABELLED_ITEMS, paths.LABELLED_REPLIES, paths.LABELS, paths.LABEL_ABOUT)
    return [pattern.of(release=release) for release in releases for pattern in patterns]


def source_files(datasets: Iterable[str]) -> list[str]:
    """Return the source files of datasets."""
    return [paths.SOURCE.of(dataset=dataset) for dataset in datasets]


def pair_files(sources: Iterable[str]) -> list[str]:
    """Return the files of sets of preference pairs."""
    return [paths.PAIRS.of(source=source) for source in sources]


# data -----------------------------------------------------------------------------------------------------------------


def benchmark_items(plan: Plan, benchmark: str) -> list[str]:
    """Return the item files of all selected tasks of a benchmark."""
    return item_files(benchmark, tasks_of(loaded.card for loaded in plan.benchmarks[benchmark]))


def benchmark_cards(plan: Plan, benchmark: str) -> list[str]:
    """Return the card files of all selected tasks of a benchmark, without prompt files."""
    return card_yaml_files(plan.benchmarks[benchmark])


def leading_pairs(plan: Plan) -> str:
    """Return the file of the pairs on which traffic lights and the comparison with the papers' tables are based."""
    return paths.PAIRS.of(source=plan.leading_pairs)


# tutors ---------------------------------------------------------------------------------------------------------------


def tutor_items(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the item files of a benchmark's tasks that a tutor answers."""
    return item_files(benchmark, plan.tasks_for(benchmark, tutor))


def tutor_cards(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the card files of a benchmark's tasks that a tutor answers, without prompt files."""
    return card_yaml_files(plan.cards_for(benchmark, tutor))
