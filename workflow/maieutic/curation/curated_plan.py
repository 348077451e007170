"""Curations and tunings in the plan of a run, and the checks that precede their jobs."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path

from maieutic.config.curation import STAGES as FOLDER
from maieutic.config.curation import Curation, FineTuning, read_stage
from maieutic.config.models import HostedModel, Needs, PackagedWeights, TunedWeights, VllmModel, Weights, WeightsOnly
from maieutic.config.prompts import template_variables
from maieutic.config.registry import check_entry, unknown_name
from maieutic.core.errors import UserError, check_all
from maieutic.core.paths import Pattern
from maieutic.curation import parsers, rules
from maieutic.curation.parsers import PARSERS
from maieutic.curation.pipeline import STAGES
from maieutic.curation.rules import RULES
from maieutic.datasets.registry import LOADERS
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import WildcardValues
from maieutic.serving.weights import has_chat_template

HOME = "results/curation/{curation}"
SEEDS = Pattern(f"{HOME}/seeds.jsonl")
SHEET = Pattern(f"{HOME}/flows.csv")
OUTCOMES = Pattern(HOME + "/outcomes/{step}.jsonl")
SETS = {"skills": Pattern(f"{HOME}/sets/skills.jsonl"), "dialogues": Pattern(f"{HOME}/sets/dialogues.jsonl")}
EVALUATION_SHEET = Pattern(f"{HOME}/sets/evaluation.json")
TRAINING_SET = Pattern(f"{HOME}/sets/training.jsonl")
TRAINING_SHEET = Pattern(f"{HOME}/sets/training.json")
FIGURES = Pattern(f"{HOME}/figures.json")
RATINGS = Pattern(HOME + "/ratings/{judge}.jsonl")
EXAMPLES = Pattern("results/tuning/{tuning}/examples.jsonl")
TUNED = Pattern("results/tuning/{tuning}/model/manifest.json")


class CurationPlan(Plan):
    """A run's plan that includes curations and tunings."""

    @cached_property
    def curated(self) -> dict[str, tuple[str, str]]:
        """Map from each dataset that a curation generates to the curation and its product: `skills` or `dialogues`."""
        by_dataset = {}
        for name, dataset in self.datasets.items():
            copy = dataset.demo if self.edition == "demo" else dataset.published
            if copy is not None and copy.curated:
                curation, _, product = copy.curated.partition("/")
                by_dataset[name] = (curation, product)
        return by_dataset

    @cached_property
    def tuned(self) -> dict[str, str]:
        """Map from each tuned model in the registry to the tuning that trains it."""
        return {
            name: model.weights.tuned
            for name, model in self.models.items()
            if isinstance(model, VllmModel) and isinstance(model.weights, TunedWeights)
        }

    def curation(self, name: str) -> Curation:
        """Return the configuration entry of a curation."""
        return self.config.curations[name]

    @cached_property
    def used_models(self) -> list[str]:
        """All models in use, including the models of curations and the bases of tunings."""
        roles = [name for entry in self.config.curations.values() for name in entry.roles.models]
        return list(
            dict.fromkeys([*super().used_models, *roles, *(entry.base for entry in self.config.tunings.values())])
        )

    @cached_property
    def used_datasets(self) -> list[str]:
        """All datasets in use, including the seeds of curations and the chats of tunings."""
        seeds = {name for entry in self.config.curations.values() for name in entry.seeds}
        mixed = {name for entry in self.config.tunings.values() for name in entry.mix if name in self.datasets}
        return sorted({*super().used_datasets, *seeds, *mixed})

    def tuning_needs(self, tuning: str) -> Needs:
        """Return the resources of a fine-tuning: the tuning's own `needs` if set, else the needs of its base model."""
        entry = self.config.tunings[tuning]
        return entry.needs or self.models[entry.base].needs

    def models_of_step(self, curation: str, step: str) -> list[str]:
        """Return the models that one job of a curation calls. step: name of the job, a key in `STAGES`."""
        roles = self.curation(curation).roles
        return sorted({name for stage in STAGES[step] for name in roles.entries_with(read_stage(stage).card.role)})

    @cached_property
    def raters(self) -> list[str]:
        """Judges in the run that rate curated dialogues. Each is validated on labels of MRBench's dimensions."""
        return [name for name in self.judges_with_model if self.taxonomy_release(name)]

    def curations_of_step(self, step: str, *, served: bool) -> list[str]:
        """Return the curations whose job of a step calls a model that this run serves, or those that call none."""
        models = self.with_engine("vllm")
        return [
            name
            for name in self.config.curations
            if served == any(model in models for model in self.models_of_step(name, step))
        ]


