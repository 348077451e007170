"""What a configuration asks for can be had: names, cards, pins, graders, labels, before any work starts.

Every fault is one line with the key's path and the fix; those of one kind are said together: names, cards, entries.
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
from maieutic.config.registry import check_entry, unknown
from maieutic.config.settings import Config, read_config
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all, check_in_turn
from maieutic.core.records import LabelSetAbout, Scale
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import local_copy
from maieutic.graders.registry import GRADERS
from maieutic.judges.assignments import CONDITIONS, PAIR_VARIABLES, offered_by, rubric_of
from maieutic.judges.labels import check_table, fits
from maieutic.judges.rubrics import (
    check_rubric_variables,
    chosen_rubrics,
    kinds_with,
    read_rubric,
    rubric_names,
    rubric_path,
    scales_of,
)
from maieutic.people.labels import read_lines
from maieutic.plan.plan import Plan, sources_of
from maieutic.replies.baselines import TUTORS
from maieutic.replies.recorded import FORMS
from maieutic.rewards.pairs import PAIR_SOURCES
from maieutic.scores.metrics.registry import METRICS
from maieutic.scores.printed import check_papers


def check_config(raw: dict[str, Any]) -> Config:
    """Validate a configuration. Raises UserError with all faults of one kind."""
    config = read_config(raw)
    check_selection(Plan(config))
    return config


def check_selection(plan: Plan) -> None:
    """Everything that a run selects exists, fits together and can be had. Raises UserError with all that is not so."""
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
            *(partial(check, plan, name) for name in plan.tutors for check in CHECKS_OF_TUTORS),
            *(partial(check_grader, plan, name) for name in listed_graders(plan)),
            *(partial(check_judge, plan, name) for name in (*run.judges, *run.taggers)),
        ),
        (
            partial(check, plan)
            for check in (check_encoders, check_coverage, check_taggers, check_labels, check_preferences, check_budget)
        ),
    )


def check_data_folder(config: Config) -> None:
    """The folder of published files is there, if one is named."""
    if config.data_dir is not None and config.edition == "published" and not Path(config.data_dir).is_dir():
        raise UserError(
            "data_dir", f"{config.data_dir} is not a folder", "name the folder with the published files, or null"
        )


def check_budget(plan: Plan) -> None:
    """A budget of money is one of models that have a price, and names models of the registry."""
    budget = plan.run.budget
    for name in budget.models:
        if name not in plan.models:
            raise unknown(f"run.budget.models.{name}", name, list(plan.models), "config/models.yaml")
        judge = plan.models[name]
        if isinstance(judge, JudgeModel) and judge.model is None:
            fix = f"name the models that answer for {', '.join(judge.judges)}" if judge.judges else "leave it out"
            raise UserError(f"run.budget.models.{name}", "is a judge that asks nobody", fix)
        if (answering := plan.answering(name)) != name:
            raise UserError(
                f"run.budget.models.{name}", "is a judge: the model that answers is asked", f"name {answering}"
            )
    check_prices(
        budget, plan.models, {plan.answering(name) for name in (*plan.tutors, *plan.asked_judges, *plan.run.taggers)}
    )


def check_name_of_tutor(plan: Plan, number: int, name: str) -> None:
    """A tutor of the run exists and is named once."""
    key = f"run.tutors[{number}]"
    check_entry(plan.models, key, name, (VllmModel, HostedModel, BaselineModel, RecordedModel), "a tutor")
    if name in plan.run.tutors[:number]:
        raise UserError(key, f"{name!r} is listed twice", "list it once")


def check_tutor(plan: Plan, name: str) -> None:
    """A tutor of the run can run: its baseline exists, its weights are pinned."""
    model = plan.models[name]
    if isinstance(model, BaselineModel) and model.tutor not in TUTORS:
        raise unknown(f"models.{name}.tutor", model.tutor, list(TUTORS), "the trivial tutors")
    if isinstance(model, RecordedModel):
        for file in (file for file in model.files if not Path(file).is_file()):
            raise UserError(f"models.{name}.file", f"{file} is not there", "name the file with the replies")
    if isinstance(model, VllmModel):
        model.weights.refuse_unpinned(f"models.{name}.weights")


def check_own_protocol(plan: Plan, name: str) -> None:
    """The prompts of a tutor's own protocol ask for what their loaders give, as those of the run's do."""
    if plan.protocol_of(name) == plan.run.protocol:
        return
    for loaded in (loaded_card for benchmark in plan.benchmarks for loaded_card in plan.cards_for(benchmark, name)):
        path = cards.card_path(loaded.card.benchmark, loaded.card.task)
        cards.check_variables(path, loaded, LOADERS[loaded.card.loader].variables)


def check_pictures(plan: Plan, name: str) -> None:
    """A tutor has something to answer."""
    if any(plan.takes(loaded.card, name) for loaded in plan.cards.values()):
        return
    if isinstance(plan.models[name], BaselineModel):
        raise UserError(
            f"models.{name}.tutor", "no task of run.tasks has people's replies", "leave it out of run.tutors"
        )
    raise UserError(
        f"models.{name}.images",
        "every task of run.tasks has pictures, and this tutor takes none",
        "set images: true if it does, or leave it out of run.tutors",
    )


def check_endpoint(plan: Plan, name: str) -> None:
    """A raw completion has one prompt: a tutor that is asked so can hold no conversation."""
    if getattr(plan.models[name], "endpoint", None) != "completions":
        return
    for loaded in (loaded_card for benchmark in plan.benchmarks for loaded_card in plan.cards_for(benchmark, name)):
        if len(loaded.card.turns) > 1 or loaded.card.system:
            raise UserError(
                f"models.{name}.endpoint",
                f"{loaded.card.benchmark}/{loaded.card.task} is a conversation, and completions hold one prompt",
                "set it to chat, drop it (the card says chat), or take the task out of run.tasks",
            )


def check_form(plan: Plan, name: str) -> None:
    """The format of a file of replies is one that a benchmark has, and says whose replies are meant."""
    model = plan.models[name]
    if not isinstance(model, RecordedModel) or model.form is None:
        return
    if model.form not in FORMS:
        raise unknown(f"models.{name}.form", model.form, list(FORMS), "the formats of benchmarks' files of replies")
    if FORMS[model.form].several and model.speaker is None:
        problem = f"a file of the form {model.form} has several tutors' replies"
        raise UserError(f"models.{name}.speaker", problem, "name one as that file does")


CHECKS_OF_TUTORS = (check_form, check_tutor, check_own_protocol, check_endpoint, check_pictures)


def check_protocol(plan: Plan) -> None:
    """A protocol, of the run or of a tutor, is `released` or a variant of a selected card."""
    known = {cards.RELEASED} | {variant for loaded in plan.cards.values() for variant in loaded.card.variants}
    if plan.run.protocol not in known:
        raise unknown("run.protocol", plan.run.protocol, list(known), "the selected cards' variants")
    for name in plan.run.tutors:
        if (protocol := plan.protocol_of(name)) not in known:
            raise unknown(f"models.{name}.protocol", protocol, list(known), "the selected cards' variants")


def check_card(plan: Plan, path: Path, loaded: LoadedCard) -> None:
    """A card names only what exists: dataset, loader, graders, metrics, baselines, prompt variables."""
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
            raise unknown(f"{path}: {key}", name, known, "the registry")
    for name in card.baselines.named:
        check_entry(plan.models, f"{path}: baselines", name, (BaselineModel,), "a baseline tutor")
    copy = plan.datasets[card.dataset].copy_of(card.dataset, plan.edition)
    folder = Path(plan.config.data_dir) if plan.config.data_dir else None
    of_a_file = copy.url is None and copy.hub is None and copy.sha256 is not None  # else the run itself makes it
    if plan.edition == "published" and of_a_file and local_copy(copy, "published", folder, paths.DEMO_DATA) is None:
        where = f"{copy.path} is neither in data_dir ({folder or 'null'}) nor below this folder"
        raise UserError(
            f"datasets.{card.dataset}.published.path",
            f"{where}, it has no address, and {path} needs it",
            "mend path, set data_dir to a folder that has it, or leave the task out",
        )
    cards.check_variables(path, loaded, LOADERS[card.loader].variables)


# reward models and classifiers


def listed_graders(plan: Plan) -> list[str]:
    """The run's reward models and classifiers."""
    return [*plan.run.reward_models, *plan.run.reward_comparisons, *plan.run.classifiers]


