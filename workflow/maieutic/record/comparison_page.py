"""The page of `maieutic compare`: what differs between two runs, and both replies where the grade changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from maieutic.core.files import atomic_file
from maieutic.core.records import Grade, Item, Reply
from maieutic.core.visible import policy_hash, visible_text
from maieutic.record.finished_run import FinishedRun
from maieutic.report.browser import cut_text, grades_of_run, head_kinds, kind_of_grade, outcome_of_grade, shown_fields

HERE = Path(__file__).parent
REPORT = HERE.parent / "report"
MOST_FLIPS = 50  # maximum number of items that the page shows of one tutor on one task
WORDS = {"right": "right", "wrong": "wrong", "none": "no answer"}


class Flip(NamedTuple):
    """An item whose grade differs between two runs, with both replies. gain: the later grade minus the earlier one."""

    item: str
    title: str
    before: str
    after: str
    first: str
    second: str
    gain: float


class ChangedTask(NamedTuple):
    """A tutor's items on one task whose grades differ between two runs. number: all of them; flips: those shown."""

    title: str
    label: str
    number: int
    flips: list[Flip]


def counted_grades(run: FinishedRun, benchmark: str, tutor: str) -> dict[tuple[str, str], Grade]:
    """Return the grades of a tutor's replies that the tasks' headline metrics count, by task and item."""
    kinds = head_kinds(run.plan, (loaded.card for loaded in run.plan.benchmarks[benchmark]))
    return {
        (grade.task, grade.id): grade
        for grade in grades_of_run(run.plan, run.results, benchmark, tutor)
        if (*kind_of_grade(grade), grade.by) in kinds
    }


def grade_word(grade: Grade) -> str:
    """Return a grade in words: right, wrong, no answer, or its value."""
    return WORDS.get(outcome_of_grade(grade)) or (
        f"{grade.value:.3g}" if isinstance(grade.value, float) else str(grade.value)
    )


def standing(grade: Grade) -> float:
    """Return the quality of a reply as a number; an answer that cannot be read counts as 0."""
    if grade.correct is not None:
        return float(grade.correct)
    return float(grade.value) if isinstance(grade.value, int | float) else 0.0


def flips_between(
    items: Sequence[Item],
    grades: Sequence[Mapping[tuple[str, str], Grade]],
    replies: Sequence[Mapping[tuple[str, str], Reply]],
) -> list[Flip]:
    """Return the items with different grades in two runs, beginning with the largest difference.

    items: items in both runs; grades, replies: those of the earlier and of the later run, by task and item.
    """

    def text(run: int, item: Item) -> str:
        reply = replies[run].get((item.task, item.id))
        return cut_text(reply.text) if reply else ""

    flips = [
        Flip(
            item.id,
            shown_fields(item)["title"],
            grade_word(before),
            grade_word(after),
            text(0, item),
            text(1, item),
            standing(after) - standing(before),
        )
        for item in items
        if not item.repeat
        and (before := grades[0].get((item.task, item.id)))
        and (after := grades[1].get((item.task, item.id)))
        if (outcome_of_grade(before), before.value if before.correct is None else None)
        != (outcome_of_grade(after), after.value if after.correct is None else None)
    ]
    return sorted(flips, key=lambda flip: (-abs(flip.gain), flip.item))


def write_comparison(
    out: Path,
    names: tuple[str, str],
    lists: Sequence[tuple[str, Sequence[str]]],
    rows: Sequence[dict[str, Any]],
    changed: Sequence[ChangedTask],
    note: str,
) -> None:
    """Write the page. names: the two runs; lists: titles and lines of what differs; rows: differences of scores."""
    environment = Environment(
        loader=FileSystemLoader([HERE, REPORT]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible_text(value) if isinstance(value, str) else value,
    )
    style = (REPORT / "page.css").read_text(encoding="utf-8")
    numbers = [abs(row[name]) for row in rows for name in ("value", "low", "high") if row[name] is not None]
    with atomic_file(out) as handle:
        handle.write(
            environment.get_template("comparison.html.jinja").render(
                policy=f"default-src 'none'; style-src {policy_hash(style)}",
                style=style,
                names=names,
                lists=lists,
                rows=rows,
                reach=max(numbers, default=0.0) or 1.0,
                changed=changed,
                most=MOST_FLIPS,
                note=note,
            )
        )
