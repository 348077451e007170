"""This run's values for the numbers in TutorBench's paper and of its release that are not about tutors of the run."""

from __future__ import annotations

from collections import Counter

from maieutic.benchmarks.tutorbench.section import BENCHMARK, data_sizes
from maieutic.report.printed_numbers import Measured, MeasuredTable, computed_value
from maieutic.report.sections import ReportInput
from maieutic.report.tables import items_of_task
from maieutic.scores.papers import PERCENT, Place, PrintedRow, printed_cells, printed_rows

RELEASE = "public release"
POOL_TASKS = ("text", "multimodal")
USE_CASE_NUMBERS = {"adaptive": 1, "assessment": 2, "active_learning": 3}


def counts_of(row: str) -> dict[str, PrintedRow]:
    """Return the sizes of the paper's data or of the public release, by metric. row: row in the table of counts."""
    return {entry.metric: entry for entry in printed_rows(BENCHMARK) if entry.group == "counts" and entry.row == row}


def counts_place(metric: str) -> Place:
    """Return the place of a size of the public release."""
    return Place(RELEASE, metric, group="counts")


def table_1(run: ReportInput) -> MeasuredTable:
    """Return each overall value as the mean of both modalities, weighted by their numbers of samples."""
    sizes = counts_of("paper")
    samples = sizes["samples"].value
    parts = ("modality/text", "modality/multimodal")
    return {
        cells["overall"].place: computed_value((sizes[part].value / samples, cells[part]) for part in parts)
        for cells in printed_cells(BENCHMARK, "1").values()
        if cells.keys() >= {"overall", *parts}
    }


def section_2(run: ReportInput) -> MeasuredTable:
    """Return the number of text-only samples: all samples without the multimodal ones."""
    sizes = counts_of("paper")
    difference = computed_value([(1, sizes["samples"]), (-1, sizes["modality/multimodal"])])
    return {sizes["modality/text"].place: difference}


def release(run: ReportInput) -> MeasuredTable:
    """Return the sizes of the public release, each part of it that this run reads in whole."""
    if run.plan.edition != "published" or run.plan.run.limit is not None:
        return {}
    items = {task: items_of_task(run.results, BENCHMARK, task) for task in POOL_TASKS if (BENCHMARK, task) in run.sizes}
    values: dict[Place, Measured] = {}
    batches: Counter[tuple[str, str]] = Counter()
    for task, own_items in items.items():
        values[counts_place(f"modality/{task}")] = Measured(len(own_items))
        batches.update((item.tags["use_case"], task) for item in own_items)
    for (use_case, task), number in batches.items():
        name = f"batch/USE_CASE_{USE_CASE_NUMBERS[use_case]}_{task.upper()}"
        values[Place(RELEASE, name, group="batches")] = Measured(number)
    if len(items) == len(POOL_TASKS):
        everything = [item for own_items in items.values() for item in own_items]
        total = data_sizes(everything)
        values[counts_place("samples")] = Measured(total["samples"])
        values[counts_place("criteria")] = Measured(total["criteria"] + total["left_out"])
        for use_case in USE_CASE_NUMBERS:
            number = sum(item.tags["use_case"] == use_case for item in everything)
            values[counts_place(f"use_case/{use_case}")] = Measured(number)
    return values


def filter_settings(run: ReportInput) -> MeasuredTable:
    """Return the settings of the run's filter for hard samples."""
    chosen = run.plan.run.difficulty
    if chosen is None or not chosen.tutors:
        return {}
    values = {
        "percent below which a model fails": PERCENT * chosen.below,
        "models that fail": chosen.at_least,
        "models": len(chosen.tutors),
    }
    return {Place("filter", name, group="filter"): Measured(value, "setting") for name, value in values.items()}


REMARKS = None
MEASURED = {"1": table_1, "section 2": section_2, "hub card": release, "appendix A.1": filter_settings}
