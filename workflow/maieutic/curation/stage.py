"""Curations and tunings in the plan of a run: their inputs, jobs and checks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from maieutic.config.curation import STAGES as FOLDER
from maieutic.config.curation import Curation, FineTuning, read_stage, stage_files, stage_names
from maieutic.config.models import HostedModel, Needs, PackagedWeights, TunedWeights, VllmModel, Weights, WeightsOnly
from maieutic.config.prompts import template_variables
from maieutic.config.registry import check_entry, unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all
from maieutic.core.files import sha256_of
from maieutic.core.paths import Pattern
from maieutic.curation import parsers, rules
from maieutic.curation.examples import ChatSource, MixExamples
from maieutic.curation.parsers import PARSERS
from maieutic.curation.pipeline import STAGE_ORDER, STAGES, MakeComponents, WriteDialogues, WriteFlows
from maieutic.curation.quality import MeasureCuration, RateDialogues
from maieutic.curation.rules import RULES
from maieutic.curation.seeds import MakeSeeds, SeedSource
from maieutic.curation.sets import AssembleSets, CleanTrainingSet
from maieutic.curation.tuning import TuneTutor
from maieutic.datasets.registry import LOADERS
from maieutic.judges.stage import judge_job_fields
from maieutic.plan.inputs import benchmark_items, entry_for_asking, rubric_files, source_files
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, PlannedRequests, Replacements, SlicePlan, WildcardValues, unused_tables
from maieutic.serving.budget import CHARS_A_TOKEN
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
        """The tuning that trains each tuned model of the registry, by the model."""
        return {
            name: model.weights.tuned
            for name, model in self.models.items()
            if isinstance(model, VllmModel) and isinstance(model.weights, TunedWeights)
        }

    def curation(self, name: str) -> Curation:
        """Return the configuration entry of a curation."""
        return self.config.curations[name]

    @cached_property
    def answering_models(self) -> list[str]:
        """All models that answer requests, including those of curations."""
        roles = [name for entry in self.config.curations.values() for name in entry.roles.models]
        return list(dict.fromkeys([*super().answering_models, *roles]))

    @cached_property
    def used_models(self) -> list[str]:
        """All models in use, including the bases of tunings."""
        bases = [entry.base for entry in self.config.tunings.values()]
        return list(dict.fromkeys([*super().used_models, *bases]))

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


SEED_TOKENS, ANSWER_SHARE = 500, 1 / 6


def seed_sources(plan: CurationPlan, curation: str) -> list[str]:
    """Return the source files of a curation's seeds."""
    return source_files(plan.curation(curation).seeds)


def stage_weights(plan: CurationPlan, curation: str, step: str) -> list[str]:
    """Return the weight manifests of all served models that a step of a curation calls."""
    served = plan.with_engine("vllm")
    return [paths.WEIGHTS.of(model=name) for name in plan.models_of_step(curation, step) if name in served]


def stage_cards(plan: CurationPlan, step: str) -> list[str]:
    """Return the stage cards and prompts that a step reads."""
    return stage_files(list(STAGES[step]))


def people_decisions(plan: CurationPlan, curation: str) -> list[str]:
    """Return the sheet of people's decisions on flows, as a list; empty if the curation has no such sheet."""
    people = plan.curation(curation).people
    return [people] if people else []


def rating_rubrics(plan: CurationPlan, judge: str) -> list[str]:
    """Return the files of the rubrics of a judge that rates dialogues."""
    return rubric_files(plan.judge_entry(judge).rubrics)


def selected_items(plan: CurationPlan) -> list[str]:
    """Return the item files of every selected task. Training data must not contain the problems in these files."""
    return [file for benchmark in plan.benchmarks for file in benchmark_items(plan, benchmark)]


def evaluation_sets(plan: CurationPlan) -> list[str]:
    """Return the evaluation sets of every curation. Training data exclude their problems even if no task uses a set."""
    return [pattern.of(curation=name) for name in plan.config.curations for pattern in SETS.values()]


def curated_set(plan: CurationPlan, dataset: str) -> str:
    """Return the file of the evaluation set from which a curated dataset is copied."""
    curation, product = plan.curated[dataset]
    return SETS[product].of(curation=curation)


