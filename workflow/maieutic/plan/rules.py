"""What rules ask of a plan: their input files, what their commands are told, the code that they rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from types import ModuleType
from typing import Any, Protocol

from maieutic.config.models import Needs
from maieutic.config.people import TABLE
from maieutic.config.pins import pinned, read_pins
from maieutic.config.settings import read_config
from maieutic.core.errors import Unpinned, UserError, check_in_turn
from maieutic.core.plugins import parts, places
from maieutic.plan import digest, inputs, jobs
from maieutic.plan.checks import check_people, check_selection
from maieutic.plan.plan import Plan
from maieutic.plan.planning import Planning
from maieutic.plan.syntax import Name

Instead = dict[Name, tuple[Name, ...]]
TEMPLATES = {
    "write-model-card": ("validation/card.*.jinja",),
    "build-report": (
        *("report/*.css", "report/*.js", "report/vendor/*.js", "report/*.jinja"),
        *(f"{place}/*.jinja" for place in places()),
    ),
}
# What one kind of tutor does not use of the command that all are asked by.
UNUSED_BY_SERVED: Instead = {Name("replies.baselines", "baseline_reply"): ()}
UNUSED_BY_BASELINES: Instead = {Name("serving.backends", "backend_of"): (), Name("replies.generate", "run_job"): ()}


EXTENSIONS: tuple[Planning, ...] = tuple(parts("planning", "PLANNING").values())
# Where the function of a rule's name is.
INPUTS = (inputs, *(extension.inputs for extension in EXTENSIONS))
JOBS = (jobs, *(extension.jobs for extension in EXTENSIONS))


def part_of(modules: Iterable[ModuleType], rule: str) -> Callable[..., Any]:
    """The function of a rule's name. Raises StopIteration where no module has one."""
    function: Callable[..., Any] = next(getattr(module, rule) for module in modules if hasattr(module, rule))
    return function


class Wildcards(Protocol):
    """A job's wildcards, as Snakemake gives them."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class RulePlan(Plan):
    """A plan with the parts of each rule, by the rule's name."""

    def inputs_of(self, rule: str) -> Callable[[Wildcards], inputs.Files]:
        """The function of a rule's input files, from its wildcards."""
        find = part_of(INPUTS, rule)
        more: inputs.Files = {}
        for extension in EXTENSIONS if rule == "build_report" else ():
            more |= extension.report_files(self)
        return lambda wildcards: {**find(self, **dict(wildcards.items())), **more}

    def job_of(self, rule: str) -> Callable[[Wildcards], str]:
        """The function of what a rule hands to its command, from its wildcards, as JSON."""
        make = part_of(JOBS, rule)
        return lambda wildcards: make(self, **dict(wildcards.items())).to_json()

    def code_of(self, rule: str) -> str | Callable[[Wildcards], str]:
        """The digest of the code that decides a rule's results; its function where the wildcards decide that too."""
        command = rule.replace("_", "-")
        files = [file for pattern in TEMPLATES.get(command, ()) for file in digest.HERE.glob(pattern)]
        instead = INSTEAD.get(rule)
        if instead is None:
            return digest.code_of(command, None, files)
        return lambda wildcards: code_without(command, tuple(instead(self, **dict(wildcards.items())).items()))

    # machines ---------------------------------------------------------------------------------------------------------

    def models_of(self, wildcards: Wildcards) -> list[str]:
        """The registry entries that a job asks or trains: of its wildcards, of a judge the one that answers."""
        names = dict(wildcards.items())
        for extension in EXTENSIONS:
            if (models := extension.models_of(self, names)) is not None:
                return models
        return [self.answering(names[kind]) for kind in MODEL_WILDCARDS if kind in names]

    def threads(self, wildcards: Wildcards) -> int:
        """The cores of one job of a model."""
        return self.needs(wildcards).cpus

    def memory(self, wildcards: Wildcards) -> int:
        """The memory of one job that asks somebody else's model, in MB."""
        return self.needs(wildcards).mem_mb

    def needs(self, wildcards: Wildcards) -> Needs:
        """What one job of a model asks of a machine."""
        names = dict(wildcards.items())
        for extension in EXTENSIONS:
            if (needs := extension.needs_of(self, names)) is not None:
                return needs
        [model] = self.models_of(wildcards)
        return self.models[model].needs


@cache
def code_without(command: str, instead: tuple[tuple[Name, tuple[Name, ...]], ...]) -> str:
    """A digest of a command's code in which some definitions have others in their place."""
    return digest.code_of(command, dict(instead))


MODEL_WILDCARDS = ("encoder", "judge", "tagger", "reward_model", "classifier", "tutor", "model")


# Of the tables that a command looks its functions up in, the one that a job uses: an edit of another re-runs nothing.


def used_by_make_items(plan: Plan, benchmark: str, task: str) -> Instead:
    """Of the table of loaders the card's own."""
    from maieutic.datasets.registry import LOADERS

    loader = LOADERS[plan.card(benchmark, task).loader].load
    return {Name("datasets.registry", "LOADERS"): (digest.name_of(loader), Name("datasets.loaders", "Loader"))}


def used_by_make_pairs(plan: Plan, source: str) -> Instead:
    """Of the table of sources of pairs the one that is made."""
    entry = plan.config.preferences.get(source)
    if entry is not None and entry.loader == TABLE:
        return {Name("rewards.pairs", "PAIR_SOURCES"): (Name("rewards.sources", "PairSource"),)}
    load = plan.pair_source(source).load
    return {Name("rewards.pairs", "PAIR_SOURCES"): (digest.name_of(load), Name("rewards.sources", "PairSource"))}


def used_by_generate_replies(plan: Plan, tutor: str, **others: str) -> Instead:
    """A model no baselines, a baseline no conversation."""
    return UNUSED_BY_BASELINES if tutor in plan.with_engine("baseline") else UNUSED_BY_SERVED


INSTEAD: dict[str, Callable[..., Instead]] = {
    "make_items": used_by_make_items,
    "make_pairs": used_by_make_pairs,
    "generate_replies": used_by_generate_replies,
}


@cache
def extended() -> type[RulePlan]:
    """The class of plans, with what extensions add."""
    return type("ExtendedPlan", (RulePlan, *(extension.plan for extension in EXTENSIONS)), {})


def plan_of(raw: dict[str, Any]) -> RulePlan:
    """The plan of a configuration, and of the labels that people gave. Raises UserError for its first fault."""
    plan = unchecked(raw)
    check(plan)
    return plan


def unchecked(raw: dict[str, Any]) -> RulePlan:
    """The plan of a configuration whose keys are right, whatever they select."""
    plan: RulePlan = extended()(read_config(pinned(raw, read_pins())))
    return plan


def check(plan: RulePlan) -> None:
    """Raises UserError for what a plan selects, and for the labels that people gave."""
    check_in_turn([partial(check_selection, plan)], [partial(extension.check, plan) for extension in EXTENSIONS])
    check_people(plan)


def plan_before_pins(raw: dict[str, Any]) -> tuple[RulePlan, list[UserError]]:
    """The plan of a configuration that may lack pins, and which it lacks. Raises UserError for other faults."""
    plan = unchecked(raw)
    try:
        check(plan)
    except UserError as error:
        if others := [fault for fault in error.all if not isinstance(fault, Unpinned)]:
            raise UserError.of(others) from None
        return plan, error.all
    return plan, []
