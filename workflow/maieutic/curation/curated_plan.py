"""The curations and tunings of a run: what they add to its plan, and what there is to check before any work."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path

from maieutic.config.budget import check_prices
from maieutic.config.curation import STAGES as FOLDER
from maieutic.config.curation import Curation, FineTuning, read_stage
from maieutic.config.models import HostedModel, Needs, PackagedWeights, TunedWeights, VllmModel, Weights, WeightsOnly
from maieutic.config.prompts import variables_of
from maieutic.config.registry import check_entry, unknown
from maieutic.core.errors import UserError, check_all
from maieutic.curation import parsers, rules
from maieutic.curation.parsers import PARSERS
from maieutic.curation.paths import SETS, SHEET
from maieutic.curation.pipeline import STAGES
from maieutic.curation.rules import RULES
from maieutic.datasets.registry import LOADERS
from maieutic.plan import lines
from maieutic.plan.plan import Plan
from maieutic.plan.planning import Names
from maieutic.serving.weights import has_chat_template


class CurationPlan(Plan):
    """A plan with what its curations and tunings add."""

    @cached_property
    def curated(self) -> dict[str, tuple[str, str]]:
        """By dataset the curation and the product that it is."""
        by_dataset = {}
        for name, dataset in self.datasets.items():
            copy = dataset.demo if self.edition == "demo" else dataset.published
            if copy is not None and copy.curated:
                curation, _, product = copy.curated.partition("/")
                by_dataset[name] = (curation, product)
        return by_dataset

    @cached_property
    def tuned(self) -> dict[str, str]:
        """By tutor of the registry the tuning that makes its weights."""
        return {
            name: model.weights.tuned
            for name, model in self.models.items()
            if isinstance(model, VllmModel) and isinstance(model.weights, TunedWeights)
        }

    def curation(self, name: str) -> Curation:
        """The entry of a curation."""
        return self.config.curations[name]

    @cached_property
    def used_models(self) -> list[str]:
        """With the roles of curations, and the bases of tunings."""
        roles = [name for entry in self.config.curations.values() for name in entry.roles.models]
        return list(
            dict.fromkeys([*super().used_models, *roles, *(entry.base for entry in self.config.tunings.values())])
        )

    @cached_property
    def used_datasets(self) -> list[str]:
        """With the seeds of curations, and the chats of tunings."""
        seeds = {name for entry in self.config.curations.values() for name in entry.seeds}
        mixed = {name for entry in self.config.tunings.values() for name in entry.mix if name in self.datasets}
        return sorted({*super().used_datasets, *seeds, *mixed})

    def role_needs(self, curation: str) -> Needs:
        """What a job that asks a curation's models needs: the GPUs of all that are served, the most of all else."""
        entries = [self.models[name].needs for name in self.curation(curation).roles.models]
        return Needs(
            gpus=sum(entry.gpus for entry in entries),
            cpus=max(entry.cpus for entry in entries),
            mem_mb=sum(entry.mem_mb for entry in entries),
            runtime=self.curation(curation).runtime,
        )

    def tuning_needs(self, tuning: str) -> Needs:
        """What a fine-tuning needs: its own `needs`, else its base's."""
        entry = self.config.tunings[tuning]
        return entry.needs or self.models[entry.base].needs

    def asked_in(self, curation: str, step: str) -> list[str]:
        """The models that one job of a curation asks."""
        roles = self.curation(curation).roles
        return sorted({name for stage in STAGES[step] for name in roles.of(read_stage(stage).card.role)})

    @cached_property
    def raters(self) -> list[str]:
        """The judges of the run that are checked on labels of MRBench's dimensions: they rate curated dialogues."""
        return [name for name in self.asked_judges if self.taxonomy_release(name)]

    def is_served(self, curation: str) -> bool:
        """Whether a model of a curation is served here."""
        return any(isinstance(self.models[name], VllmModel) for name in self.curation(curation).roles.models)


# checks ---------------------------------------------------------------------------------------------------------------


def check_curations(plan: CurationPlan) -> None:
    """Curations, tunings and what refers to them fit together. Raises UserError with all that does not."""
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
    """A stage card names what there is, and its prompt can be read."""
    card = read_stage(name).card
    place = str(FOLDER / f"{name}.yaml")
    for key, value, known in (("parser", card.parser, PARSERS), ("accept", card.accept, RULES)):
        if value not in known:
            raise unknown(f"{place}: {key}", value, list(known), f"the {key}s of stages")
    needed = parsers.LIMITS.get(card.parser, frozenset()) | rules.LIMITS.get(card.accept, frozenset())
    if missing := sorted(needed - card.limits.keys()):
        mend = f"add it to limits: {card.parser} and {card.accept} read {', '.join(sorted(needed))}"
        raise UserError(f"{place}: limits", f"{' and '.join(missing)} is missing", mend)
    if card.samples > 1 and card.accept not in rules.OF_SEVERAL:
        raise UserError(f"{place}: samples", f"{card.accept} reads one answer, found {card.samples}", "set samples: 1")
    try:
        variables_of(read_stage(name).template)
    except ValueError as error:
        raise UserError(str(FOLDER / card.prompt), f"the template cannot be read: {error}", "mend it") from None


