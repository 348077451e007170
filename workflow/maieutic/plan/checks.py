"""Check a configuration before any work starts: names, cards, pins, graders and labels.

Each fault is one line with the key's path and the fix. Faults of one kind (names, cards, entries) are listed together.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from maieutic.config import cards
from maieutic.config.budget import check_prices
from maieutic.config.cards import JUDGE, LoadedCard
from maieutic.config.models import (
    BaselineModel,
    CriteriaModel,
    HostedModel,
    JudgeModel,
    Model,
    RecordedModel,
    RewardModel,
    VllmModel,
    WeightsOnly,
)
from maieutic.config.registry import check_entry, unknown_name
from maieutic.config.settings import Config, read_config
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all, check_in_turn
from maieutic.core.records import LabelSetDescription, Scale
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import local_copy
from maieutic.graders.registry import GRADERS
from maieutic.judges.assignments import CONDITIONS, PAIR_VARIABLES, offered_variables, rubric_for_card
from maieutic.judges.labelled_sets import check_table, rubric_fits_labels
from maieutic.judges.rubrics import (
    annotation_scales,
    check_rubric_variables,
    chosen_rubrics,
    kinds_with,
    read_rubric,
    rubric_names,
    rubric_path,
)
from maieutic.people.labels import read_label_lines
from maieutic.plan.plan import Plan, training_pair_sources
from maieutic.replies.baselines import TUTORS
from maieutic.replies.recorded import FORMS
from maieutic.rewards.pairs import PAIR_SOURCES
from maieutic.scores.metrics.registry import METRICS
from maieutic.scores.printed import check_papers


def check_config(raw: dict[str, Any]) -> Config:
    """Return the validated configuration. Raises UserError with the faults of the first group of checks that fails."""
    config = read_config(raw)
    check_selection(Plan(config))
    return config


def check_selection(plan: Plan) -> None:
    """Check that everything a run selects exists, is available and fits together.

    Raises UserError with the faults of the first group of checks that fails. If the only faults of a group are missing
    pins, the later groups are checked too.
    """
    run = plan.run
    tutors = enumerate(run.tutors)
    check_all(
        (
            *(partial(check_name_of_tutor, plan, number, name) for number, name in tutors),
            partial(check_papers, plan.models),
            partial(check_data_folder, plan.config),
            lambda: plan.cards,
            partial(check_names_of_graders, plan),
            partial(check_names_of_judges, plan),
        )
    )
    check_in_turn(
        (
            partial(check_protocol, plan),
            *(partial(check_card, plan, path, loaded) for path, loaded in plan.cards.items()),
        ),
        (
            *(partial(check, plan, name) for name in plan.tutors for check in TUTOR_CHECKS),
            *(partial(check_grader, plan, name) for name in listed_graders(plan)),
            *(partial(check_judge, plan, name) for name in (*run.judges, *run.taggers)),
        ),
        (
            partial(check, plan)
            for check in (check_encoders, check_coverage, check_labels, check_preferences, check_budget)
        ),
    )


def check_data_folder(config: Config) -> None:
    """Raise UserError if `data_dir` is set for the published edition but is not a folder."""
    if config.data_dir is not None and config.edition == "published" and not Path(config.data_dir).is_dir():
        raise UserError(
            "data_dir", f"{config.data_dir} is not a folder", "set it to the folder of the published files, or to null"
        )


def check_budget(plan: Plan) -> None:
    """Raise UserError if the budget names an unknown model or a judge, or limits costs but a model has no price."""
    budget = plan.run.budget
    for name in budget.models:
        if name not in plan.models:
            raise unknown_name(f"run.budget.models.{name}", name, list(plan.models), "config/models.yaml")
        judge = plan.models[name]
        if isinstance(judge, JudgeModel) and judge.model is None:
            fix = f"set budgets for the models of {', '.join(judge.judges)}" if judge.judges else "remove this key"
            raise UserError(f"run.budget.models.{name}", f"{name} is a judge without a model", fix)
        if (answering := plan.answering_entry(name)) != name:
            raise UserError(
                f"run.budget.models.{name}",
                f"{name} is a judge, but budgets apply to models",
                f"set run.budget.models.{answering}",
            )
    check_prices(
        budget,
        plan.models,
        {plan.answering_entry(name) for name in (*plan.tutors, *plan.judges_with_model, *plan.run.taggers)},
    )


def check_name_of_tutor(plan: Plan, number: int, name: str) -> None:
    """Raise UserError if a name in run.tutors is unknown, is not a tutor, or is listed twice."""
    key = f"run.tutors[{number}]"
    check_entry(plan.models, key, name, (VllmModel, HostedModel, BaselineModel, RecordedModel), "a tutor")
    if name in plan.run.tutors[:number]:
        raise UserError(key, f"{name!r} is listed twice", "list it once")


def check_tutor(plan: Plan, name: str) -> None:
    """Raise UserError if a tutor is an unknown baseline, lacks its file of replies, or has unpinned weights."""
    model = plan.models[name]
    if isinstance(model, BaselineModel) and model.tutor not in TUTORS:
        raise unknown_name(f"models.{name}.tutor", model.tutor, list(TUTORS), "the list of baseline tutors")
    if isinstance(model, RecordedModel):
        for file in (file for file in model.files if not Path(file).is_file()):
            raise UserError(f"models.{name}.file", f"{file} does not exist", "set it to the file with the replies")
    if isinstance(model, VllmModel):
        model.weights.refuse_unpinned(f"models.{name}.weights")


def check_own_protocol(plan: Plan, name: str) -> None:
    """If a tutor has its own protocol, check that the cards' loaders provide all variables in its prompts."""
    if plan.protocol_of(name) == plan.run.protocol:
        return
    for loaded in (loaded_card for benchmark in plan.benchmarks for loaded_card in plan.cards_for(benchmark, name)):
        path = cards.card_path(loaded.card.benchmark, loaded.card.task)
        cards.check_variables(path, loaded, LOADERS[loaded.card.loader].variables)


