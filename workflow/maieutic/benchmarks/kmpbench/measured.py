"""Numbers in KMP-Bench's paper that follow from other printed numbers. All other values need data of the paper."""

from __future__ import annotations

from collections.abc import Mapping

from maieutic.benchmarks.kmpbench.alignment import COMPARISON_RUBRIC
from maieutic.benchmarks.kmpbench.items import PRINCIPLES
from maieutic.benchmarks.kmpbench.printed import BENCHMARK
from maieutic.benchmarks.kmpbench.section import GAIN_MODELS
from maieutic.config.curation import FineTuning, read_stage
from maieutic.config.rubrics import read_rubric
from maieutic.core.paths import RESOURCES
from maieutic.core.yaml_files import read_yaml
from maieutic.report.printed_numbers import Measured, MeasuredTable, computed_value
from maieutic.report.sections import ReportInput
from maieutic.scores.metrics import MR_WEIGHTS
from maieutic.scores.papers import PERCENT, Place, PrintedRow, printed_cells, printed_rows

OVERALL = "overall"  # criterion of the overall judgement, which is not one of the paper's 22 criteria
STANDARDS = RESOURCES / "curation/standards.yaml"


def gains(table: str) -> dict[Place, Measured]:
    """Return the gains of the paper's model: its values minus those of the model before its training."""
    rows = printed_cells(BENCHMARK, table)
    ours, base = (rows[name] for name in GAIN_MODELS)
    return {
        row.place: computed_value([(1, ours[metric]), (-1, base[metric])])
        for metric, row in rows[" minus ".join(GAIN_MODELS)].items()
    }


def table_4(run: ReportInput) -> MeasuredTable:
    """Return each MR-Score as the weighted sum of its three parts (MR-GSM8K, section 4)."""
    parts = ("task1_mcc", "task2_step", "task3_reason")
    return {
        cells["mr_score"].place: computed_value(zip(MR_WEIGHTS, (cells[name] for name in parts), strict=True))
        for cells in printed_cells(BENCHMARK, "4").values()
        if cells.keys() >= {"mr_score", *parts}
    }


def table_5(run: ReportInput) -> MeasuredTable:
    """Return each overall value as the mean of the general level and of the mean of the six principles."""
    return gains("5") | {
        cells["overall"].place: computed_value(
            [(1 / 2, cells["general_level"]), *((1 / 2 / len(PRINCIPLES), cells[name]) for name in PRINCIPLES)]
        )
        for name, cells in printed_cells(BENCHMARK, "5").items()
        if " minus " not in name
    }


def table_6(run: ReportInput) -> MeasuredTable:
    """Return the gains of the paper's model."""
    return gains("6")


def table_3(run: ReportInput) -> MeasuredTable:
    """Return each overall value as the mean of its two levels."""
    by_grader: dict[tuple[str, str], dict[str, PrintedRow]] = {}
    for row in printed_rows(BENCHMARK):
        if row.table == "3":
            by_grader.setdefault((row.row, row.group), {})[row.metric] = row
    return {
        cells["overall"].place: computed_value([(1 / 2, cells["general_level"]), (1 / 2, cells["principle_level"])])
        for cells in by_grader.values()
    }


def text(run: ReportInput) -> MeasuredTable:
    """Return the counts in the text that follow from other counts, and the settings that this project has as well."""
    rows: Mapping[str, PrintedRow] = printed_cells(BENCHMARK, "text")[""]
    rates = [cells["alignment_rate"] for cells in printed_cells(BENCHMARK, "3").values()]
    removed, reviewed = rows["flows removed"], rows["flows reviewed by hand"]
    computed = {
        "flows kept": computed_value([(1, reviewed), (-1, removed)]),
        "percent of flows removed": Measured(PERCENT * removed.value / reviewed.value, "arithmetic"),
        "general samples": computed_value([(1, rows["UltraChat samples"]), (1, rows["WildChat samples"])]),
        "mean alignment rate": computed_value((1 / len(rates), row) for row in rates),
        "dialogues": Measured(rows["flows kept"].value, "arithmetic"),
        "criteria": Measured(len(read_rubric(COMPARISON_RUBRIC).rubric.criteria.keys() - {OVERALL}), "setting"),
        "domains": Measured(len(read_yaml(STANDARDS)["domains"]), "setting"),
        "temperature of wrong solutions": Measured(read_stage("wrong_solution").card.temperature, "setting"),
        "temperature of similar problems": Measured(read_stage("similar").card.temperature, "setting"),
        "longest similarity, percent": Measured(PERCENT * read_stage("similar").card.limits["overlap"], "setting"),
        **{
            name: Measured(FineTuning.model_fields[key].default, "setting")
            for name, key in (
                ("epochs", "epochs"),
                ("batch size", "batch_size"),
                ("context, tokens", "max_length"),
                ("learning rate", "learning_rate"),
            )
        },
    }
    return {rows[name].place: value for name, value in computed.items()}


def mr_score_weights(run: ReportInput) -> MeasuredTable:
    """Return the weights of the MR-Score."""
    names = ("correctness", "step", "reason")
    return {
        Place("MR-Score", f"weight of {name}"): Measured(weight, "setting")
        for name, weight in zip(names, MR_WEIGHTS, strict=True)
    }


REMARKS = None
MEASURED = {
    "3": table_3,
    "4": table_4,
    "5": table_5,
    "6": table_6,
    "text": text,
    "MR-GSM8K": mr_score_weights,
}