def check_names_of_graders(plan: Plan) -> None:
    """Every reward model and classifier exists, and is listed once."""
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
    """One reward model or classifier can be had: base and weights pinned, sources and criteria known."""
    model = plan.models[name]
    assert isinstance(model, RewardModel | CriteriaModel)
    if isinstance(model, RewardModel) and model.weights is not None:
        model.weights.refuse_unpinned(f"models.{name}.weights")
    if model.train is not None:
        key = f"models.{name}.train.base"
        what = "a base: it needs weights of its own"
        check_entry(plan.models, key, model.train.base, (VllmModel, WeightsOnly), what)
        base = plan.models[model.train.base]
        assert isinstance(base, VllmModel | WeightsOnly)
        base.weights.refuse_unpinned(f"models.{model.train.base}.weights")
    for criterion in model.train.criteria if isinstance(model, CriteriaModel) else []:
        known = list(plan.label_source(plan.first_release).scales)
        if criterion not in known:
            raise unknown(f"models.{name}.train.criteria", criterion, known, "the criteria of people's labels")
    for source in sources_of(model):
        if source not in PAIR_SOURCES:
            raise unknown(f"models.{name}: source of pairs", source, list(PAIR_SOURCES), "the sources of pairs")
        if PAIR_SOURCES[source].test:
            raise UserError(f"models.{name}", f"{source} holds the test pairs", "train on other sources")
        check_source(plan, name, source)