def check_curation(plan: CurationPlan, name: str) -> None:
    """One curation: seeds that can be had, roles that models have."""
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
    check_all(partial(check_role, plan, place, model) for place, model in named)
    check_prices(plan.run.budget, plan.models, entry.roles.models)
    if entry.people is not None and not Path(entry.people).is_file():
        fix = f"copy {SHEET.of(curation=name)} there and fill it in, or set people: null"
        raise UserError(f"{key}.people", f"{entry.people} is not there", fix)


def check_seeds(plan: CurationPlan, key: str, dataset: str, loader: str) -> None:
    """A source of seeds: a pinned dataset, and a loader that gives questions."""
    if dataset not in plan.datasets:
        raise unknown(key, dataset, list(plan.datasets), "config/datasets.yaml")
    asking = [name for name, candidate in LOADERS.items() if "question" in candidate.variables]
    if loader not in asking:
        raise unknown(key, loader, asking, "the loaders of problems")
    plan.datasets[dataset].copy_of(dataset, plan.edition)


def check_role(plan: CurationPlan, key: str, name: str) -> None:
    """The model of a role answers, and is pinned."""
    check_entry(plan.models, key, name, (VllmModel, HostedModel), "a model that answers")
    model = plan.models[name]
    if isinstance(model, VllmModel):
        model.weights.refuse_unpinned(f"models.{name}.weights")


def check_tuning(plan: CurationPlan, name: str) -> None:
    """One tuning: a base with weights, sources that there are."""
    entry, key = plan.config.tunings[name], f"tunings.{name}"
    check_entry(plan.models, f"{key}.base", entry.base, (VllmModel, WeightsOnly), "a base: it needs weights of its own")
    base = plan.models[entry.base]
    assert isinstance(base, VllmModel | WeightsOnly)
    if isinstance(base.weights, TunedWeights):
        raise UserError(f"{key}.base", f"{entry.base} is tuned itself", "name weights that this run does not make")
    check_all(
        (
            partial(base.weights.refuse_unpinned, f"models.{entry.base}.weights"),
            partial(check_template, f"{key}.base", entry.base, base.weights),
            partial(check_batch, f"{key}.batch_size", entry, plan.tuning_needs(name).gpus),
            *(partial(check_mixed, plan, f"{key}.mix", source) for source in entry.mix),
        )
    )


def check_batch(key: str, entry: FineTuning, gpus: int) -> None:
    """The processes of a training can share its batch."""
    workers = entry.workers(gpus)
    if entry.batch_size % (entry.micro_batch * workers):
        problem = f"{entry.batch_size} is not divided by micro_batch times {workers} processes"
        raise UserError(key, problem, f"set a multiple of {entry.micro_batch * workers}")


def check_mixed(plan: CurationPlan, key: str, source: str) -> None:
    """A source of a mix is a curation of this run, or a pinned dataset."""
    if source in plan.config.curations:
        return
    if source not in plan.datasets:
        raise unknown(key, source, [*plan.config.curations, *plan.datasets], "curations and config/datasets.yaml")
    plan.datasets[source].copy_of(source, plan.edition)


def check_template(key: str, name: str, weights: PackagedWeights | Weights) -> None:
    """A base in a folder has a chat template; that of a repository is known when its weights are there."""
    folder = Path(weights.path) if isinstance(weights, Weights) and weights.path else None
    if folder is not None and folder.is_dir() and not has_chat_template(folder):
        mend = "name a base that has one (an instruct model), or add chat_template.jinja to its folder"
        raise UserError(key, f"{name} has no chat template", mend)


def check_curated(plan: CurationPlan, dataset: str) -> None:
    """A dataset that this run makes is a product of a curation of this run."""
    curation, product = plan.curated[dataset]
    key = f"datasets.{dataset}.{plan.edition}.curated"
    if curation not in plan.config.curations:
        raise unknown(key, curation, list(plan.config.curations), "curations")
    if product not in SETS:
        raise unknown(key, product, list(SETS), "the sets for evaluation: NAME/skills or NAME/dialogues")


def check_tuned(plan: CurationPlan, name: str) -> None:
    """The tuning that an entry's weights come from is there."""
    tuning = plan.tuned[name]
    if tuning not in plan.config.tunings:
        raise unknown(f"models.{name}.weights.tuned", tuning, list(plan.config.tunings), "tunings")


# what rules ask besides -----------------------------------------------------------------------------------------------


def interpreter_of(plan: CurationPlan, curation: str, judge: str | None = None) -> str:
    """The environment of a job that asks a curation's models, or its rater: vLLM is in one of them."""
    served = plan.is_served(curation) if judge is None else plan.answering(judge) in plan.with_engine("vllm")
    return lines.SERVE if served else lines.DRIVER


def base_of(plan: CurationPlan, tuning: str) -> str:
    """The registry entry that a tuning starts from, with its `needs`."""
    return plan.config.tunings[tuning].base


def curation_asked(names: Names) -> str | None:
    """The curation whose roles a job asks, by its wildcards; one that rates dialogues asks a judge."""
    return None if "judge" in names else names.get("curation")


def models_of(plan: CurationPlan, names: Names) -> list[str] | None:
    """The models that a job of a curation or a tuning asks or trains."""
    if curation := curation_asked(names):
        return plan.curation(curation).roles.models
    return [base_of(plan, names["tuning"])] if "tuning" in names else None


def needs_of(plan: CurationPlan, names: Names) -> Needs | None:
    """What a job of a curation or a tuning needs of a machine."""
    if curation := curation_asked(names):
        return plan.role_needs(curation)
    return plan.tuning_needs(names["tuning"]) if "tuning" in names else None
