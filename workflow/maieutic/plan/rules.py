"""Parts of a rule that follow from the plan: its input files, the job of its command, the digest of its code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from types import ModuleType
from typing import Any, Protocol

from maieutic.config.models import Needs
from maieutic.config.people import TABLE_LOADER
from maieutic.config.pins import fill_pins, read_pins
from maieutic.config.settings import read_config
from maieutic.core.errors import Unpinned, UserError, check_in_turn
from maieutic.core.plugins import plugin_folders, plugin_objects
from maieutic.plan import digest, inputs, jobs
from maieutic.plan.checks import check_people_labels, check_selection
from maieutic.plan.plan import Plan
from maieutic.plan.plan_extension import PlanExtension
from maieutic.plan.syntax import Name

Replacements = dict[Name, tuple[Name, ...]]
TEMPLATES = {
    "write-model-card": ("validation/card.*.jinja",),
    "build-report": (
        *("report/*.css", "report/*.js", "report/vendor/*.js", "report/*.jinja"),
        *(f"{place}/*.jinja" for place in plugin_folders()),
    ),
}
# All tutors share one command; these are the definitions in it that one kind of tutor never uses.
UNUSED_BY_SERVED: Replacements = {Name("replies.baselines", "baseline_reply"): ()}
UNUSED_BY_BASELINES: Replacements = {
    Name("serving.backends", "backend_of"): (),
    Name("replies.generate", "run_conversations"): (),
}


EXTENSIONS: tuple[PlanExtension, ...] = tuple(plugin_objects("planning", "PLANNING").values())
# Modules with one function per rule, named like the rule.
INPUTS = (inputs, *(extension.inputs for extension in EXTENSIONS))
JOBS = (jobs, *(extension.jobs for extension in EXTENSIONS))


def rule_function(modules: Iterable[ModuleType], rule: str) -> Callable[..., Any]:
    """Return the function named like a rule. Raises StopIteration if no module has one."""
    function: Callable[..., Any] = next(getattr(module, rule) for module in modules if hasattr(module, rule))
    return function


class JobWildcards(Protocol):
    """Wildcards of a job, as Snakemake passes them."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class RulePlan(Plan):
    """A plan that provides each rule's input files, job, code digest and resources, by the rule's name."""

    def inputs_of(self, rule: str) -> Callable[[JobWildcards], inputs.Files]:
        """Return the function that maps a rule's wildcards to its input files."""
        find = rule_function(INPUTS, rule)
        more: inputs.Files = {}
        for extension in EXTENSIONS if rule == "build_report" else ():
            more |= extension.report_files(self)
        return lambda wildcards: {**find(self, **dict(wildcards.items())), **more}

    def job_of(self, rule: str) -> Callable[[JobWildcards], str]:
        """Return the function that maps a rule's wildcards to the JSON job of its command."""
        make = rule_function(JOBS, rule)
        return lambda wildcards: make(self, **dict(wildcards.items())).to_json()

    def code_of(self, rule: str) -> str | Callable[[JobWildcards], str]:
        """Return the digest of the code behind a rule's results; a function if the digest depends on the wildcards."""
        command = rule.replace("_", "-")
        files = [file for pattern in TEMPLATES.get(command, ()) for file in digest.HERE.glob(pattern)]
        instead = REPLACEMENTS.get(rule)
        if instead is None:
            return digest.code_of(command, None, files)
        return lambda wildcards: code_with_replacements(
            command, tuple(instead(self, **dict(wildcards.items())).items())
        )

    # machines ---------------------------------------------------------------------------------------------------------

    def models_of(self, wildcards: JobWildcards) -> list[str]:
        """Return the registry entries that a job calls or trains; for a judge, the entry that answers."""
        names = dict(wildcards.items())
        for extension in EXTENSIONS:
            if (models := extension.models_of(self, names)) is not None:
                return models
        return [self.answering_entry(names[kind]) for kind in MODEL_WILDCARDS if kind in names]

    def threads(self, wildcards: JobWildcards) -> int:
        """Return the number of cores of a job that calls a model."""
        return self.needs(wildcards).cpus

    def memory(self, wildcards: JobWildcards) -> int:
        """Return the memory in MB of a job that calls a hosted model."""
        return self.needs(wildcards).mem_mb

    def needs(self, wildcards: JobWildcards) -> Needs:
        """Return the machine resources of a job that calls a model."""
        names = dict(wildcards.items())
        for extension in EXTENSIONS:
            if (needs := extension.needs_of(self, names)) is not None:
                return needs
        [model] = self.models_of(wildcards)
        return self.models[model].needs


