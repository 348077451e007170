"""Jobs of rules. The function named like a rule returns the job for the rule's command, from the rule's wildcards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maieutic.config.cards import JUDGE, REWARD, Card
from maieutic.config.job_entries import entry_for_asking, entry_for_scoring, entry_for_training
from maieutic.config.models import (
    BaselineModel,
    CriteriaModel,
    HostedModel,
    RecordedModel,
    RewardModel,
    VllmModel,
    WeightsOnly,
)
from maieutic.datasets.fetch import FetchDataset
from maieutic.datasets.items import MakeItems
from maieutic.datasets.pictures import FetchPictures
from maieutic.graders.parsing import ParseReplies
from maieutic.judges.commands import JudgeAllReplies, JudgeLabelled, JudgeReplies
from maieutic.judges.grading import GradeVerdicts
from maieutic.judges.judging import STOP_ABOVE
from maieutic.judges.labelled_sets import MakeLabels
from maieutic.judges.panels import CombineVerdicts
from maieutic.launch import provenance
from maieutic.launch.saving import SaveConfig
from maieutic.plan.inputs import all_grades, sampled_tasks, tasks_of, verdict_files
from maieutic.plan.plan import Plan, training_pair_sources
from maieutic.replies.generate import GenerateReplies, Shard
from maieutic.replies.packed import GenerateAllReplies
from maieutic.replies.recorded import ReadReplies, WriteQuestions
from maieutic.rewards.criteria import ClassifyPairs, TrainCriteria
from maieutic.rewards.embeddings import EmbedReplies
from maieutic.rewards.grading import GradeByRewards
from maieutic.rewards.overlap import FindOverlap
from maieutic.rewards.pairs import MakePairs
from maieutic.rewards.scoring import ScorePairs, ScoreRewards
from maieutic.rewards.training import TrainRewardModel
from maieutic.scores.differences import CompareTutors
from maieutic.scores.score import ScoreReplies
from maieutic.serving.weights import PrepareWeights
from maieutic.validation.model_card import WriteModelCard
from maieutic.validation.probes import ValidateProbes
from maieutic.validation.rewards import ValidateCriteria, ValidateRewardModel
from maieutic.validation.validation_jobs import (
    CheckJudges,
    CorrectByPeople,
    ScoreLabels,
    ValidateCriteriaOnLabels,
    ValidateJudge,
    ValidateRewardOnLabels,
)
from maieutic.validation.word_lists import JudgeByWords


def bootstrap_settings(plan: Plan) -> dict[str, int]:
    """Return the bootstrap settings for confidence intervals, as fields of a job."""
    return {"resamples": plan.config.report.resamples, "seed": plan.run.seed}


# data -----------------------------------------------------------------------------------------------------------------


def edition_fields(plan: Plan, dataset: str) -> dict[str, Any]:
    """Return the fields of a job that fetches a dataset: its registry entry, the edition and the data folder."""
    config = plan.config
    folder = Path(config.data_dir) if config.data_dir else None
    return {
        "name": dataset,
        "dataset": config.datasets[dataset],
        "edition": config.edition,
        "data_dir": folder,
        "limits": config.limits,
    }


def fetch_dataset(plan: Plan, dataset: str) -> FetchDataset:
    return FetchDataset(**edition_fields(plan, dataset))


def fetch_pictures(plan: Plan, dataset: str) -> FetchPictures:
    return FetchPictures(**edition_fields(plan, dataset))


def prepare_weights(plan: Plan, model: str) -> PrepareWeights:
    entry = plan.models[model]
    assert isinstance(entry, VllmModel | WeightsOnly | RewardModel) and entry.weights is not None
    adapted = isinstance(entry, RewardModel) and entry.adapter is not None
    return PrepareWeights(model=model, weights=entry.weights, with_code=entry.trust_remote_code or adapted)


def make_items(plan: Plan, benchmark: str, task: str) -> MakeItems:
    config = plan.config
    form = config.datasets[plan.card(benchmark, task).dataset].format_of(config.edition)
    return MakeItems(benchmark=benchmark, task=task, form=form, limit=config.run.limit, seed=config.run.seed)


def make_labels(plan: Plan, release: str) -> MakeLabels:
    config = plan.config
    entry = plan.label_sets[release]
    forms = [config.datasets[dataset].format_of(config.edition) for dataset in plan.label_datasets(release)]
    suffixes = [Path(entry.file).suffix[1:]] if entry.file else []
    return MakeLabels(release=release, loader=entry.loader, forms=suffixes or forms, rubric=entry.rubric)


def make_pairs(plan: Plan, source: str) -> MakePairs:
    config = plan.config
    entry = config.preferences.get(source)
    forms = [config.datasets[dataset].format_of(config.edition) for dataset in plan.pair_datasets(source)]
    suffixes = [Path(entry.file).suffix[1:]] if entry and entry.file else []
    return MakePairs(source=source, forms=suffixes or forms, published=config.edition == "published", entry=entry)


def find_overlap(plan: Plan, source: str, benchmark: str) -> FindOverlap:
    return FindOverlap(tasks=tasks_of(plan.reward_cards(benchmark)))


# tutors ---------------------------------------------------------------------------------------------------------------


def generate_replies(plan: Plan, benchmark: str, tutor: str) -> GenerateReplies:
    entry, run = plan.models[tutor], plan.run
    assert isinstance(entry, VllmModel | HostedModel | BaselineModel)
    return GenerateReplies(
        tutor=tutor,
        entry=entry_for_asking(entry),
        benchmark=benchmark,
        tasks=plan.tasks_for(benchmark, tutor),
        protocol=plan.protocol_of(tutor),
        max_tokens=run.max_tokens,
        seed=run.seed,
    )


def generate_shard(plan: Plan, benchmark: str, tutor: str, shard: str) -> GenerateReplies:
    number, total = map(int, shard.split("-of-"))
    return generate_replies(plan, benchmark, tutor).model_copy(update={"shard": Shard(number, total)})


def generate_all_replies(plan: Plan, tutor: str) -> GenerateAllReplies:
    return GenerateAllReplies(tutor=tutor, parts=[generate_replies(plan, name, tutor) for name in plan.benchmarks])


def read_replies(plan: Plan, benchmark: str, tutor: str) -> ReadReplies:
    entry = plan.models[tutor]
    assert isinstance(entry, RecordedModel)
    return ReadReplies(
        form=entry.form,
        speaker=entry.speaker,
        tutor=tutor,
        benchmark=benchmark,
        tasks=plan.tasks_for(benchmark, tutor),
        protocol=plan.protocol_of(tutor),
        forms={
            f"{name}/{task}": plan.datasets[plan.card(name, task).dataset].format_of(plan.edition)
            for name, task in sampled_tasks(plan, tutor)
        },
    )


def write_questions(plan: Plan, benchmark: str, task: str) -> WriteQuestions:
    return WriteQuestions(benchmark=benchmark, task=task, protocol=plan.run.protocol)


def parse_replies(plan: Plan, benchmark: str, tutor: str) -> ParseReplies:
    return ParseReplies(tutor=tutor, benchmark=benchmark, tasks=plan.tasks_for(benchmark, tutor))


# reward models and classifiers ----------------------------------------------------------------------------------------


def reward_entry(plan: Plan, reward_model: str) -> RewardModel:
    """Return the registry entry of a reward model."""
    entry = plan.models[reward_model]
    assert isinstance(entry, RewardModel)
    return entry


def train_reward_model(plan: Plan, reward_model: str) -> TrainRewardModel:
    return TrainRewardModel(reward_model=reward_model, entry=entry_for_training(reward_entry(plan, reward_model)))


def write_model_card(plan: Plan, reward_model: str) -> WriteModelCard:
    return WriteModelCard(reward_model=reward_model, **bootstrap_settings(plan))


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


def validate_reward_model(plan: Plan, reward_model: str) -> ValidateRewardModel:
    return ValidateRewardModel(reward_model=reward_model, source=plan.leading_pairs, **bootstrap_settings(plan))


def validate_reward_on_pairs(plan: Plan, reward_model: str, source: str) -> ValidateRewardModel:
    return validate_reward_model(plan, reward_model).model_copy(update={"source": source})


def validate_criteria_on_pairs(plan: Plan, classifier: str, source: str) -> ValidateCriteria:
    return validate_criteria(plan, classifier).model_copy(update={"source": source})


def validate_criteria(plan: Plan, classifier: str) -> ValidateCriteria:
    return ValidateCriteria(classifier=classifier, source=plan.leading_pairs, **bootstrap_settings(plan))


def validate_reward_on_labels(plan: Plan, reward_model: str) -> ValidateRewardOnLabels:
    release = plan.reward_release
    seen = plan.label_sets[release].seen_by in training_pair_sources(plan.models[reward_model])
    return ValidateRewardOnLabels(reward_model=reward_model, release=release, seen=seen, **bootstrap_settings(plan))


def validate_criteria_on_labels(plan: Plan, classifier: str) -> ValidateCriteriaOnLabels:
    [release] = plan.validating_releases(classifier)
    return ValidateCriteriaOnLabels(classifier=classifier, release=release, **bootstrap_settings(plan))


# judges ---------------------------------------------------------------------------------------------------------------


def judge_job_fields(plan: Plan, judge: str, **rubrics: list[str]) -> dict[str, Any]:
    """Return the fields of a job that sends requests to a judge.

    rubrics: values that replace the entry's lists of rubrics. They leave out the rubrics that the job does not use, so
    that editing those re-runs nothing.
    """
    return {
        "judge": judge,
        "entry": entry_for_asking(plan.judge_entry(judge).model_copy(update=rubrics)),
        "answering": entry_for_asking(plan.models[plan.answering_entry(judge)]),
        "seed": plan.run.seed,
        "stop_above": max(STOP_ABOVE, plan.unreadable_limit(judge)),
    }


def judge_replies(plan: Plan, judge: str, benchmark: str, batch: str) -> JudgeReplies:
    fields = judge_job_fields(plan, judge, rubrics=plan.reply_rubrics(judge, benchmark), pairs=[], tags=[], family=[])
    return JudgeReplies(**fields, benchmark=benchmark, tasks=tasks_of(plan.judge_cards(benchmark, judge)))


def judge_all_replies(plan: Plan, judge: str, batch: str) -> JudgeAllReplies:
    judged = plan.benchmarks_of_batch(judge, batch)
    names = plan.judged_benchmarks()
    return JudgeAllReplies(
        judge=judge,
        parts=[judge_replies(plan, judge, name, batch) if name in judged else None for name in names],
        tutors=[len(plan.judge_batches(name)[batch]) if name in judged else 0 for name in names],
    )


def judge_labelled(plan: Plan, judge: str) -> JudgeLabelled:
    rubrics = plan.label_rubrics(judge) or plan.judge_entry(judge).rubrics
    return JudgeLabelled(
        **judge_job_fields(plan, judge, rubrics=rubrics, tags=[], family=[]),
        limit=plan.label_limit(judge),
        probes=plan.run.probes,
        probed=plan.validating_releases(judge) if plan.run.probes else [],
    )


def judge_by_words(plan: Plan, judge: str, benchmark: str, batch: str) -> JudgeByWords:
    entry = plan.judge_entry(judge).model_copy(update={"rubrics": plan.reply_rubrics(judge, benchmark)})
    tasks = tasks_of(plan.judge_cards(benchmark, judge))
    return JudgeByWords(judge=judge, entry=entry_for_asking(entry), benchmark=benchmark, tasks=tasks)


def judge_labelled_by_words(plan: Plan, judge: str) -> JudgeByWords:
    rubrics = plan.label_rubrics(judge) or plan.judge_entry(judge).rubrics
    return JudgeByWords(
        judge=judge, entry=entry_for_asking(plan.judge_entry(judge).model_copy(update={"rubrics": rubrics}))
    )


def combine_verdicts(plan: Plan, judge: str, benchmark: str, batch: str) -> CombineVerdicts:
    entry, rubrics = plan.judge_entry(judge), plan.reply_rubrics(judge, benchmark)
    return CombineVerdicts(panel=judge, judges=entry.judges, vote=entry.vote, rubrics=rubrics)


def combine_labelled(plan: Plan, judge: str) -> CombineVerdicts:
    entry = plan.judge_entry(judge)
    return CombineVerdicts(
        panel=judge,
        judges=entry.judges,
        vote=entry.vote,
        rubrics=[*plan.label_rubrics(judge), *entry.pairs],
        seed=plan.run.seed,
        sources=plan.preferences if entry.pairs else [],
    )


def grade_verdicts(plan: Plan, judge: str, benchmark: str, tutor: str) -> GradeVerdicts:
    """Return the job that grades a tutor's replies by a judge's verdicts.

    `negative_weights` is set only if a task has weighted criteria.
    """
    answered = plan.tasks_for(benchmark, tutor)
    weighted = [task for task in plan.weighted_tasks(judge, benchmark) if task in answered]
    reading = plan.run.negative_weights if weighted else None
    return GradeVerdicts(judge=judge, tutor=tutor, weighted=weighted, negative_weights=reading)


def validate_judge(plan: Plan, judge: str) -> ValidateJudge:
    judges = list(plan.judge_entry(judge).judges)
    return ValidateJudge(judge=judge, sources=plan.preferences, judges=judges, **bootstrap_settings(plan))


def validate_probes(plan: Plan, judge: str) -> ValidateProbes:
    return ValidateProbes(judge=judge, family=plan.judge_entry(judge).family, **bootstrap_settings(plan))


def people_label_fields(plan: Plan) -> dict[str, Any]:
    """Return the fields of a job that reads people's labels."""
    return {"scales": plan.people_scales, "own": plan.tasks_with_own_criteria, **bootstrap_settings(plan)}


