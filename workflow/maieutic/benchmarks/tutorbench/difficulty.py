"""Difficulty filter, which finds items on which most tutors score low (in appendix A.1: 3 of 5 tutors under 50 %)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from maieutic.core.files import atomic_file, safe_cell
from maieutic.core.jobs import Job
from maieutic.core.records import Grade, Item, read_items, read_records
from maieutic.graders.weighted_rubric import ARR_W

COLUMNS = ("task", "item", "subject", "below", "scored", "hard")


class ItemDifficulty(NamedTuple):
    """Difficulty of one item.

    scores: score by tutor, None if missing; below: number of scores under the bound; hard: True if the item is hard,
    None if that depends on missing scores.
    """

    item: Item
    scores: dict[str, float | None]
    below: int
    hard: bool | None


def item_difficulty(item: Item, scores: Mapping[str, float | None], below: float, at_least: int) -> ItemDifficulty:
    """Return the difficulty of an item.

    below: bound under which a score is low; at_least: minimum number of low scores of a hard item.
    """
    low = sum(value is not None and value < below for value in scores.values())
    missing = sum(value is None for value in scores.values())
    hard = True if low >= at_least else None if low + missing >= at_least else False
    return ItemDifficulty(item, dict(scores), low, hard)


class FilterByDifficulty(Job):
    """Settings of filter_by_difficulty. An item is hard if at least `at_least` of the tutors score under `below`."""

    tasks: list[str]
    tutors: list[str]
    below: float
    at_least: int


def filter_by_difficulty(*, job: FilterByDifficulty, items: Path, grades: list[Path], out: Path) -> None:
    """Write a CSV with one row for each item: every tutor's score, and "yes", "no" or "unknown" as `hard`.

    items: folder of the benchmark's items; grades: the leading judge's grades, one file for each tutor of the job.
    """
    cases = [item for item in read_items(items, job.tasks) if not item.repeat]
    scores: dict[tuple[str, str], dict[str, float | None]] = {(item.task, item.id): {} for item in cases}
    for tutor, path in zip(job.tutors, grades, strict=True):
        for grade in read_records(path, Grade):
            if grade.criterion == ARR_W and (grade.task, grade.id) in scores:
                scores[grade.task, grade.id][tutor] = None if grade.value is None else float(grade.value)
    with atomic_file(out) as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow([*COLUMNS, *job.tutors])
        for item in cases:
            # A tutor without picture input is not sent multimodal items, so its scores on them are missing.
            by_tutor = {tutor: scores[item.task, item.id].get(tutor) for tutor in job.tutors}
            writer.writerow(
                [safe_cell(cell) for cell in difficulty_row(item_difficulty(item, by_tutor, job.below, job.at_least))]
            )


def difficulty_row(difficulty: ItemDifficulty) -> list[object]:
    """Return the CSV row of one item."""
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