def check_preferences(plan: Plan) -> None:
    """The sets of pairs exist, no name means two things, and those that this run reads can be had."""
    for name, entry in plan.config.preferences.items():
        if name in PAIR_SOURCES and entry.loader != name:
            raise UserError(f"preferences.{name}", "is the name of a source of training pairs", "give it another name")
        if entry.file and not Path(entry.file).is_file():
            raise UserError(f"preferences.{name}.file", f"there is no {entry.file}", "name a file, or leave it out")
        plan.pair_source(name)
    for number, name in enumerate(plan.run.preferences or []):
        if name not in plan.config.preferences:
            raise unknown(f"run.preferences[{number}]", name, list(plan.config.preferences), "the sets of preferences")
        if name in (plan.run.preferences or [])[:number]:
            raise UserError(f"run.preferences[{number}]", f"{name} is listed twice", "list it once")
    if not plan.preferences and (plan.reward_models or plan.classifiers):
        fix = "name one of `preferences`, or leave the key out"
        raise UserError("run.preferences", "reward models and classifiers are checked on no pairs", fix)
    for name in plan.preferences if plan.used_sources else ():
        for dataset in plan.pair_datasets(name):
            if dataset not in plan.datasets:
                raise unknown(f"preferences.{name}.datasets", dataset, list(plan.datasets), "the registry")
            plan.datasets[dataset].copy_of(dataset, plan.edition)


def check_source(plan: Plan, name: str, source: str) -> None:
    """The files of one source of pairs are in the registry, and pinned in this edition."""
    for dataset in plan.pair_datasets(source):
        if dataset not in plan.datasets:
            raise unknown(f"source of pairs {source}", dataset, list(plan.datasets), "the registry")
        try:
            plan.datasets[dataset].copy_of(dataset, plan.edition)
        except UserError as error:
            mend = f"{error.mend}, or leave {name} out of run.reward_models and run.reward_comparisons"
            problem = f"it learns from {source}: {error.place}: {error.problem}"
            raise type(error)(f"models.{name}", problem, mend) from None


# judges


def check_names_of_judges(plan: Plan) -> None:
    """Every judge and tagger exists, and is listed once."""

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
            raise UserError(key, f"{name!r} only tags", "list it in run.taggers, or give it rubrics")
        if names is plan.run.taggers and not judge.tags:
            raise UserError(key, f"{name!r} has no rubrics to tag by", f"set models.{name}.tags")

    check_all(
        partial(check, f"run.{key}[{number}]", name, names)
        for key, names in (("judges", plan.run.judges), ("taggers", plan.run.taggers))
        for number, name in enumerate(names)
    )


