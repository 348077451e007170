"""Report how grades moved because the parsers of replies changed since an earlier run of the same folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.core import paths
from maieutic.core.files import remove, write_csv
from maieutic.core.records import Grade, iter_records

Job = Any  # a Snakemake job
PARSE, GENERATE = "parse_replies", {"generate_replies", "read_replies"}
COLUMNS = ("benchmark", "tutor", "task", "id", "kind", "criterion", "before", "after", "why_none", "raw")


class Moved(NamedTuple):
    """Grades of one tutor on one benchmark before and after the parsers changed, as pairs, and those that moved."""

    benchmark: str
    tutor: str
    pairs: list[tuple[Grade, Grade]]
    moved: list[tuple[Grade, Grade]]


def keep_previous_grades(jobs: Iterable[Job], results: Path) -> None:
    """Link the grades that the run will replace although their replies stay the same. jobs: the planned jobs."""
    jobs = list(jobs)
    folder = paths.PREVIOUS_GRADES.within(results)
    remove(folder)
    regenerated = {place_of(job) for job in jobs if job.rule.name in GENERATE}
    for benchmark, tutor in {place_of(job) for job in jobs if job.rule.name == PARSE} - regenerated:
        grades = paths.PARSED.within(results, benchmark=benchmark, tutor=tutor)
        if not grades.exists():
            continue
        kept = folder / benchmark / f"{tutor}.jsonl"
        kept.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(grades, kept)
        except OSError:  # a file system without links
            shutil.copy2(grades, kept)


def place_of(job: Job) -> tuple[str, str]:
    """Return the benchmark and the tutor of a job."""
    return str(job.wildcards.get("benchmark", "")), str(job.wildcards.get("tutor", ""))


def moved_grades(results: Path) -> Iterator[Moved]:
    """Yield the grades under `robust` of each tutor whose grades moved."""
    folder = paths.PREVIOUS_GRADES.within(results)
    for kept in sorted(folder.glob("*/*.jsonl")):
        benchmark, tutor = kept.parent.name, kept.stem
        grades = paths.PARSED.within(results, benchmark=benchmark, tutor=tutor)
        if not grades.exists():
            continue
        before = {identity(grade): grade for grade in iter_records(kept, Grade) if grade.scoring == "robust"}
        after = [grade for grade in iter_records(grades, Grade) if grade.scoring == "robust"]
        pairs = [(before[identity(grade)], grade) for grade in after if identity(grade) in before]
        moved = [(old, new) for old, new in pairs if old.value != new.value]
        if moved:
            yield Moved(benchmark, tutor, pairs, moved)


def identity(grade: Grade) -> tuple[str, str, str, str | None]:
    """Return the item, task, parser and criterion of a grade."""
    return grade.task, grade.id, grade.kind, grade.criterion


def reader_change_lines(results: Path) -> list[str]:
    """Return a line for each tutor and benchmark whose grades moved, and write the table of these grades."""
    all_moved = list(moved_grades(results))
    remove(paths.PREVIOUS_GRADES.within(results))
    if not all_moved:
        return []
    table = paths.READER_CHANGES.within(results)
    table.parent.mkdir(parents=True, exist_ok=True)
    write_csv(
        table,
        COLUMNS,
        (
            (change.benchmark, change.tutor, *identity(new), old.value, new.value, new.why_none, new.raw)
            for change in all_moved
            for old, new in change.moved
        ),
    )
    return [f"{change_line(change)} ({table})" for change in all_moved]


def change_line(change: Moved) -> str:
    """Return the line about one tutor's grades that moved."""
    unread = sum(new.value is None for _, new in change.moved)
    judged = [(old, new) for old, new in change.pairs if not (old.correct is None and new.correct is None)]
    before, after = (sum(bool(pair[place].correct) for pair in judged) for place in (0, 1))
    shares = f"; {before / len(judged):.2f} to {after / len(judged):.2f} right" if judged else ""
    return (
        f"{change.tutor}: readers changed: {len(change.moved):,} of {len(change.pairs):,} grades of {change.benchmark}"
        f" moved, {unread:,} to unread{shares}"
    )