def check_pictures(plan: Plan, name: str) -> None:
    """Raise UserError if a tutor can answer none of the selected tasks, for example because all have pictures."""
    if any(plan.can_answer(loaded.card, name) for loaded in plan.cards.values()):
        return
    if isinstance(plan.models[name], BaselineModel):
        raise UserError(
            f"models.{name}.tutor", "no task in run.tasks has human replies", f"remove {name} from run.tutors"
        )
    raise UserError(
        f"models.{name}.images",
        "every task in run.tasks has pictures, but this tutor does not accept pictures",
        "set images: true if the model accepts pictures, or remove the tutor from run.tutors",
    )


def check_completions(plan: Plan, name: str) -> None:
    """Raise UserError if a tutor uses the completions endpoint, which takes a single prompt, for a conversation."""
    if getattr(plan.models[name], "endpoint", None) != "completions":
        return
    for loaded in (loaded_card for benchmark in plan.benchmarks for loaded_card in plan.cards_for(benchmark, name)):
        if len(loaded.card.turns) > 1 or loaded.card.system:
            raise UserError(
                f"models.{name}.endpoint",
                f"{loaded.card.benchmark}/{loaded.card.task} is a conversation, but a completion takes a single prompt",
                "set endpoint: chat, remove the key (the default is chat), or remove the task from run.tasks",
            )


def check_replies_format(plan: Plan, name: str) -> None:
    """Raise UserError if a file of replies has an unknown format, or has several tutors and `speaker` is not set."""
    model = plan.models[name]
    if not isinstance(model, RecordedModel) or model.form is None:
        return
    if model.form not in FORMS:
        raise unknown_name(f"models.{name}.form", model.form, list(FORMS), "the list of formats for files of replies")
    if FORMS[model.form].several and model.speaker is None:
        problem = f"a file of the form {model.form} contains replies by several tutors"
        raise UserError(f"models.{name}.speaker", problem, "set it to the name of one tutor in that file")