@cache
def code_with_replacements(command: str, instead: tuple[tuple[Name, tuple[Name, ...]], ...]) -> str:
    """Return the digest of a command's code with some definitions replaced by others."""
    return digest.code_of(command, dict(instead))


MODEL_WILDCARDS = ("encoder", "judge", "tagger", "reward_model", "classifier", "tutor", "model")


# In these digests, a look-up table is replaced by the one entry that a job uses, so that edits of other entries do not
# re-run the job.


def used_by_make_items(plan: Plan, benchmark: str, task: str) -> Replacements:
    """Replace the table of loaders by the loader of the task's card."""
    from maieutic.datasets.registry import LOADERS

    loader = LOADERS[plan.card(benchmark, task).loader].load
    return {Name("datasets.registry", "LOADERS"): (digest.as_definition(loader), Name("datasets.loaders", "Loader"))}


def used_by_make_pairs(plan: Plan, source: str) -> Replacements:
    """Replace the table of pair sources by the source that the job builds."""
    entry = plan.config.preferences.get(source)
    if entry is not None and entry.loader == TABLE_LOADER:
        return {Name("rewards.pairs", "PAIR_SOURCES"): (Name("rewards.sources", "PairSource"),)}
    load = plan.pair_source(source).load
    return {Name("rewards.pairs", "PAIR_SOURCES"): (digest.as_definition(load), Name("rewards.sources", "PairSource"))}


def used_by_generate_replies(plan: Plan, tutor: str, **others: str) -> Replacements:
    """If the tutor is a model, leave out the code of baselines; if it is a baseline, that of conversations."""
    return UNUSED_BY_BASELINES if tutor in plan.with_engine("baseline") else UNUSED_BY_SERVED


REPLACEMENTS: dict[str, Callable[..., Replacements]] = {
    "make_items": used_by_make_items,
    "make_pairs": used_by_make_pairs,
    "generate_replies": used_by_generate_replies,
}


@cache
def extended_plan_class() -> type[RulePlan]:
    """Return the plan class with the mixins of all extensions."""
    return type("ExtendedPlan", (RulePlan, *(extension.plan for extension in EXTENSIONS)), {})


def plan_of(raw: dict[str, Any]) -> RulePlan:
    """Return the checked plan of a configuration. Raises UserError with the faults of the first failing check."""
    plan = unchecked_plan(raw)
    check_plan(plan)
    return plan


def unchecked_plan(raw: dict[str, Any]) -> RulePlan:
    """Return the plan of a configuration whose keys are valid, without checking its selection."""
    plan: RulePlan = extended_plan_class()(read_config(fill_pins(raw, read_pins())))
    return plan


def check_plan(plan: RulePlan) -> None:
    """Check a plan's selection and its human labels. Raises UserError if a check fails."""
    check_in_turn([partial(check_selection, plan)], [partial(extension.check, plan) for extension in EXTENSIONS])
    check_people_labels(plan)


def plan_before_pins(raw: dict[str, Any]) -> tuple[RulePlan, list[UserError]]:
    """Return a checked plan and the errors of its missing pins. Raises UserError for any other fault."""
    plan = unchecked_plan(raw)
    try:
        check_plan(plan)
    except UserError as error:
        if others := [fault for fault in error.all if not isinstance(fault, Unpinned)]:
            raise UserError.of(others) from None
        return plan, error.all
    return plan, []
