"""Input files of the rules for reward models and classifiers that depend on the run's tasks and models."""

from __future__ import annotations

from pathlib import Path

from maieutic.config.models import CriteriaModel, RewardModel
from maieutic.core import paths
from maieutic.plan.inputs import item_files, label_files, pair_files, tasks_of
from maieutic.plan.plan import BASELINE_BATCH, Plan, training_pair_sources


def rewarded_items(plan: Plan, benchmark: str) -> list[str]:
    """Return the item files of a benchmark's tasks that reward models score."""
    return item_files(benchmark, tasks_of(plan.reward_cards(benchmark)))


def training_pairs(plan: Plan, reward_model: str) -> list[str]:
    """Return the files of the pairs on which a reward model is trained, one for each source in its registry entry."""
    return pair_files(training_pair_sources(plan.models[reward_model]))


def training_pair_counts(plan: Plan, reward_model: str) -> list[str]:
    """Return the files with the numbers of pairs on which a reward model is trained, one for each source."""
    sources = training_pair_sources(plan.models[reward_model])
    return [paths.PAIR_COUNTS.of(source=source) for source in sources]


def training_overlaps(plan: Plan, reward_model: str, benchmark: str) -> list[str]:
    """Return the files that list which human replies of a benchmark are in a reward model's training pairs."""
    sources = training_pair_sources(plan.models[reward_model])
    return [paths.OVERLAP.of(source=source, benchmark=benchmark) for source in sources]


def trained_from(plan: Plan, grader: str) -> str:
    """Return the weights manifest of the base model from which a grader is trained."""
    entry = plan.models[grader]
    assert isinstance(entry, RewardModel | CriteriaModel) and entry.train is not None
    return paths.WEIGHTS.of(model=entry.train.base)


def reward_model_base(plan: Plan, reward_model: str) -> str:
    """Return the weights manifest of a reward model's base model."""
    return trained_from(plan, reward_model)


def classifier_base(plan: Plan, classifier: str) -> str:
    """Return the weights manifest of a classifier's base model."""
    return trained_from(plan, classifier)


def pair_rewards(plan: Plan) -> list[str]:
    """Return the files with the scores of the leading pairs, one for each reward model of the run."""
    return [paths.PAIR_REWARDS.of(reward_model=name) for name in plan.run.reward_models]


def reward_model_weights(plan: Plan, reward_model: str) -> str:
    """Return the weights manifest of a reward model, whether this run trains it or it is published."""
    if reward_model in plan.trained_reward_models:
        return paths.TRAINED_WEIGHTS.of(reward_model=reward_model)
    return paths.WEIGHTS.of(model=reward_model)


def reward_model_prompt(plan: Plan, reward_model: str) -> list[str]:
    """Return the text file of a reward model's instruction; empty for a model without one."""
    entry = reward_entry(plan, reward_model)
    return [] if entry.prompt == "none" else [str(paths.RESOURCES / f"rewards/{entry.prompt}.txt")]


def published_scores_file(plan: Plan, reward_model: str) -> list[str]:
    """Return the file with the published scores of a reward model; empty for a model without such scores."""
    entry = reward_entry(plan, reward_model)
    return [str(published_scores_of(entry))] if entry.published_scores else []


def reward_entry(plan: Plan, reward_model: str) -> RewardModel:
    """Return the registry entry of a reward model."""
    entry = plan.models[reward_model]
    assert isinstance(entry, RewardModel)
    return entry


def published_scores_of(entry: RewardModel) -> Path:
    """Return the file with the published scores of a reward model's entry."""
    return paths.RESOURCES / f"rewards/published_scores/{entry.published_scores}.yaml"


def reward_labels(plan: Plan) -> list[str]:
    """Return the files of the labelled release on which reward models are validated."""
    return label_files([plan.reward_release])


def batch_of_replies(plan: Plan, benchmark: str, batch: str) -> list[str]:
    """Return the files with the replies that reward models score for a batch of tutors."""
    return [paths.REPLIES.of(benchmark=benchmark, tutor=tutor) for tutor in plan.reward_batches(benchmark)[batch]]


def tutor_rewards(plan: Plan, reward_model: str, benchmark: str, tutor: str) -> list[str]:
    """Return the reward files of the tutor's batch and of the baselines' batch, which contains the human replies."""
    own_batch = next(name for name, tutors in plan.reward_batches(benchmark).items() if tutor in tutors)
    return [
        paths.REWARDS.of(reward_model=reward_model, benchmark=benchmark, batch=batch)
        for batch in sorted({own_batch, BASELINE_BATCH})
    ]


def classifier_labels(plan: Plan) -> str:
    """Return the source file of the labels on which classifiers are trained."""
    return paths.SOURCE.of(dataset=plan.label_datasets(plan.classifier_release)[0])