def correct_by_people(plan: Plan, judge: str) -> CorrectByPeople:
    return CorrectByPeople(judge=judge, tasks=plan.tasks_by_rubric(judge), **people_label_fields(plan))


def check_judges(plan: Plan) -> CheckJudges:
    by_judge = verdict_files(plan)
    return CheckJudges(
        judges=[name for name, files in by_judge.items() for _ in files],
        limits={name: plan.unreadable_limit(name) for name in by_judge},
    )


# scores ---------------------------------------------------------------------------------------------------------------


def absent_grader_kinds(plan: Plan, benchmark: str) -> list[str]:
    """Return the kinds of model graders that a benchmark's cards name but the run lacks.

    If a kind is absent, the tables lead with the substitute metrics that the cards define.
    """
    here = [path for path, loaded in plan.cards.items() if loaded.card.benchmark == benchmark]
    shipped = {kind for path in here for kind in plan.shipped_card(path, plan.run.protocol).card.graders}
    by_kind = {REWARD: plan.run.reward_models, JUDGE: benchmark in plan.judged_benchmarks()}
    return [kind for kind, graders in by_kind.items() if kind in shipped and not graders]


def scoring_fields(plan: Plan, benchmark: str, judged: list[Card]) -> dict[str, Any]:
    """Return the fields that all scoring jobs of a benchmark share. judged: cards whose replies judges grade."""
    return {
        "benchmark": benchmark,
        "judging": {card.task: plan.judges_of_card(card) for card in judged},
        "absent": absent_grader_kinds(plan, benchmark),
        "unjudged": plan.tasks_without_rubric.get(benchmark, []),
        **bootstrap_settings(plan),
    }


