"""Checks of a run's reward models, classifiers and preference pairs before any work starts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from maieutic.config.models import CriteriaModel, Model, RewardModel, VllmModel, WeightsOnly
from maieutic.config.registry import check_entry, unknown_name
from maieutic.core.errors import UserError, check_all
from maieutic.core.paths import RESOURCES
from maieutic.datasets.pairs import PAIR_SOURCES
from maieutic.plan.plan import Plan, training_pair_sources
from maieutic.rewards.inputs import published_scores_of


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
    """Check a reward model or classifier: base model and weights are pinned, and training pairs and criteria exist."""
    model = plan.models[name]
    assert isinstance(model, RewardModel | CriteriaModel)
    if isinstance(model, RewardModel) and model.weights is not None:
        model.weights.refuse_unpinned(f"models.{name}.weights")
    if model.train is not None:
        key = f"models.{name}.train.base"
        what = "a base model with weights"
        check_entry(plan.models, key, model.train.base, (VllmModel, WeightsOnly), what)
        base = plan.models[model.train.base]
        assert isinstance(base, VllmModel | WeightsOnly)
        base.weights.refuse_unpinned(f"models.{model.train.base}.weights")
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
