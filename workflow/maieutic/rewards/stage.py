"""Part of the plan that covers reward models and classifiers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from maieutic.config.models import CriteriaModel, Model, RewardModel, VllmModel, WeightsOnly
from maieutic.config.registry import check_entry, unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all
from maieutic.core.paths import RESOURCES
from maieutic.datasets.pairs import PAIR_SOURCES
from maieutic.plan.inputs import entry_for_scoring, entry_for_training, item_files, label_files, pair_files, tasks_of
from maieutic.plan.plan import BASELINE_BATCH, Plan, training_pair_sources
from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.rewards.criteria import ClassifyPairs, TrainCriteria
from maieutic.rewards.embeddings import EmbedReplies
from maieutic.rewards.grading import GradeByRewards
from maieutic.rewards.leading import ChooseRewardModel
from maieutic.rewards.overlap import FindOverlap
from maieutic.rewards.published_scores import CheckScorer
from maieutic.rewards.scoring import ScorePairs, ScoreRewards
from maieutic.rewards.training import TrainRewardModel


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


def find_overlap_job(plan: Plan, source: str, benchmark: str) -> FindOverlap:
    return FindOverlap(tasks=tasks_of(plan.reward_cards(benchmark)))


def train_reward_model_job(plan: Plan, reward_model: str) -> TrainRewardModel:
    return TrainRewardModel(reward_model=reward_model, entry=entry_for_training(reward_entry(plan, reward_model)))


def train_criteria_job(plan: Plan, classifier: str) -> TrainCriteria:
    entry = plan.models[classifier]
    assert isinstance(entry, CriteriaModel)
    return TrainCriteria(
        classifier=classifier,
        entry=entry_for_training(entry),
        form=plan.datasets[plan.label_datasets(plan.classifier_release)[0]].format,
    )


def embed_replies_job(plan: Plan, encoder: str, release: str) -> EmbedReplies:
    return EmbedReplies(encoder=encoder)


def score_pairs_job(plan: Plan, reward_model: str) -> ScorePairs:
    return ScorePairs(reward_model=reward_model, entry=entry_for_scoring(reward_entry(plan, reward_model)))


def check_scorer_job(plan: Plan, reward_model: str) -> CheckScorer:
    return CheckScorer(reward_model=reward_model, entry=entry_for_scoring(reward_entry(plan, reward_model)))


def choose_reward_model_job(plan: Plan) -> ChooseRewardModel:
    return ChooseRewardModel(reward_models=plan.run.reward_models, source=plan.leading_pairs, **plan.bootstrap_settings)


def score_preferences_job(plan: Plan, reward_model: str, source: str) -> ScorePairs:
    return score_pairs_job(plan, reward_model)


def classify_pairs_job(plan: Plan, classifier: str, source: str) -> ClassifyPairs:
    entry = plan.models[classifier]
    assert isinstance(entry, CriteriaModel)
    return ClassifyPairs(classifier=classifier, criteria=list(entry.train.criteria), max_length=entry.train.max_length)


def score_rewards_job(plan: Plan, reward_model: str, benchmark: str, batch: str) -> ScoreRewards:
    return ScoreRewards(
        reward_model=reward_model,
        entry=entry_for_scoring(reward_entry(plan, reward_model)),
        tasks=tasks_of(plan.reward_cards(benchmark)),
    )


def grade_by_rewards_job(plan: Plan, reward_model: str, benchmark: str, tutor: str) -> GradeByRewards:
    return GradeByRewards(
        reward_model=reward_model,
        tutor=tutor,
        ceiling=plan.human_reference(benchmark),
        tasks=tasks_of(plan.reward_cards(benchmark)),
    )


def listed_graders(plan: Plan) -> list[str]:
    """Return the names of the reward models and classifiers that a run lists."""
    return [*plan.run.reward_models, *plan.run.reward_comparisons, *plan.run.classifiers]


def check_names_of_graders(plan: Plan) -> None:
    """Raise UserError if a listed reward model or classifier is unknown, of another kind, or listed twice."""
    run = plan.run
    listed = listed_graders(plan)

    def check(key: str, name: str, kind: type[Model], what: str) -> None:
        check_entry(plan.models, key, name, (kind,), what)
        if listed.count(name) > 1:
            raise UserError(key, f"{name!r} is listed twice", "list it once")

    kinds = (
        ("reward_models", run.reward_models, RewardModel, "a reward model"),
        ("reward_comparisons", run.reward_comparisons, RewardModel, "a reward model"),
        ("classifiers", run.classifiers, CriteriaModel, "a criteria classifier"),
    )
    check_all(
        partial(check, f"run.{key}[{number}]", name, kind, what)
        for key, names, kind, what in kinds
        for number, name in enumerate(names)
    )


def check_name_of_pair_source(number: int, name: str) -> None:
    """Raise UserError if a listed source of pairs is unknown. number: its place in the list."""
    if name not in PAIR_SOURCES:
        raise unknown_name(f"run.pair_sources[{number}]", name, list(PAIR_SOURCES), "the sources of pairs")


def check_grader(plan: Plan, name: str) -> None:
    """Check a reward model or classifier: its base model, training pairs and criteria exist."""
    model = plan.models[name]
    assert isinstance(model, RewardModel | CriteriaModel)
    if model.train is not None:
        key = f"models.{name}.train.base"
        what = "a base model with weights"
        check_entry(plan.models, key, model.train.base, (VllmModel, WeightsOnly), what)
    for criterion in model.train.criteria if isinstance(model, CriteriaModel) else []:
        known = list(plan.label_source(plan.classifier_release).scales)
        if criterion not in known:
            raise unknown_name(f"models.{name}.train.criteria", criterion, known, "the criteria of the human labels")
    for source in training_pair_sources(model):
        if source not in PAIR_SOURCES:
            raise unknown_name(f"models.{name}: source of pairs", source, list(PAIR_SOURCES), "the sources of pairs")
        if PAIR_SOURCES[source].test:
            raise UserError(f"models.{name}", f"{source} contains the test pairs", "train on other sources")
        check_pair_source(plan, name, source)
    check_published_scores(plan, name)


def check_preferences(plan: Plan) -> None:
    """Check that sets of preference pairs have unique names, and that the data of this run's sets are available."""
    for name, entry in plan.config.preferences.items():
        if name in PAIR_SOURCES and entry.loader != name:
            raise UserError(
                f"preferences.{name}", f"{name} is the name of a source of training pairs", "choose another name"
            )
        if entry.file and not Path(entry.file).is_file():
            raise UserError(
                f"preferences.{name}.file", f"{entry.file} does not exist", "correct the path, or remove the key"
            )
        plan.pair_source(name)
    for number, name in enumerate(plan.run.preferences or []):
        if name not in plan.config.preferences:
            raise unknown_name(
                f"run.preferences[{number}]", name, list(plan.config.preferences), "the sets of preferences"
            )
        if name in (plan.run.preferences or [])[:number]:
            raise UserError(f"run.preferences[{number}]", f"{name} is listed twice", "list it once")
    if not plan.preferences and (plan.reward_models or plan.classifiers):
        fix = "list at least one set from `preferences`, or remove this key"
        raise UserError("run.preferences", "there are no pairs to validate reward models and classifiers on", fix)
    for name in [*(plan.preferences if plan.used_sources else ()), *plan.run.pair_sources]:
        for dataset in plan.pair_datasets(name):
            if dataset not in plan.datasets:
                raise unknown_name(f"preferences.{name}.datasets", dataset, list(plan.datasets), "the registry")
            plan.datasets[dataset].file_of(dataset, plan.edition)


