"""Checks of a run's tutors before any work starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from maieutic.config import cards
from maieutic.config.models import BaselineModel, RecordedModel, VllmModel
from maieutic.config.registry import unknown_name
from maieutic.core.errors import UserError
from maieutic.datasets.registry import LOADERS
from maieutic.plan.plan import Plan
from maieutic.replies.baselines import TUTORS
from maieutic.replies.recorded import FORMS


def check_tutor(plan: Plan, name: str) -> None:
    """Raise UserError if a tutor is an unknown baseline, lacks its recorded replies, or has unpinned weights."""
    model = plan.models[name]
    if isinstance(model, BaselineModel) and model.tutor not in TUTORS:
        raise unknown_name(f"models.{name}.tutor", model.tutor, list(TUTORS), "the list of baseline tutors")
    if isinstance(model, RecordedModel):
        for file in (file for file in model.files if not Path(file).is_file()):
            raise UserError(f"models.{name}.file", f"{file} does not exist", "set it to the file with the replies")
        for dataset in model.datasets:
            if dataset not in plan.datasets:
                raise unknown_name(f"models.{name}.dataset", dataset, list(plan.datasets), "the registry")
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
        if len(loaded.card.turns) > 1 or loaded.card.system or LOADERS[loaded.card.loader].scripted:
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


def check_shards(plan: Plan, name: str) -> None:
    """Raise UserError if a tutor's items are split into shards although they have copies, which share requests."""
    if plan.repeats > 1 and plan.shards_of(name):
        problem = "the run has repeats, and an item and its copies must be answered in one job"
        raise UserError(f"models.{name}.shards", problem, "set shards: 1, or remove repeats")


TUTOR_CHECKS = (check_shards, check_replies_format, check_tutor, check_own_protocol, check_completions, check_pictures)


def tutor_checks(plan: Plan) -> list[Callable[[], None]]:
    """Return the checks of all tutors of a run."""
    return [partial(check, plan, name) for name in plan.tutors for check in TUTOR_CHECKS]