def curated_sheet(plan: CurationPlan, dataset: str) -> str:
    """Return the datasheet of the evaluation set from which a curated dataset is copied."""
    curation, _ = plan.curated[dataset]
    return EVALUATION_SHEET.of(curation=curation)


def mixed_sources(plan: CurationPlan, tuning: str) -> list[str]:
    """Return the files that a tuning mixes: training sets of curations, and source files of datasets."""
    curations = plan.config.curations
    return [
        TRAINING_SET.of(curation=name) if name in curations else paths.SOURCE.of(dataset=name)
        for name in plan.config.tunings[tuning].mix
    ]


def tuning_base(plan: CurationPlan, tuning: str) -> str:
    """Return the weights manifest of the model that a tuning starts from."""
    return paths.WEIGHTS.of(model=plan.config.tunings[tuning].base)


def tuned_weights(plan: CurationPlan, model: str) -> str:
    """Return the manifest of the weights that a tuning of this run trains for a model."""
    return TUNED.of(tuning=plan.tuned[model])


def curation_products(plan: CurationPlan) -> list[str]:
    """Return the figures and datasheets of every curation, and the manifest of every tuned model."""
    patterns = (FIGURES, EVALUATION_SHEET, TRAINING_SHEET)
    files = [pattern.of(curation=name) for name in plan.config.curations for pattern in patterns]
    return [*files, *(TUNED.of(tuning=name) for name in plan.config.tunings)]


def planned_answers(plan: CurationPlan) -> Iterator[PlannedRequests]:
    """Yield estimates of the requests to each model in each step of a curation, as if no stage dropped a seed.

    Their number is unknown if that of the seeds is. A prompt has the stage's text and SEED_TOKENS; an answer is
    ANSWER_SHARE of the stage's limit (the paper's dialogues have 9.3 exchanges with 40 words a turn, a sixth of the
    limit).
    """
    for name, entry in plan.config.curations.items():
        records = [plan.datasets[dataset].file_of(dataset, plan.edition).records for dataset in entry.seeds]
        known = [number for number in records if number is not None]
        seeds = sum(min(entry.limit or number, number) for number in known)
        for step, stages in STAGES.items():
            if Path(OUTCOMES.of(curation=name, step=step)).is_file():
                continue
            for model in plan.models_of_step(name, step):
                requests, prompts, answers = 0, 0.0, 0.0
                for stage in map(read_stage, stages):
                    number = seeds * entry.roles.entries_with(stage.card.role).count(model) * stage.card.samples
                    requests += number
                    prompts += number * (len(stage.template + stage.shots) / CHARS_A_TOKEN + SEED_TOKENS)
                    answers += number * ANSWER_SHARE * stage.card.max_tokens
                counted = requests if len(known) == len(records) else None
                yield PlannedRequests(step, {"curation": name}, "curations", model, counted, prompts, answers)


def report_files(plan: CurationPlan) -> list[str]:
    """Return the files of curations and tunings that the report reads."""
    figures = [FIGURES.of(curation=name) for name in plan.config.curations]
    sheets = [TRAINING_SHEET.of(curation=name) for name in plan.config.curations]
    rated = [
        RATINGS.of(curation=name, judge=judge)
        for name, entry in plan.config.curations.items()
        for judge in (plan.raters if entry.rated else [])
    ]
    used = sorted({plan.tuned[name] for name in plan.tutors if name in plan.tuned})
    return [*figures, *sheets, *rated, *(TUNED.of(tuning=name) for name in used)]


NEAR_DUPLICATE = 0.7  # minimum similarity at which an example counts as leaked, equal to the default of curations


def model_fields_of(plan: CurationPlan, curation: str, step: str) -> dict[str, Any]:
    """Return the fields common to all jobs that call models: curation, roles, registry entries, random seed."""
    roles = plan.curation(curation).roles
    models = {name: entry_for_asking(plan.models[name]) for name in plan.models_of_step(curation, step)}
    return {"curation": curation, "roles": roles, "models": models, "seed": plan.run.seed}


def model_origins(plan: CurationPlan, curation: str) -> dict[str, str]:
    """Return the id (of a hosted model) or the weights of each model of a curation, for the datasheets."""
    origins = {}
    for name in plan.curation(curation).roles.models:
        model = plan.models[name]
        origin = model.model if isinstance(model, HostedModel) else getattr(model, "weights", None)
        origins[name] = (
            origin if isinstance(origin, str) else origin.model_dump_json(exclude_none=True) if origin else ""
        )
    return origins


