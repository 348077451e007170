"""Export of every score and grade of a run as tidy Parquet files, and as a DuckDB file with views."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from maieutic.core import paths
from maieutic.core.files import atomic_path
from maieutic.core.records import Grade, iter_records
from maieutic.core.visible import without_direction_controls
from maieutic.record.finished_run import FinishedRun
from maieutic.record.samples import items_by_id

GRADES_IN_MEMORY = 50_000  # maximum number of grades in memory at once
# Columns of grades.parquet, documented in docs/exports.md
GRADE_COLUMNS = (
    "benchmark", "task", "item", "problem", "tutor", "kind", "by", "scoring", "criterion", "value", "number", "correct",
    "gold", "raw", "why_none", "reason",
)  # fmt: skip
EXPORTED_TABLES = {"differences": paths.DIFFERENCE_TABLE, "trust": paths.TRUST_TABLE, "runtime": paths.RUNTIME_TABLE}


def grade_files(run: FinishedRun, benchmark: str, tutor: str) -> Iterator[Path]:
    """Yield the files that contain the grades of one tutor's replies by parsers, reward models and judges."""
    folder = paths.PARSED.within(run.results, benchmark=benchmark, tutor=tutor).parent.parent
    graders = ["_parsers", *run.plan.reward_models, *run.plan.run.judges]
    for grader in graders:
        path = folder / grader / f"{tutor}.jsonl"
        if path.exists():
            yield path


def grade_row(grade: Grade, benchmark: str, tutor: str, problem: str | None) -> tuple[Any, ...]:
    """Return a grade as a row of GRADE_COLUMNS. `value` and `gold` are texts; `number` is `value` if it is a number."""

    def text(value: object) -> str | None:
        return None if value is None else without_direction_controls(str(value))

    number = float(grade.value) if isinstance(grade.value, int | float) else None
    return (
        benchmark, grade.task, grade.id, problem, tutor, grade.kind, grade.by, grade.scoring, grade.criterion,
        text(grade.value), number, grade.correct, text(grade.gold), text(grade.raw), text(grade.why_none),
        text(grade.reason),
    )  # fmt: skip


def write_grades(run: FinishedRun, out: Path) -> int:
    """Write every grade of the run's replies to one Parquet file, and return the number of grades."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"number": pa.float64(), "correct": pa.bool_()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in GRADE_COLUMNS])
    count = 0
    with atomic_path(out) as place, pq.ParquetWriter(place, schema, compression="zstd") as writer:
        rows: list[tuple[Any, ...]] = []

        def flush() -> None:
            nonlocal count
            columns = list(zip(*rows, strict=True)) or [()] * len(GRADE_COLUMNS)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(rows)
            rows.clear()

        for benchmark, loaded_cards in run.plan.benchmarks.items():
            items = {
                (loaded.card.task, name): item
                for loaded in loaded_cards
                for name, item in items_by_id(run.results, benchmark, loaded.card.task).items()
            }
            problems = {place: item.cluster for place, item in items.items()}
            copies = {place: item.repeat for place, item in items.items()}
            tasks = {loaded.card.task for loaded in loaded_cards}
            for tutor in run.plan.tutors_on(benchmark):
                repeats = run.plan.repeats_of(tutor)  # copies beyond are for other tutors
                for path in grade_files(run, benchmark, tutor):
                    for grade in iter_records(path, Grade):
                        if grade.task in tasks and copies.get((grade.task, grade.id), 0) < repeats:
                            rows.append(grade_row(grade, benchmark, tutor, problems.get((grade.task, grade.id))))
                            if len(rows) >= GRADES_IN_MEMORY:
                                flush()
        flush()
    return count


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