# checks ---------------------------------------------------------------------------------------------------------------


def check_curations(plan: CurationPlan) -> None:
    """Check the curations, the tunings, and all references to them. Raises UserError that lists all faults."""
    if plan.config.curations:
        check_all(partial(check_stage, name) for stages in STAGES.values() for name in stages)
    check_all(
        (
            *(partial(check_curation, plan, name) for name in plan.config.curations),
            *(partial(check_tuning, plan, name) for name in plan.config.tunings),
            *(partial(check_curated, plan, name) for name in plan.curated if name in plan.used_datasets),
            *(partial(check_tuned, plan, name) for name in plan.tuned if name in plan.used_models),
        )
    )


def check_stage(name: str) -> None:
    """Check that a stage's card names a known parser and a known acceptance rule, and sets the limits that they read.

    Also check that the stage's prompt template can be parsed.
    """
    card = read_stage(name).card
    place = str(FOLDER / f"{name}.yaml")
    for key, value, known in (("parser", card.parser, PARSERS), ("accept", card.accept, RULES)):
        if value not in known:
            raise unknown_name(f"{place}: {key}", value, list(known), f"the {key}s of stages")
    needed = parsers.PARSER_LIMITS.get(card.parser, frozenset()) | rules.RULE_LIMITS.get(card.accept, frozenset())
    if missing := sorted(needed - card.limits.keys()):
        fix = f"add {' and '.join(missing)} to limits: {card.parser} and {card.accept} need {', '.join(sorted(needed))}"
        raise UserError(
            f"{place}: limits", f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", fix
        )
    if card.samples > 1 and card.accept not in rules.RULES_OF_SEVERAL_ANSWERS:
        problem = f"expected 1, since {card.accept} uses only one answer, found {card.samples}"
        raise UserError(f"{place}: samples", problem, "set samples: 1")
    try:
        template_variables(read_stage(name).template)
    except ValueError as error:
        problem = f"the template cannot be parsed: {error}"
        raise UserError(str(FOLDER / card.prompt), problem, "correct the template's Jinja syntax") from None


def check_curation(plan: CurationPlan, name: str) -> None:
    """Check one curation: its seeds, the models of its roles, their prices, and the sheet of people's decisions."""
    entry, key = plan.curation(name), f"curations.{name}"
    check_all(
        partial(check_seeds, plan, f"{key}.seeds.{dataset}", dataset, loader) for dataset, loader in entry.seeds.items()
    )
    roles = [(role, value) for role, value in entry.roles.model_dump().items() if value is not None]
    named = [
        (f"{key}.roles.{role}{f'[{place}]' if isinstance(value, list) else ''}", model)
        for role, value in roles
        for place, model in enumerate(value if isinstance(value, list) else [value])
    ]
    can_answer = "a model that can answer requests"
    check_all(
        partial(check_entry, plan.models, place, model, (VllmModel, HostedModel), can_answer) for place, model in named
    )
    if entry.people is not None and not Path(entry.people).is_file():
        fix = f"copy {SHEET.of(curation=name)} to {entry.people} and fill in the copy, or set people: null"
        raise UserError(f"{key}.people", f"{entry.people} does not exist", fix)


def check_seeds(plan: CurationPlan, key: str, dataset: str, loader: str) -> None:
    """Check that a source of seeds is a pinned dataset, and that its loader returns questions."""
    if dataset not in plan.datasets:
        raise unknown_name(key, dataset, list(plan.datasets), "the registries")
    asking = [name for name, candidate in LOADERS.items() if "question" in candidate.variables]
    if loader not in asking:
        raise unknown_name(key, loader, asking, "the loaders that return questions")
    plan.datasets[dataset].file_of(dataset, plan.edition)


