"""Jobs of the rules for the validation of graders. The function named like a rule returns the rule's job."""

from __future__ import annotations

from typing import Any

from maieutic.config.job_entries import entry_for_asking
from maieutic.plan.inputs import tasks_of
from maieutic.plan.plan import Plan, training_pair_sources
from maieutic.validation.inputs import verdict_files
from maieutic.validation.model_card import WriteModelCard
from maieutic.validation.probes import ValidateProbes
from maieutic.validation.rewards import ValidateCriteria, ValidateRewardModel
from maieutic.validation.validation_jobs import (
    CheckJudges,
    CorrectByPeople,
    SaveLabels,
    ScoreLabels,
    ValidateCriteriaOnLabels,
    ValidateJudge,
    ValidateRewardOnLabels,
)
from maieutic.validation.word_lists import JudgeByWords


def write_model_card(plan: Plan, reward_model: str) -> WriteModelCard:
    return WriteModelCard(reward_model=reward_model, **plan.bootstrap_settings)


def validate_reward_model(plan: Plan, reward_model: str) -> ValidateRewardModel:
    return ValidateRewardModel(reward_model=reward_model, source=plan.leading_pairs, **plan.bootstrap_settings)


def validate_reward_on_pairs(plan: Plan, reward_model: str, source: str) -> ValidateRewardModel:
    return validate_reward_model(plan, reward_model).model_copy(update={"source": source})


def validate_criteria_on_pairs(plan: Plan, classifier: str, source: str) -> ValidateCriteria:
    return validate_criteria(plan, classifier).model_copy(update={"source": source})


def validate_criteria(plan: Plan, classifier: str) -> ValidateCriteria:
    return ValidateCriteria(classifier=classifier, source=plan.leading_pairs, **plan.bootstrap_settings)


def validate_reward_on_labels(plan: Plan, reward_model: str) -> ValidateRewardOnLabels:
    release = plan.reward_release
    seen = plan.label_sets[release].seen_by in training_pair_sources(plan.models[reward_model])
    return ValidateRewardOnLabels(reward_model=reward_model, release=release, seen=seen, **plan.bootstrap_settings)


def validate_criteria_on_labels(plan: Plan, classifier: str) -> ValidateCriteriaOnLabels:
    [release] = plan.validating_releases(classifier)
    return ValidateCriteriaOnLabels(classifier=classifier, release=release, **plan.bootstrap_settings)


def judge_by_words(plan: Plan, judge: str, benchmark: str, batch: str) -> JudgeByWords:
    entry = plan.judge_entry(judge).model_copy(update={"rubrics": plan.reply_rubrics(judge, benchmark)})
    tasks = tasks_of(plan.judge_cards(benchmark, judge))
    return JudgeByWords(judge=judge, entry=entry_for_asking(entry), benchmark=benchmark, tasks=tasks)


def judge_labelled_by_words(plan: Plan, judge: str) -> JudgeByWords:
    rubrics = plan.label_rubrics(judge) or plan.judge_entry(judge).rubrics
    return JudgeByWords(
        judge=judge, entry=entry_for_asking(plan.judge_entry(judge).model_copy(update={"rubrics": rubrics}))
    )


def validate_judge(plan: Plan, judge: str) -> ValidateJudge:
    judges = list(plan.judge_entry(judge).judges)
    return ValidateJudge(judge=judge, sources=plan.preferences, judges=judges, **plan.bootstrap_settings)


def validate_probes(plan: Plan, judge: str) -> ValidateProbes:
    return ValidateProbes(judge=judge, family=plan.judge_entry(judge).family, **plan.bootstrap_settings)


def people_label_fields(plan: Plan) -> dict[str, Any]:
    """Return the fields of a job that reads people's labels."""
    return {"scales": plan.people_scales, "own": plan.tasks_with_own_criteria, **plan.bootstrap_settings}


def save_labels(plan: Plan) -> SaveLabels:
    return SaveLabels(**people_label_fields(plan))


def correct_by_people(plan: Plan, judge: str) -> CorrectByPeople:
    return CorrectByPeople(judge=judge, tasks=plan.tasks_by_rubric(judge), **people_label_fields(plan))


def check_judges(plan: Plan) -> CheckJudges:
    by_judge = verdict_files(plan)
    return CheckJudges(
        judges=[name for name, files in by_judge.items() for _ in files],
        limits={name: plan.unreadable_limit(name) for name in by_judge},
    )


def score_labels(plan: Plan, release: str) -> ScoreLabels:
    return ScoreLabels(release=release, encoders=plan.run.encoders, **plan.bootstrap_settings)