def check_coverage(plan: Plan) -> None:
    """Every judge of replies has something to judge. A task that none has a rubric for is left to its other graders."""
    for number, name in enumerate(plan.run.judges):
        entry = plan.models[name]
        assert isinstance(entry, JudgeModel)
        if entry.rubrics and not plan.judged_benchmarks(name) and plan.unjudged and not plan.releases_for(name):
            shipped = (plan.shipped_card(path, plan.run.protocol).card for path in plan.cards)
            wanted = sorted({rubric for card in shipped for rubric in card.rubrics})
            raise UserError(
                f"run.judges[{number}]",
                f"{name} has no rubric for any task of run.tasks",
                f"their cards take {', '.join(wanted)}: name one in models.{name}.rubrics, or leave the judge out",
            )


def check_taggers(plan: Plan) -> None:
    """What is tagged is in the run; tutors of the difficulty filter are of the run."""
    wanted = plan.run.difficulty
    if wanted.tutors and wanted.at_least > len(wanted.tutors):
        raise UserError(
            "run.difficulty.at_least",
            f"{wanted.at_least} of {len(wanted.tutors)} tutors can never fail",
            "a number up to that of the tutors",
        )
    pooled = [loaded.card for loaded in plan.cards.values() if loaded.card.pool and JUDGE in loaded.card.graders]
    if (wanted.tutors or plan.run.taggers) and not pooled:
        raise UserError(
            "run.difficulty" if wanted.tutors else "run.taggers",
            "no selected task has items with criteria of their own that a judge judges",
            "add tutorbench to run.tasks and its judge to run.judges, or leave the key out",
        )
    for number, name in enumerate(wanted.tutors):
        if name not in plan.run.tutors:
            raise unknown(f"run.difficulty.tutors[{number}]", name, plan.run.tutors, "run.tutors")


def check_people(plan: Plan) -> None:
    """The labels that people gave to this run's replies can be read. For a run's start: the report needs no file."""
    if plan.run.human_labels is None:
        return
    if not plan.run.judges:
        raise UserError("run.human_labels", "labels by people correct a judge, and run.judges is empty", "name one")
    if not any(JUDGE in loaded.card.graders for loaded in plan.cards.values()):
        raise UserError(
            "run.human_labels", "no selected task is judged", "add mrbench to run.tasks, or drop the labels"
        )
    check_all(partial(check_one_scale, plan, task) for task in plan.people_rubrics)
    lines = read_lines(Path(plan.run.human_labels), plan.people_scales, plan.own_criteria, plan.config.limits)
    strange = {label.tutor: place for place, label in lines if label.tutor not in plan.tutors}
    if strange:
        faults = [unknown(place, tutor, plan.tutors, "the tutors of this run") for tutor, place in strange.items()]
        raise UserError.of(faults)


def check_one_scale(plan: Plan, task: str) -> None:
    """What people may say of a task's replies under one criterion is one thing, whatever rubric names it."""
    scales: dict[str, tuple[str, Scale]] = {}
    for name in plan.people_rubrics[task]:
        for criterion, scale in scales_of(read_rubric(name).rubric).items():
            other, known = scales.setdefault(criterion, (name, scale))
            if known.labels != scale.labels:
                problem = f"{name} and {other} have the criterion {criterion} with other labels, both for {task}"
                raise UserError(
                    "run.judges", problem, "label by one of them: leave a judge out, or rename the criterion"
                )


