"""What each rule of curations and tunings hands to its command: a function of its name, from wildcards to job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maieutic.config.curation import FineTuning, stage_files, stage_names
from maieutic.config.models import HostedModel
from maieutic.core.files import sha256_of
from maieutic.curation.curated_plan import CurationPlan
from maieutic.curation.examples import ChatSource, MixExamples
from maieutic.curation.pipeline import ORDER, MakeComponents, WriteDialogues, WriteFlows
from maieutic.curation.quality import MeasureCuration
from maieutic.curation.rating import RateDialogues
from maieutic.curation.seeds import MakeSeeds, SeedSource
from maieutic.curation.sets import AssembleSets, CleanTrainingSet
from maieutic.curation.tuning import TuneTutor
from maieutic.plan.entries import for_asking
from maieutic.plan.jobs import asked

NEAR_DUPLICATE = 0.7  # of the examples of a tuning: the default of a curation


def told(plan: CurationPlan, curation: str, step: str) -> dict[str, Any]:
    """What every job that asks models gets: the entries of those that it asks."""
    roles = plan.curation(curation).roles
    models = {name: for_asking(plan.models[name]) for name in plan.asked_in(curation, step)}
    return {"curation": curation, "roles": roles, "models": models, "seed": plan.run.seed}


def answering(plan: CurationPlan, curation: str) -> dict[str, str]:
    """By model of a curation what answers for it, for the datasheets."""
    origins = {}
    for name in plan.curation(curation).roles.models:
        model = plan.models[name]
        origin = model.model if isinstance(model, HostedModel) else getattr(model, "weights", None)
        origins[name] = (
            origin if isinstance(origin, str) else origin.model_dump_json(exclude_none=True) if origin else ""
        )
    return origins


def prompts_used() -> dict[str, str]:
    """The SHA-256 of every stage card and prompt, for the datasheets."""
    return {Path(file).name: sha256_of(Path(file)) for file in stage_files(stage_names())}


def make_seeds(plan: CurationPlan, curation: str) -> MakeSeeds:
    entry = plan.curation(curation)
    sources = [
        SeedSource(
            dataset=dataset,
            loader=loader,
            form=plan.datasets[dataset].form_of(plan.edition),
            licence=plan.datasets[dataset].licence,
        )
        for dataset, loader in entry.seeds.items()
    ]
    return MakeSeeds(curation=curation, sources=sources, limit=entry.limit, seed=plan.run.seed)


def make_components(plan: CurationPlan, curation: str) -> MakeComponents:
    return MakeComponents(**told(plan, curation, "make_components"))


def write_flows(plan: CurationPlan, curation: str) -> WriteFlows:
    return WriteFlows(**told(plan, curation, "write_flows"))


def write_dialogues(plan: CurationPlan, curation: str) -> WriteDialogues:
    share = plan.curation(curation).evaluation_share
    return WriteDialogues(**told(plan, curation, "write_dialogues"), evaluation_share=share)


def measure_curation(plan: CurationPlan, curation: str) -> MeasureCuration:
    similarity = plan.curation(curation).near_duplicate
    return MeasureCuration(curation=curation, stages=list(ORDER), near_duplicate=similarity)


def rate_dialogues(plan: CurationPlan, curation: str, judge: str) -> RateDialogues:
    release = plan.taxonomy_release(judge)
    assert release is not None, "only such a judge rates"
    rubric = plan.rubric_on(judge, release)
    assert rubric is not None, "the release speaks for the judge by it"
    fields = asked(plan, judge, pairs=[], tags=[], family=[])
    return RateDialogues(**fields, curation=curation, rubric=rubric.name, sample=plan.curation(curation).rated)


def assemble_sets(plan: CurationPlan, curation: str) -> AssembleSets:
    entry = plan.curation(curation)
    return AssembleSets(
        curation=curation,
        roles=entry.roles,
        answering=answering(plan, curation),
        prompts=prompts_used(),
        evaluation_share=entry.evaluation_share,
        seed=plan.run.seed,
    )


def clean_training_set(plan: CurationPlan, curation: str) -> CleanTrainingSet:
    entry = plan.curation(curation)
    return CleanTrainingSet(
        curation=curation,
        near_duplicate=entry.near_duplicate,
        roles=entry.roles,
        answering=answering(plan, curation),
        prompts=prompts_used(),
    )


def mix_examples(plan: CurationPlan, tuning: str) -> MixExamples:
    entry = plan.config.tunings[tuning]
    sources = [
        ChatSource(
            name=name,
            share=share,
            form=None if name in plan.config.curations else plan.datasets[name].form_of(plan.edition),
        )
        for name, share in entry.mix.items()
    ]
    return MixExamples(tuning=tuning, sources=sources, seed=entry.seed, near_duplicate=NEAR_DUPLICATE)


def tune_tutor(plan: CurationPlan, tuning: str) -> TuneTutor:
    entry: FineTuning = plan.config.tunings[tuning]
    return TuneTutor(tuning=tuning, train=entry.model_copy(update={"needs": None}))  # the machine changes no weights
