"""Part of the plan that covers curations and tunings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from maieutic.config.curation import FineTuning, read_stage, stage_files, stage_names
from maieutic.config.models import HostedModel
from maieutic.core import paths
from maieutic.core.files import sha256_of
from maieutic.curation.curated_plan import (
    EVALUATION_SHEET,
    FIGURES,
    OUTCOMES,
    RATINGS,
    SETS,
    TRAINING_SET,
    TRAINING_SHEET,
    TUNED,
    CurationPlan,
    check_curations,
    models_of,
    needs_of,
)
from maieutic.curation.examples import ChatSource, MixExamples
from maieutic.curation.pipeline import STAGE_ORDER, STAGES, MakeComponents, WriteDialogues, WriteFlows
from maieutic.curation.quality import MeasureCuration
from maieutic.curation.rating import RateDialogues
from maieutic.curation.seeds import MakeSeeds, SeedSource
from maieutic.curation.sets import AssembleSets, CleanTrainingSet
from maieutic.curation.tuning import TuneTutor
from maieutic.judges.stage import judge_job_fields
from maieutic.plan.inputs import benchmark_items, entry_for_asking, rubric_files, source_files
from maieutic.plan.slice_plan import Checks, PlannedRequests, Replacements, SlicePlan, unused_tables
from maieutic.serving.budget import CHARS_A_TOKEN

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