def check_published_scores(plan: Plan, name: str) -> None:
    """Raise UserError if the published scores that a reward model's entry names do not exist."""
    entry = plan.models[name]
    if isinstance(entry, RewardModel) and entry.published_scores and not published_scores_of(entry).is_file():
        names = sorted(path.stem for path in (RESOURCES / "rewards/published_scores").glob("*.yaml"))
        problem = f"{published_scores_of(entry)} does not exist"
        raise UserError(
            f"models.{name}.published_scores", problem, f"set it to one of {', '.join(names)}, or remove it"
        )


def check_pair_source(plan: Plan, name: str, source: str) -> None:
    """Check that the datasets of a source of pairs are in the registry, and pinned for the run's edition.

    name: reward model that is trained on the pairs, for error messages.
    """
    for dataset in plan.pair_datasets(source):
        if dataset not in plan.datasets:
            raise unknown_name(f"source of pairs {source}", dataset, list(plan.datasets), "the registry")
        try:
            plan.datasets[dataset].file_of(dataset, plan.edition)
        except UserError as error:
            fix = f"{error.fix}, or remove {name} from run.reward_models and run.reward_comparisons"
            problem = f"{name} is trained on {source}, which is not available: {error.place}: {error.problem}"
            raise type(error)(f"models.{name}", problem, fix) from None


STAGE = SlicePlan(
    module=__name__,
    checks=Checks(
        names=lambda plan: [
            partial(check_names_of_graders, plan),
            *(partial(check_name_of_pair_source, number, name) for number, name in enumerate(plan.run.pair_sources)),
        ],
        entries=lambda plan: [partial(check_grader, plan, name) for name in listed_graders(plan)],
        data=lambda plan: [partial(check_preferences, plan)],
    ),
)
