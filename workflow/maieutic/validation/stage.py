"""Part of the plan that covers the validation of graders."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from maieutic.config.cards import JUDGE
from maieutic.config.models import WeightsOnly
from maieutic.config.registry import check_entry, unknown_name
from maieutic.config.rubrics import annotation_scales, read_rubric
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all
from maieutic.core.records import Scale
from maieutic.judges.stage import all_verdicts, used_by_judge_labelled, used_by_judge_replies
from maieutic.people.labels import read_label_lines
from maieutic.plan.inputs import entry_for_asking, label_files, rubric_files, tasks_of
from maieutic.plan.plan import Plan, training_pair_sources
from maieutic.plan.slice_plan import Checks, Replacements, SlicePlan, unused_by_rubrics, unused_tables
from maieutic.validation.leading_judge import ChooseJudge
from maieutic.validation.probes import ValidateProbes
from maieutic.validation.rewards import ValidateCriteria, ValidateRewardModel, WriteModelCard
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


def classifier_validation_labels(plan: Plan, classifier: str) -> list[str]:
    """Return the files of the labelled releases that validate a classifier."""
    return label_files(plan.validating_releases(classifier))


def closeness_files(plan: Plan, release: str) -> list[str]:
    """Return the files with the similarity of each reply of a release to its dialogue, one for each encoder."""
    return [paths.CLOSENESS.of(encoder=name, release=release) for name in plan.run.encoders]


def word_list_rubrics(plan: Plan, judge: str) -> list[str]:
    """Return the files of the rubrics by which a word-list judge judges labelled replies."""
    return rubric_files(plan.label_rubrics(judge))


def verdict_files(plan: Plan) -> dict[str, list[str]]:
    """Return the answer files for which a run limits the share of missing answers, by judge or tagger."""
    files = {name: [paths.LABELLED_VERDICTS.of(judge=name), *all_verdicts(plan, name)] for name in plan.run.judges}
    for part in plan.slices:
        for name, more in part.verdict_files(plan).items():  # a tagger may also be a judge
            files[name] = [*files.get(name, []), *more]
    return files


def every_verdict(plan: Plan) -> list[str]:
    """Return all answer files for which a run limits the share of missing answers."""
    return [file for files in verdict_files(plan).values() for file in files]


def people_labels(plan: Plan) -> list[str]:
    """Return the file of people's labels of this run's replies; empty if the configuration names no such file."""
    return [plan.run.human_labels] if plan.run.human_labels else []


def write_model_card_job(plan: Plan, reward_model: str) -> WriteModelCard:
    return WriteModelCard(reward_model=reward_model, **plan.bootstrap_settings)


def validate_reward_model_job(plan: Plan, reward_model: str) -> ValidateRewardModel:
    return ValidateRewardModel(reward_model=reward_model, source=plan.leading_pairs, **plan.bootstrap_settings)


def validate_reward_on_pairs_job(plan: Plan, reward_model: str, source: str) -> ValidateRewardModel:
    return validate_reward_model_job(plan, reward_model).model_copy(update={"source": source})


def validate_criteria_on_pairs_job(plan: Plan, classifier: str, source: str) -> ValidateCriteria:
    return validate_criteria_job(plan, classifier).model_copy(update={"source": source})


def validate_criteria_job(plan: Plan, classifier: str) -> ValidateCriteria:
    return ValidateCriteria(classifier=classifier, source=plan.leading_pairs, **plan.bootstrap_settings)


def validate_reward_on_labels_job(plan: Plan, reward_model: str) -> ValidateRewardOnLabels:
    release = plan.reward_release
    seen = plan.label_sets[release].seen_by in training_pair_sources(plan.models[reward_model])
    return ValidateRewardOnLabels(reward_model=reward_model, release=release, seen=seen, **plan.bootstrap_settings)


def validate_criteria_on_labels_job(plan: Plan, classifier: str) -> ValidateCriteriaOnLabels:
    [release] = plan.validating_releases(classifier)
    return ValidateCriteriaOnLabels(classifier=classifier, release=release, **plan.bootstrap_settings)


def judge_by_words_job(plan: Plan, judge: str, benchmark: str, batch: str) -> JudgeByWords:
    entry = plan.judge_entry(judge).model_copy(update={"rubrics": plan.reply_rubrics(judge, benchmark)})
    tasks = tasks_of(plan.judge_cards(benchmark, judge))
    return JudgeByWords(judge=judge, entry=entry_for_asking(entry), benchmark=benchmark, tasks=tasks)


def judge_labelled_by_words_job(plan: Plan, judge: str) -> JudgeByWords:
    rubrics = plan.label_rubrics(judge) or plan.judge_entry(judge).rubrics
    return JudgeByWords(
        judge=judge, entry=entry_for_asking(plan.judge_entry(judge).model_copy(update={"rubrics": rubrics}))
    )


def validate_judge_job(plan: Plan, judge: str) -> ValidateJudge:
    judges = list(plan.judge_entry(judge).judges)
    return ValidateJudge(judge=judge, sources=plan.preferences, judges=judges, **plan.bootstrap_settings)


def validate_probes_job(plan: Plan, judge: str) -> ValidateProbes:
    return ValidateProbes(judge=judge, family=plan.judge_entry(judge).family, **plan.bootstrap_settings)


def people_label_fields(plan: Plan) -> dict[str, Any]:
    """Return the fields of a job that reads people's labels."""
    return {"scales": plan.people_scales, "own": plan.tasks_with_own_criteria, **plan.bootstrap_settings}


