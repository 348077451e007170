"""Tests of the page with every printed number: all tables are registered, and each verdict follows its rule."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from maieutic.benchmarks.kmpbench.measured import MEASURED as KMP
from maieutic.core.plugins import plugin_objects
from maieutic.report.printed_numbers import Measured, computed_value, rounding_error, verdict_on_cell
from maieutic.scores.papers import PrintedRow, decimal_places, printed_file, printed_rows
from maieutic.scores.printed import PAPERS


def printed(value: str, note: str = "") -> PrintedRow:
    return PrintedRow("1", "", "row", "", "metric", "", float(value), "", note, decimal_places(value))


@pytest.mark.parametrize("benchmark", PAPERS)
def test_every_printed_number_belongs_to_a_table_with_a_run_file(benchmark: str) -> None:
    displays = PAPERS[benchmark].displays
    assert {row.table for row in printed_rows(benchmark)} - {"7"} <= displays.keys()
    for display in displays.values():
        assert Path(f"config/{display.run_file}.yaml").is_file(), display
        assert display.needs and display.title and display.content
    measured = plugin_objects("measured", "MEASURED").get(benchmark, {})
    assert measured.keys() <= displays.keys()


@pytest.mark.parametrize("benchmark", PAPERS)
def test_no_number_is_listed_twice(benchmark: str) -> None:
    rows = [(row.table, row.place) for row in printed_rows(benchmark) if row.value == row.value]
    twice = {place for place in rows if rows.count(place) > 1}
    assert not twice


REFERENCE_TABLES = {  # file of published tables -> number of numbers in it
    "mathtutorbench": {"table1_datasets": ("instances", "avg_turns"), "table2_preference_data": ("pref_pairs", "avg_turns"),
                       "appC2_rm_runtime": ("examples_per_s",), "readme_generation_performance": ("total_time_min", "examples_per_s", "tokens_per_s")},
    "mrbench": {"table7_statistics": ("bridge", "mathdial", "mrbench")},
}  # fmt: skip


@pytest.mark.parametrize("benchmark", REFERENCE_TABLES)
def test_the_numbers_of_the_published_tables_are_there(benchmark: str, data: Path) -> None:
    """Each number of the transcribed tables occurs among the printed numbers, with the same digits."""
    folder = data.parent / "reference"
    if not folder.is_dir():
        pytest.skip("the transcribed tables are not here")
    with printed_file(benchmark).open(encoding="utf-8", newline="") as handle:
        known = {row["value"] for row in csv.DictReader(handle)}
    for name, columns in REFERENCE_TABLES[benchmark].items():
        with (folder / f"{benchmark}_{name}.csv").open(encoding="utf-8", newline="") as handle:
            for row in csv.DictReader(handle):
                numbers = {row[column] for column in columns} - {"-", ""}
                assert numbers <= known, (name, numbers - known)


@pytest.mark.parametrize(
    ("value", "places"), [("51", 0), ("0.60", 2), ("4.00", 2), ("1e-5", 5), ("1.5e-5", 6), ("1E3", 0), ("", 0)]
)
def test_decimal_places_are_those_that_are_printed(value: str, places: int) -> None:
    assert decimal_places(value) == places


@pytest.mark.parametrize(("number", "measured", "verdict"), [
    ("3.74", Measured(3.744), "reproduced"),
    ("3.74", Measured(3.746), "differs"),
    ("3.74", Measured(3.88, low=3.0, high=4.0), "differs"),  # an interval does not excuse released data
    ("3.74", Measured(3.74, "setting"), "settings"),  # the same constant proves nothing
    ("3.74", Measured(3.8, "setting"), "differs"),
    ("3.74", Measured(3.744, "other release"), "reproduced"),
    ("3.74", Measured(3.8, "other release"), "another release"),
    ("0.84", Measured(0.80, "model", 0.76, 0.836), "reproduced"),
    ("0.84", Measured(0.80, "model", 0.76, 0.834), "differs"),
    ("0.84", Measured(0.80, "model"), "differs"),
    ("55.65", Measured(55.65, "arithmetic", 55.64, 55.66), "follows"),
    ("49.71", Measured(49.69, "arithmetic", 49.68, 49.70), "contradicts"),
    ("49.71", Measured(49.71, note="demo data"), "not comparable"),
])  # fmt: skip
def test_verdicts(number: str, measured: Measured, verdict: str) -> None:
    assert verdict_on_cell(printed(number), measured) == verdict


def test_rounding_of_the_terms_widens_a_computed_value() -> None:
    value = computed_value([(0.5, printed("44.5")), (0.5, printed("52.0"))])
    assert value.value == 48.25 and (value.low, value.high) == (pytest.approx(48.2), pytest.approx(48.3))
    assert rounding_error(printed("51")) == 0.5


def test_kmp_benchs_numbers_follow_from_each_other() -> None:
    """Table 4's MR-Scores, Table 5's overall values, Table 3's, and all gains: 53 numbers, computed by hand here."""
    for table, count in (("3", 6), ("4", 13), ("5", 28), ("6", 6)):
        measured = KMP[table](None)  # type: ignore[arg-type]
        rows = {row.place: row for row in printed_rows("kmpbench") if row.table == table}
        verdicts = [verdict_on_cell(rows[place], value) for place, value in measured.items()]
        assert verdicts == ["follows"] * count, table
    by_metric = {row.metric: row.value for row in printed_rows("kmpbench") if (row.table, row.row) == ("4", "GPT-4o")}
    by_hand = 0.2 * by_metric["task1_mcc"] + 0.3 * by_metric["task2_step"] + 0.5 * by_metric["task3_reason"]
    assert by_metric["mr_score"] == pytest.approx(by_hand, abs=0.1)
