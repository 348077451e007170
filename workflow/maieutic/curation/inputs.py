"""Inputs of the rules of curations and tunings. Each function has the name of its rule and maps wildcards to files."""

from __future__ import annotations

from maieutic.config.curation import stage_files
from maieutic.core import paths
from maieutic.curation.curated_plan import CurationPlan
from maieutic.curation.paths import (
    COMPONENTS,
    DIALOGUES,
    EVALUATION_SHEET,
    EXAMPLE_SHEET,
    EXAMPLES,
    FIGURES,
    FLOWS,
    OUTCOMES,
    RATINGS,
    RAW,
    SEEDS,
    SETS,
    TRAINING_SET,
    TRAINING_SHEET,
    TUNED,
)
from maieutic.curation.pipeline import STAGES
from maieutic.plan.inputs import Files, answering_weights, rubric_files

STEPS = tuple(STAGES)


def source_of(dataset: str) -> str:
    return paths.SOURCE.of(dataset=dataset)


def weights_of(plan: CurationPlan, curation: str, step: str) -> list[str]:
    """Return the weight manifests of the served models that a step of a curation calls."""
    served = plan.with_engine("vllm")
    return [paths.WEIGHTS.of(model=name) for name in plan.models_of_step(curation, step) if name in served]


def selected_items(plan: CurationPlan) -> list[str]:
    """Return the item files of every selected task, whose problems must not be in training data."""
    return [
        paths.ITEMS.of(benchmark=benchmark, task=loaded_card.card.task)
        for benchmark, loaded_cards in plan.benchmarks.items()
        for loaded_card in loaded_cards
    ]


def evaluation_sets(plan: CurationPlan) -> list[str]:
    """Return the evaluation sets of every curation. Training data exclude their problems even if no task uses them."""
    return [pattern.of(curation=name) for name in plan.config.curations for pattern in SETS.values()]


def model_job_files(plan: CurationPlan, curation: str, step: str) -> Files:
    """Return the inputs common to all jobs that call models: weight manifests and stage files."""
    return {"weights": weights_of(plan, curation, step), "cards": stage_files(list(STAGES[step]))}


def make_seeds(plan: CurationPlan, curation: str) -> Files:
    return {"sources": [source_of(dataset) for dataset in plan.curation(curation).seeds]}


def make_components(plan: CurationPlan, curation: str) -> Files:
    return {"seeds": SEEDS.of(curation=curation), **model_job_files(plan, curation, "make_components")}


def write_flows(plan: CurationPlan, curation: str) -> Files:
    people = plan.curation(curation).people
    return {
        "components": COMPONENTS.of(curation=curation),
        "people": [people] if people else [],
        **model_job_files(plan, curation, "write_flows"),
    }


def write_dialogues(plan: CurationPlan, curation: str) -> Files:
    return {
        "seeds": SEEDS.of(curation=curation),
        "components": COMPONENTS.of(curation=curation),
        "flows": FLOWS.of(curation=curation),
        **model_job_files(plan, curation, "write_dialogues"),
    }


def measure_curation(plan: CurationPlan, curation: str) -> Files:
    patterns = {"seeds": SEEDS, "components": COMPONENTS, "flows": FLOWS, "dialogues": DIALOGUES}
    files: Files = {name: pattern.of(curation=curation) for name, pattern in patterns.items()}
    return files | {"outcomes": [OUTCOMES.of(curation=curation, step=step) for step in STEPS]}


def rate_dialogues(plan: CurationPlan, curation: str, judge: str) -> Files:
    return {
        "dialogues": DIALOGUES.of(curation=curation),
        "weights": answering_weights(plan, judge),
        "rubrics": rubric_files(plan.judge_entry(judge).rubrics),
    }


def assemble_sets(plan: CurationPlan, curation: str) -> Files:
    patterns = {"seeds": SEEDS, "components": COMPONENTS, "dialogues": DIALOGUES}
    return {name: pattern.of(curation=curation) for name, pattern in patterns.items()}


def clean_training_set(plan: CurationPlan, curation: str) -> Files:
    patterns = {"seeds": SEEDS, "raw": RAW}
    files: Files = {name: pattern.of(curation=curation) for name, pattern in patterns.items()}
    return files | {"cases": selected_items(plan), "tests": evaluation_sets(plan)}


def fetch_curated(plan: CurationPlan, dataset: str) -> Files:
    curation, product = plan.curated[dataset]
    return {"made": SETS[product].of(curation=curation), "sheet": EVALUATION_SHEET.of(curation=curation)}


def mix_examples(plan: CurationPlan, tuning: str) -> Files:
    mix = plan.config.tunings[tuning].mix
    files = [TRAINING_SET.of(curation=name) if name in plan.config.curations else source_of(name) for name in mix]
    return {"sources": files, "cases": selected_items(plan), "tests": evaluation_sets(plan)}


def tune_tutor(plan: CurationPlan, tuning: str) -> Files:
    return {
        "base": paths.WEIGHTS.of(model=plan.config.tunings[tuning].base),
        "examples": EXAMPLES.of(tuning=tuning),
        "sheet": EXAMPLE_SHEET.of(tuning=tuning),
    }


def serve_tuned(plan: CurationPlan, model: str) -> Files:
    return {"tuned": TUNED.of(tuning=plan.tuned[model])}


def curation_products(plan: CurationPlan) -> list[str]:
    """Return the figures and datasheets of every curation, and the manifest of every tuned model."""
    patterns = (FIGURES, EVALUATION_SHEET, TRAINING_SHEET)
    files = [pattern.of(curation=name) for name in plan.config.curations for pattern in patterns]
    return [*files, *(TUNED.of(tuning=name) for name in plan.config.tunings)]


def report_files(plan: CurationPlan) -> Files:
    """Return the files of curations and tunings that the report reads."""
    figures = [FIGURES.of(curation=name) for name in plan.config.curations]
    sheets = [TRAINING_SHEET.of(curation=name) for name in plan.config.curations]
    rated = [
        RATINGS.of(curation=name, judge=judge)
        for name, entry in plan.config.curations.items()
        for judge in (plan.raters if entry.rated else [])
    ]
    used = sorted({plan.tuned[name] for name in plan.tutors if name in plan.tuned})
    return {"curations": [*figures, *sheets, *rated], "tunings": [TUNED.of(tuning=name) for name in used]}