def save_labels_job(plan: Plan) -> SaveLabels:
    return SaveLabels(**people_label_fields(plan))


def correct_by_people_job(plan: Plan, judge: str) -> CorrectByPeople:
    return CorrectByPeople(judge=judge, tasks=plan.tasks_by_rubric(judge), **people_label_fields(plan))


def candidate_verdicts(plan: Plan) -> list[str]:
    """Return the files of all judges' verdicts on this run's replies, in the order of the judges."""
    return [file for judge in plan.judges_of_replies for file in all_verdicts(plan, judge)]


def choose_judge_job(plan: Plan) -> ChooseJudge:
    judges = [judge for judge in plan.judges_of_replies for _ in all_verdicts(plan, judge)]
    return ChooseJudge(judges=judges, **people_label_fields(plan))


def check_judges_job(plan: Plan) -> CheckJudges:
    by_judge = verdict_files(plan)
    return CheckJudges(
        judges=[name for name, files in by_judge.items() for _ in files],
        limits={name: plan.unreadable_limit(name) for name in by_judge},
    )


def score_labels_job(plan: Plan, release: str) -> ScoreLabels:
    return ScoreLabels(release=release, encoders=plan.run.encoders, **plan.bootstrap_settings)


def check_people_labels(plan: Plan) -> None:
    """Check the human labels of this run's replies.

    This check runs only when a run starts, because the report can be built without the file of labels.
    """
    if plan.run.human_labels is None:
        if plan.run.leading_judge == "best":
            problem = "the best judge is the one that agrees most with people, but run.human_labels names no labels"
            fix = "set run.human_labels (docs/people.md), or leading_judge: first"
            raise UserError("run.leading_judge", problem, fix)
        return
    if not plan.run.judges:
        raise UserError(
            "run.human_labels",
            "human labels correct a judge's scores, but run.judges is empty",
            "add a judge to run.judges, or remove this key",
        )
    if not any(JUDGE in loaded.card.graders for loaded in plan.cards.values()):
        raise UserError(
            "run.human_labels",
            "no selected task is graded by a judge",
            "add mrbench to run.tasks, or remove this key",
        )
    check_all(partial(check_shared_scales, plan, task) for task in plan.people_rubrics)
    lines = read_label_lines(
        Path(plan.run.human_labels), plan.people_scales, plan.tasks_with_own_criteria, plan.config.limits
    )
    strange = {label.tutor: place for place, label in lines if label.tutor not in plan.tutors}
    if strange:
        faults = [unknown_name(place, tutor, plan.tutors, "the tutors of this run") for tutor, place in strange.items()]
        raise UserError.of(faults)


def check_shared_scales(plan: Plan, task: str) -> None:
    """Raise UserError if two rubrics of a task define different labels for one criterion."""
    scales: dict[str, tuple[str, Scale]] = {}
    for name in plan.people_rubrics[task]:
        for criterion, scale in annotation_scales(read_rubric(name).rubric).items():
            other, known = scales.setdefault(criterion, (name, scale))
            if known.labels != scale.labels:
                problem = f"{name} and {other} define different labels for the criterion {criterion} of the task {task}"
                raise UserError("run.judges", problem, "rename the criterion in one rubric, or remove its judge")


def check_encoders(plan: Plan) -> None:
    """Raise UserError if an encoder is unknown, is not a weights-only entry, or is listed twice."""
    for number, name in enumerate(plan.run.encoders):
        key = f"run.encoders[{number}]"
        check_entry(plan.models, key, name, (WeightsOnly,), "a weights-only entry")
        if name in plan.run.encoders[:number]:
            raise UserError(key, f"{name!r} is listed twice", "list it once")


def check_word_lists(plan: Plan, name: str) -> None:
    """Raise UserError if a word-list judge has a rubric that contains no criterion with a word list."""
    from maieutic.validation.grader_baselines import HEURISTICS

    for rubric in plan.judge_entry(name).rubrics:
        card = read_rubric(rubric).rubric
        if card.rules.paired or not set(card.criteria) & set(HEURISTICS):
            problem = f"no criterion of {rubric} has a word list"
            fix = f"use a rubric with at least one of these criteria: {', '.join(HEURISTICS)}"
            raise UserError(f"models.{name}.rubrics", problem, fix)


def used_by_validation(plan: Plan, judge: str = "", classifier: str = "") -> Replacements:
    """Return replacements that leave out the word lists for criteria that the labelled sets of a grader do not have."""
    return unused_by_rubrics((), criteria_of_labels(plan, plan.validating_releases(judge or classifier)))


def used_by_score_labels(plan: Plan, release: str) -> Replacements:
    """Return replacements that leave out the measures of criteria that a labelled set does not have."""
    return unused_tables("toolkit", "MEASURES", criteria_of_labels(plan, [release]))


def criteria_of_labels(plan: Plan, releases: Iterable[str]) -> set[str]:
    """Return the criteria of labelled sets."""
    return {criterion for release in releases for criterion in plan.label_source(release).scales}


STAGE = SlicePlan(
    module=__name__,
    checks=Checks(
        entries=lambda plan: [partial(check_word_lists, plan, name) for name in plan.word_list_judges],
        data=lambda plan: [partial(check_encoders, plan)],
        start=lambda plan: [partial(check_people_labels, plan)],
    ),
    used_code={
        "judge_by_words": used_by_judge_replies,
        "judge_labelled_by_words": used_by_judge_labelled,
        "validate_judge": used_by_validation,
        "validate_criteria_on_labels": used_by_validation,
        "score_labels": used_by_score_labels,
    },
)
