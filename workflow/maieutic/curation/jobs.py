"""Jobs of the Snakemake rules for curations and tunings.

A function that is named after a rule maps the rule's wildcards to its job.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maieutic.config.curation import FineTuning, stage_files, stage_names
from maieutic.config.job_entries import entry_for_asking
from maieutic.config.models import HostedModel
from maieutic.core.files import sha256_of
from maieutic.curation.curated_plan import CurationPlan
from maieutic.curation.examples import ChatSource, MixExamples
from maieutic.curation.pipeline import STAGE_ORDER, MakeComponents, WriteDialogues, WriteFlows
from maieutic.curation.quality import MeasureCuration
from maieutic.curation.rating import RateDialogues
from maieutic.curation.seeds import MakeSeeds, SeedSource
from maieutic.curation.sets import AssembleSets, CleanTrainingSet
from maieutic.curation.tuning import TuneTutor
from maieutic.judges.jobs import judge_job_fields

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


def make_seeds(plan: CurationPlan, curation: str) -> MakeSeeds:
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


def make_components(plan: CurationPlan, curation: str) -> MakeComponents:
    return MakeComponents(**model_fields_of(plan, curation, "make_components"))


def write_flows(plan: CurationPlan, curation: str) -> WriteFlows:
    return WriteFlows(**model_fields_of(plan, curation, "write_flows"))


def write_dialogues(plan: CurationPlan, curation: str) -> WriteDialogues:
    share = plan.curation(curation).evaluation_share
    return WriteDialogues(**model_fields_of(plan, curation, "write_dialogues"), evaluation_share=share)


def measure_curation(plan: CurationPlan, curation: str) -> MeasureCuration:
    similarity = plan.curation(curation).near_duplicate
    return MeasureCuration(curation=curation, stages=list(STAGE_ORDER), near_duplicate=similarity)


def rate_dialogues(plan: CurationPlan, curation: str, judge: str) -> RateDialogues:
    release = plan.taxonomy_release(judge)
    assert release is not None, "every judge that rates dialogues is validated on labels of MRBench's dimensions"
    rubric = plan.rubric_for_release(judge, release)
    assert rubric is not None, "a judge that is validated on a labelled set has a rubric for it"
    fields = judge_job_fields(plan, judge, pairs=[], tags=[], family=[])
    return RateDialogues(**fields, curation=curation, rubric=rubric.name, sample=plan.curation(curation).rated)


def assemble_sets(plan: CurationPlan, curation: str) -> AssembleSets:
    entry = plan.curation(curation)
    return AssembleSets(
        curation=curation,
        roles=entry.roles,
        answering=model_origins(plan, curation),
        prompts=prompt_digests(),
        evaluation_share=entry.evaluation_share,
        seed=plan.run.seed,
    )


def clean_training_set(plan: CurationPlan, curation: str) -> CleanTrainingSet:
    entry = plan.curation(curation)
    return CleanTrainingSet(
        curation=curation,
        near_duplicate=entry.near_duplicate,
        roles=entry.roles,
        answering=model_origins(plan, curation),
        prompts=prompt_digests(),
    )


def mix_examples(plan: CurationPlan, tuning: str) -> MixExamples:
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


def tune_tutor(plan: CurationPlan, tuning: str) -> TuneTutor:
    entry: FineTuning = plan.config.tunings[tuning]
    # `needs` is left out because it does not affect the weights.
    return TuneTutor(tuning=tuning, train=entry.model_copy(update={"needs": None}))