def check_judge(plan: Plan, name: str) -> None:
    """One judge: the model that answers, and the cards that it judges by."""
    judge = plan.judge_entry(name)
    key = f"models.{name}"
    if judge.judges:
        check_panel(plan, name)
    if judge.words:
        check_words(plan, name)
    if judge.model is None:
        return
    check_entry(plan.models, f"{key}.model", judge.model, (VllmModel, HostedModel), "a model that answers")
    model = plan.models[judge.model]
    if isinstance(model, VllmModel):
        model.weights.refuse_unpinned(f"models.{judge.model}.weights")
    named = [*judge.rubrics, *judge.pairs, *judge.tags]
    for rubric in named:
        condition = read_rubric(rubric).rubric.when
        if condition is not None and condition not in CONDITIONS:
            raise unknown(f"{rubric_path(rubric)}: when", condition, list(CONDITIONS), "the benchmarks' conditions")
        if named.count(rubric) > 1:
            raise UserError(key, f"{rubric} is listed twice", "list it once")
        if (read_rubric(rubric).rubric.about != "replies") != (rubric in judge.tags):
            raise UserError(key, f"{rubric} is not about what it is listed for", "`tags` are of items and criteria")
    for rubric in judge.pairs:
        loaded = read_rubric(rubric)
        if not loaded.rubric.rules.of_labelled_pairs:
            kinds = kinds_with(lambda kind: kind.of_labelled_pairs)
            raise UserError(f"{key}.pairs", f"{rubric} is of kind {loaded.rubric.kind}", f"name one of kind {kinds}")
        if not loaded.rubric.both_orders:
            raise UserError(str(rubric_path(rubric)), "one order alone measures the place", "set both_orders: true")
        check_rubric_variables(loaded, PAIR_VARIABLES)
    for loaded_card in plan.cards.values():
        card = loaded_card.card
        if JUDGE in card.graders and chosen_rubrics(judge.rubrics, card.rubrics):
            loaded = rubric_of(key, judge, card)
            variables = offered_by(card, loaded, LOADERS[card.loader].judged)
            check_rubric_variables(loaded, variables)
            if more := loaded.rubric.follow_up:
                check_rubric_variables(read_rubric(more.rubric), variables)
    plan.wordings(name)
    for release in plan.label_sets:
        if labelled := plan.rubric_on(name, release):
            check_rubric_variables(labelled, set(plan.label_source(release).variables))


def check_encoders(plan: Plan) -> None:
    """Every encoder exists, is listed once and has its pins."""
    for number, name in enumerate(plan.run.encoders):
        key = f"run.encoders[{number}]"
        check_entry(plan.models, key, name, (WeightsOnly,), "weights of an encoder")
        if name in plan.run.encoders[:number]:
            raise UserError(key, f"{name!r} is listed twice", "list it once")
        model = plan.models[name]
        assert isinstance(model, WeightsOnly)
        model.weights.refuse_unpinned(f"models.{name}.weights")


def check_members(plan: Plan, name: str) -> None:
    """The judges of a panel are asked in this run, and share a rubric."""
    panel, key = plan.judge_entry(name), f"models.{name}"
    for number, member in enumerate(panel.judges):
        place = f"{key}.judges[{number}]"
        check_entry(plan.models, place, member, (JudgeModel,), "a judge")
        if plan.judge_entry(member).judges:
            raise UserError(place, f"{member} is a panel too", "name its judges instead")
        if member not in plan.run.judges:
            raise UserError(place, f"{member} is not asked in this run", "add it to run.judges")
    if not panel.rubrics and not panel.pairs:
        own = "; ".join(f"{one}: {', '.join(plan.rubric_names(one))}" for one in panel.judges)
        raise UserError(f"{key}.judges", f"they share no rubric ({own})", "give them one that all have")


def check_panel(plan: Plan, name: str) -> None:
    """The judges of a panel judge by the same rubrics, and their vote can be counted."""
    panel, key = plan.judge_entry(name), f"models.{name}"
    for member, key_of_rubrics in ((member, one) for member in panel.judges for one in ("rubrics", "pairs")):
        own = getattr(plan.judge_entry(member), key_of_rubrics)
        if strange := [rubric for rubric in getattr(panel, key_of_rubrics) if rubric not in own]:
            problem = f"{strange[0]} is none of {member}'s"
            raise UserError(f"{key}.{key_of_rubrics}", problem, "leave the key out: a panel has what its judges share")
    for member in panel.judges:
        check_same_rubrics(plan, name, member)
    if panel.vote == "mean":
        further = [read_rubric(rubric).rubric.follow_up for rubric in panel.rubrics]
        for rubric in (*panel.rubrics, *(more.rubric for more in further if more)):
            levels = {title: criterion.level for title, criterion in read_rubric(rubric).rubric.criteria.items()}
            if nominal := [title for title, level in levels.items() if level == "nominal"]:
                problem = f"the labels of {nominal[0]} ({rubric}) have no order, so no mean"
                raise UserError(f"{key}.vote", problem, "vote: majority, or fitted")
    if panel.vote == "fitted" and not plan.releases_for(name) and not panel.pairs:
        problem = "nothing that people have labelled is judged by its rubrics, so there is nothing to fit"
        raise UserError(f"{key}.vote", problem, "vote: majority, or name a labelled set in run.labels")