TUTOR_CHECKS = (check_replies_format, check_tutor, check_own_protocol, check_completions, check_pictures)


def check_protocol(plan: Plan) -> None:
    """Raise UserError if the run's or a tutor's protocol is neither `released` nor a variant of a selected card."""
    known = {cards.RELEASED} | {variant for loaded in plan.cards.values() for variant in loaded.card.variants}
    if plan.run.protocol not in known:
        raise unknown_name("run.protocol", plan.run.protocol, list(known), "the selected cards' variants")
    for name in plan.run.tutors:
        if (protocol := plan.protocol_of(name)) not in known:
            raise unknown_name(f"models.{name}.protocol", protocol, list(known), "the selected cards' variants")


def check_card(plan: Plan, path: Path, loaded: LoadedCard) -> None:
    """Check that the dataset, loader, graders, metrics, baselines and prompt variables that a card names exist."""
    card = loaded.card
    for key, name, known in (
        ("dataset", card.dataset, list(plan.datasets)),
        ("loader", card.loader, list(LOADERS)),
        *(("graders", name, [*GRADERS, *cards.MODEL_GRADERS]) for name in card.graders),
        *(("baselines", name, list(plan.models)) for name in card.baselines.named),
        *((f"metrics.{name}", metric.function or name, list(METRICS)) for name, metric in card.metrics.items()),
        *(
            (f"metrics.{name}.grader", grader, card.graders)
            for name, metric in card.metrics.items()
            for grader in filter(None, (metric.grader, *(part.grader for part in metric.parts)))
        ),
    ):
        if name not in known:
            raise unknown_name(f"{path}: {key}", name, known, "the registry")
    for name in card.baselines.named:
        check_entry(plan.models, f"{path}: baselines", name, (BaselineModel,), "a baseline tutor")
    copy = plan.datasets[card.dataset].file_of(card.dataset, plan.edition)
    folder = Path(plan.config.data_dir) if plan.config.data_dir else None
    # A dataset without a URL, a Hub repository and a checksum is made by the run itself.
    from_file = copy.url is None and copy.hub is None and copy.sha256 is not None
    if plan.edition == "published" and from_file and local_copy(copy, "published", folder, paths.DEMO_DATA) is None:
        where = f"{copy.path} is neither in data_dir ({folder or 'null'}) nor in the current folder"
        raise UserError(
            f"datasets.{card.dataset}.published.path",
            f"{where}, and has no URL; {path} needs the file",
            "correct this path, set data_dir to the folder that contains it, or remove the task from run.tasks",
        )
    cards.check_variables(path, loaded, LOADERS[card.loader].variables)


# reward models and classifiers ----------------------------------------------------------------------------------------


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
    for name in plan.preferences if plan.used_sources else ():
        for dataset in plan.pair_datasets(name):
            if dataset not in plan.datasets:
                raise unknown_name(f"preferences.{name}.datasets", dataset, list(plan.datasets), "the registry")
            plan.datasets[dataset].file_of(dataset, plan.edition)


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


# judges ---------------------------------------------------------------------------------------------------------------


def check_names_of_judges(plan: Plan) -> None:
    """Raise UserError if a judge or tagger is unknown, is listed twice, or lacks the rubrics that it needs."""

    def check(key: str, name: str, names: list[str]) -> None:
        check_entry(plan.models, key, name, (JudgeModel,), "a judge")
        if names.count(name) > 1:
            raise UserError(key, f"{name!r} is listed twice", "list it once")
        judge = plan.models[name]
        assert isinstance(judge, JudgeModel)
        if judge.judges and names is plan.run.judges:
            check_members(plan, name)
            return
        if names is plan.run.judges and not judge.rubrics and not judge.pairs:
            raise UserError(key, f"{name!r} is only a tagger", f"list it in run.taggers, or set models.{name}.rubrics")
        if names is plan.run.taggers and not judge.tags:
            raise UserError(key, f"{name!r} has no tagging rubrics", f"set models.{name}.tags")

    check_all(
        partial(check, f"run.{key}[{number}]", name, names)
        for key, names in (("judges", plan.run.judges), ("taggers", plan.run.taggers))
        for number, name in enumerate(names)
    )


