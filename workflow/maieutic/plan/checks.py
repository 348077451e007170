"""Check a configuration before any work starts: names, cards, pins, graders and labels.

Each fault is one line with the key's path and the fix. Faults of one kind (names, cards, entries) are listed together.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from maieutic.config import cards
from maieutic.config.budget import check_answer_limits, check_prices
from maieutic.config.cards import LoadedCard
from maieutic.config.models import (
    BaselineModel,
    HostedModel,
    JudgeModel,
    RecordedModel,
    VllmModel,
)
from maieutic.config.registry import check_entry, unknown_name
from maieutic.config.settings import Config
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all, check_in_turn
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sources import local_copy
from maieutic.graders.registry import GRADERS
from maieutic.plan.plan import Plan


def check_selection(plan: Plan) -> None:
    """Check that everything a run selects exists, is available and fits together, for the run and for each slice.

    Raises UserError with the faults of the first group of checks that fails. If the only faults of a group are missing
    pins, the later groups are checked too.
    """
    slices = [part.checks for part in plan.slices]
    check_all(
        (
            *(partial(check_name_of_tutor, plan, number, name) for number, name in enumerate(plan.run.tutors)),
            partial(check_data_folder, plan.config),
            lambda: plan.cards,
            *(check for part in slices for check in part.names(plan)),
        )
    )
    check_in_turn(
        (
            partial(check_protocol, plan),
            *(partial(check_card, plan, path, loaded) for path, loaded in plan.cards.items()),
            *(check for part in slices for check in part.cards(plan)),
        ),
        (check for part in slices for check in part.entries(plan)),
        (
            partial(check_pins, plan),
            partial(check_budget, plan),
            *(check for part in slices for check in part.data(plan)),
        ),
    )


def check_start(plan: Plan) -> None:
    """Make the checks that are needed only when a run starts. Raises UserError with the faults of all of them."""
    check_all(check for part in plan.slices for check in part.checks.start(plan))


def check_data_folder(config: Config) -> None:
    """Raise UserError if `data_dir` is set for the published edition but is not a folder."""
    if config.data_dir is not None and config.edition == "published" and not Path(config.data_dir).is_dir():
        raise UserError(
            "data_dir", f"{config.data_dir} is not a folder", "set it to the folder of the published files, or to null"
        )


def check_pins(plan: Plan) -> None:
    """Raise UserError that lists the models in use whose weights have no pinned commit."""
    # A name that no registry has is reported by the check of the key that contains it.
    weights = {name: getattr(plan.models.get(name), "weights", None) for name in plan.used_models}
    check_all(partial(kept.refuse_unpinned, f"models.{name}.weights") for name, kept in weights.items() if kept)


def check_budget(plan: Plan) -> None:
    """Raise UserError if the budget names an unknown model or a judge, or limits costs but a model has no price."""
    budget = plan.run.budget
    for name in budget.models:
        if name not in plan.models:
            raise unknown_name(f"run.budget.models.{name}", name, list(plan.models), "the registries")
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
    check_prices(budget, plan.models, plan.answering_models)
    check_answer_limits(budget, plan.models, plan.answering_models)


def check_name_of_tutor(plan: Plan, number: int, name: str) -> None:
    """Raise UserError if a name in run.tutors is unknown, is not a tutor, or is listed twice."""
    key = f"run.tutors[{number}]"
    check_entry(plan.models, key, name, (VllmModel, HostedModel, BaselineModel, RecordedModel), "a tutor")
    if name in plan.run.tutors[:number]:
        raise UserError(key, f"{name!r} is listed twice", "list it once")


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
    if LOADERS[card.loader].scripted and len(card.turns) > 1:
        problem = (
            f"expected one file, since the items of loader {card.loader} have the later turns, found {len(card.turns)}"
        )
        raise UserError(
            f"{path}: turns", problem, "keep the file of the first turn, whose variable `student` is replaced"
        )
    cards.check_variables(path, loaded, LOADERS[card.loader].variables)