def check_words(plan: Plan, name: str) -> None:
    """The rubrics of a judge by lists of words have criteria with such a list, and labels of their own."""
    from maieutic.validation.floors import HEURISTICS

    for rubric in plan.judge_entry(name).rubrics:
        card = read_rubric(rubric).rubric
        if card.rules.paired or not set(card.criteria) & set(HEURISTICS):
            problem = f"no criterion of {rubric} has a list of words"
            fix = f"a rubric with some of {', '.join(HEURISTICS)}"
            raise UserError(f"models.{name}.rubrics", problem, fix)


def check_same_rubrics(plan: Plan, name: str, member: str) -> None:
    """A judge of a panel judges each task and each labelled set by the rubric by which the panel does."""
    panel, judge, fix = plan.judge_entry(name), plan.judge_entry(member), "list the rubrics of both in one order"
    for path, loaded in plan.cards.items():
        card = loaded.card
        if JUDGE in card.graders and chosen_rubrics(panel.rubrics, card.rubrics):
            both = [rubric_of(f"models.{one}", entry, card).name for one, entry in ((name, panel), (member, judge))]
            if len(set(both)) == 2:
                raise UserError(f"models.{member}.rubrics", f"{path}: {both[1]}, and the panel {name} {both[0]}", fix)
    for release in plan.told_releases(name):
        one, other = plan.rubric_on(name, release), plan.rubric_on(member, release)
        if one and (other is None or one.name != other.name):
            found = other.name if other else "none"
            raise UserError(f"models.{member}.rubrics", f"{release}: {found}, and the panel {name} {one.name}", fix)


def rubrics_that_fit(about: LabelSetAbout) -> list[str]:
    """The rubric cards on file by which a judge can be checked on a labelled set."""
    return [name for name in rubric_names() if fits(about, read_rubric(name))]


def check_labels(plan: Plan) -> None:
    """The labelled sets exist; those that this run reads are pinned in its edition."""
    check_all(partial(plan.label_source, name) for name in plan.label_sets)
    check_all(partial(check_table, plan.label_sets[name]) for name in plan.releases)
    for key, names, labelled in (
        ("labels", plan.run.labels or [], True),
        ("predictions", plan.run.predictions, False),
    ):
        known = [name for name in plan.label_sets if plan.label_source(name).labelled == labelled]
        for number, name in enumerate(names):
            if name not in plan.label_sets:
                raise unknown(f"run.{key}[{number}]", name, known, "the labelled releases")
            if name not in known:
                what = "has no labels" if labelled else "has people's labels already"
                raise UserError(f"run.{key}[{number}]", f"{name} {what}", f"known: {', '.join(known)}")
            if name in names[:number]:
                raise UserError(f"run.{key}[{number}]", f"{name} is listed twice", "list it once")
    if plan.run.predictions and not any(plan.predicted_releases(judge) for judge in plan.run.judges):
        raise UserError(
            "run.predictions", "no judge of run.judges has a rubric for it", "name one with mrbench_taxonomy"
        )
    for number, name in enumerate(plan.run.labels or []):
        # Tables of MRBench's dimensions are made of the labels alone; another release has something to say of a judge.
        if name not in plan.taxonomies and not any(plan.rubric_on(judge, name) for judge in plan.run.judges):
            by = ", ".join(rubrics_that_fit(plan.label_source(name).about))
            mend = f"name a judge with one (rubrics: [{by}]) in run.judges, or leave the release out"
            raise UserError(f"run.labels[{number}]", f"no judge of run.judges has a rubric for {name}", mend)
    for source in plan.releases:
        for dataset in plan.label_datasets(source):
            if dataset not in plan.datasets:
                raise unknown(f"labelled release {source}", dataset, list(plan.datasets), "the registry")
            plan.datasets[dataset].copy_of(dataset, plan.edition)