def score_replies(plan: Plan, benchmark: str, tutor: str) -> ScoreReplies:
    """Return the job that scores a tutor's replies, without judges if no judge judges these replies.

    A tutor that is not judged has no headline score on tasks that judges grade.
    """
    judged = plan.judge_cards(benchmark) if plan.judges_of(benchmark, tutor) else []
    return ScoreReplies(tutor=tutor, tasks=plan.tasks_for(benchmark, tutor), **scoring_fields(plan, benchmark, judged))


def compare_tutors(plan: Plan, benchmark: str) -> CompareTutors:
    """Return the job that compares tutors on a benchmark, by each grader that at least one of them has.

    The job's `tutors` repeats the name of a tutor for each of its grade files.
    """
    return CompareTutors(
        tutors=[name for name in plan.compared_tutors(benchmark) for _ in all_grades(plan, benchmark, name)],
        tasks=[loaded.card.task for loaded in plan.benchmarks[benchmark]],
        **scoring_fields(plan, benchmark, plan.judge_cards(benchmark)),
    )


def score_labels(plan: Plan, release: str) -> ScoreLabels:
    return ScoreLabels(release=release, encoders=plan.run.encoders, **bootstrap_settings(plan))


# the report -----------------------------------------------------------------------------------------------------------


def save_config(plan: Plan) -> SaveConfig:
    """Return the job that saves the effective configuration, reduced to the registry entries that this run uses."""
    config = plan.config.model_copy(
        update={
            "models": {name: plan.models[name] for name in plan.used_models},
            "datasets": {name: plan.datasets[name] for name in plan.used_datasets},
        }
    )
    made_of = provenance.provenance_of_plan(plan.for_config(config), provenance.code_state())
    return SaveConfig(config=config.model_dump(), provenance=made_of.model_dump())
