"""Which items are hard: those under a score for most of some tutors (TutorBench, appendix A.1: 3 of 5 under 50 %)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from maieutic.core.files import safe_cell, whole_file
from maieutic.core.jobs import Job
from maieutic.core.records import Grade, Item, read_items, read_records
from maieutic.graders.rubric import ARR_W

COLUMNS = ("task", "item", "subject", "below", "scored", "hard")


class Hardness(NamedTuple):
    """One item: by tutor its score (None: not known), and how many are below the bound."""

    item: Item
    scores: dict[str, float | None]
    below: int
    hard: bool | None


def hardness(item: Item, scores: Mapping[str, float | None], below: float, at_least: int) -> Hardness:
    """Whether an item is hard; None where the scores that are missing could decide it."""
    low = sum(value is not None and value < below for value in scores.values())
    open_ = sum(value is None for value in scores.values())
    hard = True if low >= at_least else None if low + open_ >= at_least else False
    return Hardness(item, dict(scores), low, hard)


class FilterByDifficulty(Job):
    """Which items are hard: those with a score under `below` by at least `at_least` of the tutors."""

    tasks: list[str]
    tutors: list[str]
    below: float
    at_least: int


def filter_by_difficulty(*, job: FilterByDifficulty, items: Path, grades: list[Path], out: Path) -> None:
    """Write a CSV: one row an item, with every tutor's score and whether the item is kept as hard.

    items: the folder of the benchmark's items; grades: the leading judge's, one file a tutor in the job's order.
    """
    cases = read_items(items, job.tasks)
    scores: dict[tuple[str, str], dict[str, float | None]] = {(item.task, item.id): {} for item in cases}
    for tutor, path in zip(job.tutors, grades, strict=True):
        for grade in read_records(path, Grade):
            if grade.criterion == ARR_W and (grade.task, grade.id) in scores:
                scores[grade.task, grade.id][tutor] = None if grade.value is None else float(grade.value)
    with whole_file(out) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow([*COLUMNS, *job.tutors])
        for item in cases:
            # A tutor that takes no pictures has not been asked: its score is missing.
            by_tutor = {tutor: scores[item.task, item.id].get(tutor) for tutor in job.tutors}
            writer.writerow([safe_cell(cell) for cell in row_of(hardness(item, by_tutor, job.below, job.at_least))])


def row_of(difficulty: Hardness) -> list[object]:
    """One item's row."""
    known = sum(value is not None for value in difficulty.scores.values())
    hard = "unknown" if difficulty.hard is None else "yes" if difficulty.hard else "no"
    values = ["" if value is None else f"{value:.4f}" for value in difficulty.scores.values()]
    return [
        difficulty.item.task,
        difficulty.item.id,
        difficulty.item.tags.get("subject", ""),
        difficulty.below,
        known,
        hard,
        *values,
    ]