def check_coverage(plan: Plan) -> None:
    """Raise UserError if a judge has a rubric for none of the selected tasks and labelled sets.

    A task for which no judge has a rubric is not an error, because its other graders still score it.
    """
    for number, name in enumerate(plan.run.judges):
        entry = plan.models[name]
        assert isinstance(entry, JudgeModel)
        if (
            entry.rubrics
            and not plan.judged_benchmarks(name)
            and plan.tasks_without_rubric
            and not plan.validating_releases(name)
        ):
            shipped = (plan.shipped_card(path, plan.run.protocol).card for path in plan.cards)
            rubrics = sorted({rubric for card in shipped for rubric in card.rubrics})
            raise UserError(
                f"run.judges[{number}]",
                f"{name} has no rubric for any task in run.tasks",
                f"add one of {', '.join(rubrics)} (rubrics of these tasks) to models.{name}.rubrics, or remove {name}",
            )


def check_people_labels(plan: Plan) -> None:
    """Check the human labels of this run's replies.

    This check runs only when a run starts, because the report can be built without the file of labels.
    """
    if plan.run.human_labels is None:
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


def check_judge(plan: Plan, name: str) -> None:
    """Check that a judge's model is pinned, and that its rubrics suit the run's tasks and labelled sets."""
    judge = plan.judge_entry(name)
    key = f"models.{name}"
    if judge.judges:
        check_panel(plan, name)
    if judge.words:
        check_word_lists(plan, name)
    if judge.model is None:
        return
    check_entry(plan.models, f"{key}.model", judge.model, (VllmModel, HostedModel), "a served or hosted model")
    model = plan.models[judge.model]
    if isinstance(model, VllmModel):
        model.weights.refuse_unpinned(f"models.{judge.model}.weights")
    named = [*judge.rubrics, *judge.pairs, *judge.tags]
    for rubric in named:
        condition = read_rubric(rubric).rubric.when
        if condition is not None and condition not in CONDITIONS:
            raise unknown_name(
                f"{rubric_path(rubric)}: when", condition, list(CONDITIONS), "the list of conditions for rubrics"
            )
        if named.count(rubric) > 1:
            raise UserError(key, f"{rubric} is listed twice", "list it once")
        if (read_rubric(rubric).rubric.about != "replies") != (rubric in judge.tags):
            fix = "list rubrics about items and criteria in `tags`, and rubrics about replies in `rubrics` or `pairs`"
            raise UserError(key, f"{rubric} is about {read_rubric(rubric).rubric.about}", fix)
    for rubric in judge.pairs:
        loaded = read_rubric(rubric)
        if not loaded.rubric.rules.compares_labelled_pairs:
            kinds = kinds_with(lambda kind: kind.compares_labelled_pairs)
            raise UserError(f"{key}.pairs", f"{rubric} has kind {loaded.rubric.kind}", f"use a rubric of kind {kinds}")
        if not loaded.rubric.both_orders:
            raise UserError(
                str(rubric_path(rubric)),
                "showing pairs in only one order allows position bias",
                "set both_orders: true",
            )
        check_rubric_variables(loaded, PAIR_VARIABLES)
    for loaded_card in plan.cards.values():
        card = loaded_card.card
        if JUDGE in card.graders and chosen_rubrics(judge.rubrics, card.rubrics):
            loaded = rubric_for_card(key, judge, card)
            variables = offered_variables(card, loaded, LOADERS[card.loader].judge_variables)
            check_rubric_variables(loaded, variables)
            if more := loaded.rubric.follow_up:
                check_rubric_variables(read_rubric(more.rubric), variables)
    plan.reworded_rubrics(name)
    for release in plan.label_sets:
        if labelled := plan.rubric_for_release(name, release):
            check_rubric_variables(labelled, set(plan.label_source(release).variables))