def check_tuning(plan: CurationPlan, name: str) -> None:
    """Check one tuning: its base model, its batch size, and the sources in its mix."""
    entry, key = plan.config.tunings[name], f"tunings.{name}"
    check_entry(plan.models, f"{key}.base", entry.base, (VllmModel, WeightsOnly), "a model with weights to train")
    base = plan.models[entry.base]
    assert isinstance(base, VllmModel | WeightsOnly)
    if isinstance(base.weights, TunedWeights):
        raise UserError(f"{key}.base", f"{entry.base} is itself a tuned model", "choose a base that is not tuned")
    check_all(
        (
            partial(check_template, f"{key}.base", entry.base, base.weights),
            partial(check_batch, f"{key}.batch_size", entry, plan.tuning_needs(name).gpus),
            *(partial(check_mixed, plan, f"{key}.mix", source) for source in entry.mix),
        )
    )


def check_batch(key: str, entry: FineTuning, gpus: int) -> None:
    """Check that a tuning's batch can be divided evenly among its training processes."""
    workers = entry.workers(gpus)
    if entry.batch_size % (entry.micro_batch * workers):
        problem = f"{entry.batch_size} is not divisible by micro_batch times {workers} processes"
        raise UserError(key, problem, f"set a multiple of {entry.micro_batch * workers}")


def check_mixed(plan: CurationPlan, key: str, source: str) -> None:
    """Check that a source in a tuning's mix is a curation of this run or a pinned dataset."""
    if source in plan.config.curations:
        return
    if source not in plan.datasets:
        raise unknown_name(key, source, [*plan.config.curations, *plan.datasets], "curations and the registries")
    plan.datasets[source].file_of(source, plan.edition)


def check_template(key: str, name: str, weights: PackagedWeights | Weights) -> None:
    """Check that a base model in a local folder has a chat template.

    A base model from a repository is checked after its download.
    """
    folder = Path(weights.path) if isinstance(weights, Weights) and weights.path else None
    if folder is not None and folder.is_dir() and not has_chat_template(folder):
        fix = "choose a base with a chat template (an instruct model), or add chat_template.jinja to the base's folder"
        raise UserError(key, f"{name} has no chat template", fix)


def check_curated(plan: CurationPlan, dataset: str) -> None:
    """Check that a curated dataset is a product of a curation of this run."""
    curation, product = plan.curated[dataset]
    key = f"datasets.{dataset}.{plan.edition}.curated"
    if curation not in plan.config.curations:
        raise unknown_name(key, curation, list(plan.config.curations), "curations")
    if product not in SETS:
        raise unknown_name(key, product, list(SETS), "the evaluation sets of a curation")


def check_tuned(plan: CurationPlan, name: str) -> None:
    """Check that a tuned model names a tuning of this run as the source of its weights."""
    tuning = plan.tuned[name]
    if tuning not in plan.config.tunings:
        raise unknown_name(f"models.{name}.weights.tuned", tuning, list(plan.config.tunings), "tunings")


# values that rules use ------------------------------------------------------------------------------------------------


def base_of(plan: CurationPlan, tuning: str) -> str:
    """Return the name of the base model that a tuning starts from."""
    return plan.config.tunings[tuning].base


def curation_of_job(names: WildcardValues) -> str | None:
    """Return the curation whose models a job calls; None if the job calls a judge or belongs to no curation.

    names: values of the job's wildcards.
    """
    return None if "judge" in names else names.get("curation")


def models_of(plan: CurationPlan, names: WildcardValues) -> list[str] | None:
    """Return the models that a curation's job calls, or the base model that a tuning's job trains; else None."""
    if curation := curation_of_job(names):
        return plan.curation(curation).roles.models
    return [base_of(plan, names["tuning"])] if "tuning" in names else None


def needs_of(plan: CurationPlan, names: WildcardValues) -> Needs | None:
    """Return the resources of a job that belongs to a curation or a tuning; None for other jobs."""
    if curation := curation_of_job(names):
        return plan.joint_needs(plan.curation(curation).roles.models, plan.curation(curation).runtime)
    return plan.tuning_needs(names["tuning"]) if "tuning" in names else None
