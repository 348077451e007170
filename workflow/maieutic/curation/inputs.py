"""Input files of the Snakemake rules for curations and tunings, as far as they depend on the run's selection."""

from __future__ import annotations

from maieutic.config.curation import stage_files
from maieutic.core import paths
from maieutic.curation.curated_plan import CurationPlan
from maieutic.curation.paths import EVALUATION_SHEET, FIGURES, RATINGS, SETS, TRAINING_SET, TRAINING_SHEET, TUNED
from maieutic.curation.pipeline import STAGES
from maieutic.plan.inputs import benchmark_items, rubric_files, source_files


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
