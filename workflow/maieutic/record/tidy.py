"""Export of every score and grade of a run as tidy Parquet files, and as a DuckDB file with views."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from maieutic.core import paths
from maieutic.core.files import atomic_path
from maieutic.core.records import Grade, iter_records
from maieutic.core.visible import without_direction_controls
from maieutic.record.finished_run import FinishedRun
from maieutic.report.tables import items_of_task
from maieutic.scores.stage import all_grades

# Columns of grades.parquet, documented in docs/exports.md
GRADE_COLUMNS = (
    "benchmark", "task", "item", "problem", "tutor", "kind", "by", "scoring", "criterion", "value", "number", "correct",
    "gold", "raw", "why_none", "reason",
)  # fmt: skip
EXPORTED_TABLES = {"differences": paths.DIFFERENCE_TABLE, "trust": paths.TRUST_TABLE, "runtime": paths.RUNTIME_TABLE}


def grade_row(grade: Grade, benchmark: str, tutor: str, problem: str | None) -> dict[str, Any]:
    """Return a grade as a row of GRADE_COLUMNS. `value` and `gold` are texts; `number` is `value` if it is a number."""
    number = float(grade.value) if isinstance(grade.value, int | float) else None
    row = grade.model_dump() | {"benchmark": benchmark, "item": grade.id, "problem": problem, "tutor": tutor}
    texts = ("value", "gold", "raw", "why_none", "reason")
    visible = {name: None if row[name] is None else without_direction_controls(str(row[name])) for name in texts}
    return row | visible | {"number": number}


def write_grades(run: FinishedRun, out: Path) -> None:
    """Write every grade of the run's replies to one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"number": pa.float64(), "correct": pa.bool_()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in GRADE_COLUMNS])
    with atomic_path(out) as place, pq.ParquetWriter(place, schema, compression="zstd") as writer:
        for benchmark, loaded_cards in run.plan.benchmarks.items():
            tasks = {loaded.card.task for loaded in loaded_cards}
            listed = (item for task in tasks for item in items_of_task(run.results, benchmark, task))
            items = {(item.task, item.id): item for item in listed}
            for tutor in run.plan.tutors_on(benchmark):
                repeats = run.plan.repeats_of(tutor)  # copies beyond are for other tutors
                for path in (
                    paths.Pattern(name).within(run.results) for name in all_grades(run.plan, benchmark, tutor)
                ):
                    graded = (
                        (grade, items.get((grade.task, grade.id)))
                        for grade in (iter_records(path, Grade) if path.exists() else ())
                        if grade.task in tasks
                    )
                    rows = [
                        grade_row(grade, benchmark, tutor, item.cluster if item else None)
                        for grade, item in graded
                        if item is None or item.repeat < repeats
                    ]
                    writer.write_table(pa.Table.from_pylist(rows, schema=schema))


VIEWS = {
    "leaderboard": "SELECT benchmark, task, label, metric, value, low, high, n, floor, ceiling FROM scores "
    "WHERE headline AND scoring = 'robust' ORDER BY benchmark, task, value DESC",
    "disagreements": 'SELECT a.benchmark, a.task, a.item, a.tutor, a.criterion, a."by" AS first_judge, '
    'a.value AS first, b."by" AS second_judge, b.value AS second FROM grades a JOIN grades b '
    "USING (benchmark, task, item, tutor, criterion, scoring) "
    "WHERE a.kind = 'judge' AND b.kind = 'judge' AND a.\"by\" < b.\"by\" AND a.value <> b.value "
    "AND a.scoring = 'robust'",
    "unreadable": 'SELECT benchmark, task, tutor, kind, "by", why_none, count(*) AS n FROM grades '
    "WHERE value IS NULL AND scoring = 'robust' GROUP BY ALL ORDER BY n DESC",
}


def write_tidy(run: FinishedRun, out: Path) -> list[Path]:
    """Write grades.parquet, scores.parquet and maieutic.duckdb, and return their paths."""
    import duckdb

    out.mkdir(parents=True, exist_ok=True)
    write_grades(run, out / "grades.parquet")
    scores = run.path_of(paths.SCORE_PARQUET)
    shutil.copyfile(scores, out / scores.name)
    database = out / "maieutic.duckdb"
    with atomic_path(database) as place, duckdb.connect(str(place)) as connection:
        connection.execute("CREATE TABLE grades AS SELECT * FROM read_parquet(?)", [str(out / "grades.parquet")])
        connection.execute("CREATE TABLE scores AS SELECT * FROM read_parquet(?)", [str(scores)])
        for name, pattern in EXPORTED_TABLES.items():
            path = run.path_of(pattern)
            if path.exists():
                # With header = true, a file with nothing but a header becomes a table without rows.
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv(?, header = true)", [str(path)])
        for name, query in VIEWS.items():
            connection.execute(f"CREATE VIEW {name} AS {query}")
    return [out / "grades.parquet", out / "scores.parquet", database]