def prompt_digests() -> dict[str, str]:
    """Return the SHA-256 of every stage card and prompt by file name, for the datasheets."""
    return {Path(file).name: sha256_of(Path(file)) for file in stage_files(stage_names())}


def make_seeds_job(plan: CurationPlan, curation: str) -> MakeSeeds:
    entry = plan.curation(curation)
    sources = [
        SeedSource(
            dataset=dataset,
            loader=loader,
            form=plan.datasets[dataset].format_of(plan.edition),
            licence=plan.datasets[dataset].licence,
        )
        for dataset, loader in entry.seeds.items()
    ]
    return MakeSeeds(curation=curation, sources=sources, limit=entry.limit, seed=plan.run.seed)


def make_components_job(plan: CurationPlan, curation: str) -> MakeComponents:
    return MakeComponents(**model_fields_of(plan, curation, "make_components"))


def write_flows_job(plan: CurationPlan, curation: str) -> WriteFlows:
    return WriteFlows(**model_fields_of(plan, curation, "write_flows"))


def write_dialogues_job(plan: CurationPlan, curation: str) -> WriteDialogues:
    share = plan.curation(curation).evaluation_share
    return WriteDialogues(**model_fields_of(plan, curation, "write_dialogues"), evaluation_share=share)


def measure_curation_job(plan: CurationPlan, curation: str) -> MeasureCuration:
    similarity = plan.curation(curation).near_duplicate
    return MeasureCuration(curation=curation, stages=list(STAGE_ORDER), near_duplicate=similarity)


def rate_dialogues_job(plan: CurationPlan, curation: str, judge: str) -> RateDialogues:
    release = plan.taxonomy_release(judge)
    assert release is not None, "every judge that rates dialogues is validated on labels of MRBench's dimensions"
    rubric = plan.rubric_for_release(judge, release)
    assert rubric is not None, "a judge that is validated on a labelled set has a rubric for it"
    fields = judge_job_fields(plan, judge, pairs=[], tags=[], family=[])
    return RateDialogues(**fields, curation=curation, rubric=rubric.name, sample=plan.curation(curation).rated)


def assemble_sets_job(plan: CurationPlan, curation: str) -> AssembleSets:
    entry = plan.curation(curation)
    return AssembleSets(
        curation=curation,
        roles=entry.roles,
        answering=model_origins(plan, curation),
        prompts=prompt_digests(),
        evaluation_share=entry.evaluation_share,
        seed=plan.run.seed,
    )


def clean_training_set_job(plan: CurationPlan, curation: str) -> CleanTrainingSet:
    entry = plan.curation(curation)
    return CleanTrainingSet(
        curation=curation,
        near_duplicate=entry.near_duplicate,
        roles=entry.roles,
        answering=model_origins(plan, curation),
        prompts=prompt_digests(),
    )


def mix_examples_job(plan: CurationPlan, tuning: str) -> MixExamples:
    entry = plan.config.tunings[tuning]
    sources = [
        ChatSource(
            name=name,
            share=share,
            form=None if name in plan.config.curations else plan.datasets[name].format_of(plan.edition),
        )
        for name, share in entry.mix.items()
    ]
    return MixExamples(tuning=tuning, sources=sources, seed=entry.seed, near_duplicate=NEAR_DUPLICATE)


def tune_tutor_job(plan: CurationPlan, tuning: str) -> TuneTutor:
    entry: FineTuning = plan.config.tunings[tuning]
    # `needs` is left out because it does not affect the weights.
    return TuneTutor(tuning=tuning, train=entry.model_copy(update={"needs": None}))


def used_by_make_seeds(plan: CurationPlan, curation: str) -> Replacements:
    """Return replacements that leave out the benchmark loaders that a curation's seeds do not use."""
    return unused_tables("loaders", "LOADERS", plan.curation(curation).seeds.values())


STAGE = SlicePlan(
    module=__name__,
    plan=CurationPlan,
    checks=Checks(data=lambda plan: [partial(check_curations, plan)]),
    report_files=report_files,
    requests=planned_answers,
    models_of=models_of,
    needs_of=needs_of,
    used_code={"make_seeds": used_by_make_seeds},
)