def check_encoders(plan: Plan) -> None:
    """Raise UserError if an encoder is unknown, is not a weights-only entry, is listed twice, or is not pinned."""
    for number, name in enumerate(plan.run.encoders):
        key = f"run.encoders[{number}]"
        check_entry(plan.models, key, name, (WeightsOnly,), "a weights-only entry")
        if name in plan.run.encoders[:number]:
            raise UserError(key, f"{name!r} is listed twice", "list it once")
        model = plan.models[name]
        assert isinstance(model, WeightsOnly)
        model.weights.refuse_unpinned(f"models.{name}.weights")


def check_members(plan: Plan, name: str) -> None:
    """Raise UserError if a panel contains another panel or a judge outside the run, or its judges share no rubric."""
    panel, key = plan.judge_entry(name), f"models.{name}"
    for number, member in enumerate(panel.judges):
        place = f"{key}.judges[{number}]"
        check_entry(plan.models, place, member, (JudgeModel,), "a judge")
        if plan.judge_entry(member).judges:
            raise UserError(
                place, f"expected a single judge, found the panel {member}", "list the judges of that panel instead"
            )
        if member not in plan.run.judges:
            raise UserError(place, f"{member} is not a judge of this run", "add it to run.judges")
    if not panel.rubrics and not panel.pairs:
        rubrics = "; ".join(f"{member}: {', '.join(plan.rubric_names(member))}" for member in panel.judges)
        raise UserError(
            f"{key}.judges",
            f"the panel's judges share no rubric ({rubrics})",
            "give all judges of the panel a common rubric",
        )


def check_panel(plan: Plan, name: str) -> None:
    """Raise UserError if a judge lacks a rubric of its panel, or if the panel's verdicts cannot be combined."""
    panel, key = plan.judge_entry(name), f"models.{name}"
    for member, key_of_rubrics in ((member, field) for member in panel.judges for field in ("rubrics", "pairs")):
        rubrics = getattr(plan.judge_entry(member), key_of_rubrics)
        if strange := [rubric for rubric in getattr(panel, key_of_rubrics) if rubric not in rubrics]:
            problem = f"{strange[0]} is not a rubric of {member}"
            fix = "remove this key, so that the panel uses the rubrics that its judges share"
            raise UserError(f"{key}.{key_of_rubrics}", problem, fix)
    for member in panel.judges:
        check_same_rubrics(plan, name, member)
    if panel.vote == "mean":
        further = [read_rubric(rubric).rubric.follow_up for rubric in panel.rubrics]
        for rubric in (*panel.rubrics, *(more.rubric for more in further if more)):
            levels = {title: criterion.level for title, criterion in read_rubric(rubric).rubric.criteria.items()}
            if nominal := [title for title, level in levels.items() if level == "nominal"]:
                problem = f"the labels of the criterion {nominal[0]} ({rubric}) have no order, so they have no mean"
                raise UserError(f"{key}.vote", problem, "set vote: majority, or vote: fitted")
    if panel.vote == "fitted" and not plan.validating_releases(name) and not panel.pairs:
        problem = "the panel has no rubric for human-labelled replies, so its judges' weights cannot be fitted"
        raise UserError(f"{key}.vote", problem, "set vote: majority, or add a labelled set to run.labels")


