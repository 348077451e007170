"""Jobs of the rules for reward models and classifiers. The function named like a rule returns the rule's job."""

from __future__ import annotations

from maieutic.config.job_entries import entry_for_scoring, entry_for_training
from maieutic.config.models import CriteriaModel
from maieutic.plan.inputs import tasks_of
from maieutic.plan.plan import Plan
from maieutic.rewards.criteria import ClassifyPairs, TrainCriteria
from maieutic.rewards.embeddings import EmbedReplies
from maieutic.rewards.grading import GradeByRewards
from maieutic.rewards.inputs import reward_entry
from maieutic.rewards.leading import ChooseRewardModel
from maieutic.rewards.overlap import FindOverlap
from maieutic.rewards.published_scores import CheckScorer
from maieutic.rewards.scoring import ScorePairs, ScoreRewards
from maieutic.rewards.training import TrainRewardModel


def find_overlap(plan: Plan, source: str, benchmark: str) -> FindOverlap:
    return FindOverlap(tasks=tasks_of(plan.reward_cards(benchmark)))


def train_reward_model(plan: Plan, reward_model: str) -> TrainRewardModel:
    return TrainRewardModel(reward_model=reward_model, entry=entry_for_training(reward_entry(plan, reward_model)))


def train_criteria(plan: Plan, classifier: str) -> TrainCriteria:
    entry = plan.models[classifier]
    assert isinstance(entry, CriteriaModel)
    return TrainCriteria(
        classifier=classifier,
        entry=entry_for_training(entry),
        form=plan.datasets[plan.label_datasets(plan.classifier_release)[0]].format,
    )


def embed_replies(plan: Plan, encoder: str, release: str) -> EmbedReplies:
    return EmbedReplies(encoder=encoder)


def score_pairs(plan: Plan, reward_model: str) -> ScorePairs:
    return ScorePairs(reward_model=reward_model, entry=entry_for_scoring(reward_entry(plan, reward_model)))


def check_scorer(plan: Plan, reward_model: str) -> CheckScorer:
    return CheckScorer(reward_model=reward_model, entry=entry_for_scoring(reward_entry(plan, reward_model)))


def choose_reward_model(plan: Plan) -> ChooseRewardModel:
    return ChooseRewardModel(reward_models=plan.run.reward_models, source=plan.leading_pairs, **plan.bootstrap_settings)


def score_preferences(plan: Plan, reward_model: str, source: str) -> ScorePairs:
    return score_pairs(plan, reward_model)


def classify_pairs(plan: Plan, classifier: str, source: str) -> ClassifyPairs:
    entry = plan.models[classifier]
    assert isinstance(entry, CriteriaModel)
    return ClassifyPairs(classifier=classifier, criteria=list(entry.train.criteria), max_length=entry.train.max_length)


def score_rewards(plan: Plan, reward_model: str, benchmark: str, batch: str) -> ScoreRewards:
    return ScoreRewards(
        reward_model=reward_model,
        entry=entry_for_scoring(reward_entry(plan, reward_model)),
        tasks=tasks_of(plan.reward_cards(benchmark)),
    )


def grade_by_rewards(plan: Plan, reward_model: str, benchmark: str, tutor: str) -> GradeByRewards:
    return GradeByRewards(
        reward_model=reward_model,
        tutor=tutor,
        ceiling=plan.human_reference(benchmark),
        tasks=tasks_of(plan.reward_cards(benchmark)),
    )