def check_word_lists(plan: Plan, name: str) -> None:
    """Raise UserError if a word-list judge has a rubric that contains no criterion with a word list."""
    from maieutic.validation.grader_baselines import HEURISTICS

    for rubric in plan.judge_entry(name).rubrics:
        card = read_rubric(rubric).rubric
        if card.rules.paired or not set(card.criteria) & set(HEURISTICS):
            problem = f"no criterion of {rubric} has a word list"
            fix = f"use a rubric with at least one of these criteria: {', '.join(HEURISTICS)}"
            raise UserError(f"models.{name}.rubrics", problem, fix)


def check_same_rubrics(plan: Plan, name: str, member: str) -> None:
    """Raise UserError if a panel's judge uses another rubric than the panel for some task or labelled set."""
    panel, judge = plan.judge_entry(name), plan.judge_entry(member)
    fix = f"list the rubrics of {name} and {member} in the same order"
    for path, loaded in plan.cards.items():
        card = loaded.card
        if JUDGE in card.graders and chosen_rubrics(panel.rubrics, card.rubrics):
            both = [
                rubric_for_card(f"models.{key}", entry, card).name for key, entry in ((name, panel), (member, judge))
            ]
            if len(set(both)) == 2:
                problem = f"for {path}, {member} uses {both[1]}, but the panel {name} uses {both[0]}"
                raise UserError(f"models.{member}.rubrics", problem, fix)
    for release in plan.judged_releases(name):
        of_panel, of_judge = plan.rubric_for_release(name, release), plan.rubric_for_release(member, release)
        if of_panel and (of_judge is None or of_judge.name != of_panel.name):
            other = of_judge.name if of_judge else "no rubric"
            problem = f"for {release}, {member} uses {other}, but the panel {name} uses {of_panel.name}"
            raise UserError(f"models.{member}.rubrics", problem, fix)


def rubrics_that_fit(about: LabelSetDescription) -> list[str]:
    """Return the names of the rubric cards with which a judge can be validated on a labelled set."""
    return [name for name in rubric_names() if rubric_fits_labels(about, read_rubric(name))]


def check_labels(plan: Plan) -> None:
    """Check that all labelled sets are valid, and that this run's sets have data that are pinned for its edition."""
    check_all(partial(plan.label_source, name) for name in plan.label_sets)
    check_all(partial(check_table, plan.label_sets[name]) for name in plan.releases)
    for key, names, labelled in (
        ("labels", plan.run.labels or [], True),
        ("predictions", plan.run.predictions, False),
    ):
        known = [name for name in plan.label_sets if plan.label_source(name).labelled == labelled]
        for number, name in enumerate(names):
            if name not in plan.label_sets:
                raise unknown_name(f"run.{key}[{number}]", name, known, "the labelled releases")
            if name not in known:
                problem = f"{name} has no labels" if labelled else f"{name} is already labelled by people"
                raise UserError(f"run.{key}[{number}]", problem, f"choose one of {', '.join(known)}")
            if name in names[:number]:
                raise UserError(f"run.{key}[{number}]", f"{name} is listed twice", "list it once")
    if plan.run.predictions and not any(plan.predicted_releases(judge) for judge in plan.run.judges):
        fix = "add a judge with the rubric mrbench_taxonomy"
        raise UserError("run.predictions", "no judge in run.judges has a rubric for these releases", fix)
    for number, name in enumerate(plan.run.labels or []):
        # The report shows human labels of MRBench's dimensions. Any other release is used only to validate judges.
        if name not in plan.taxonomy_releases and not any(
            plan.rubric_for_release(judge, name) for judge in plan.run.judges
        ):
            by = ", ".join(rubrics_that_fit(plan.label_source(name).about))
            fix = f"add a judge with a fitting rubric (one of [{by}]) to run.judges, or remove the release"
            raise UserError(f"run.labels[{number}]", f"no judge in run.judges has a rubric for {name}", fix)
    for source in plan.releases:
        for dataset in plan.label_datasets(source):
            if dataset not in plan.datasets:
                raise unknown_name(f"labelled release {source}", dataset, list(plan.datasets), "the registry")
            plan.datasets[dataset].file_of(dataset, plan.edition)
