"""`maieutic check-graders`: whether every grader accepts the gold answers of a run's items, and refuses wrong ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from maieutic.config.cards import MODEL_GRADERS, Card
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import NOBODY_ASKED, SCORINGS, Item, Reply, Scoring, Turn, read_items
from maieutic.graders.parsing import readings_of
from maieutic.graders.reading import Reading
from maieutic.graders.registry import GRADERS
from maieutic.plan.items import make_questions
from maieutic.plan.pinning import configuration
from maieutic.plan.rules import plan_before_pins

log = logging.getLogger(__name__)
SHOWN = 20  # failures that are named; of the rest their number


class Checked(NamedTuple):
    """One grader on one task. skipped: why nothing was checked; failures: one line an item."""

    task: str
    grader: str
    items: int
    failures: list[str]
    skipped: str = ""


def said(item: Item, texts: list[str]) -> Reply:
    """A reply of these turns that no tutor gave."""
    turns = [Turn(messages=NOBODY_ASKED, text=text, finish="stop") for text in texts]
    return Reply(id=item.id, task=item.task, tutor="gold", key=NOBODY_ASKED, turns=turns)


def accepted(readings: list[Reading]) -> bool:
    """Whether everything that was read is right: correct, or where a reading is a share or a count, at least 1."""
    return bool(readings) and all(
        reading.correct if reading.correct is not None else bool(reading.value) and float(str(reading.value)) >= 1
        for reading in readings
    )


def faults_of(grader: str, item: Item, scoring: Scoring) -> list[str]:
    """What is wrong with one grader on one item; nothing where it accepts the gold answer and no other."""
    told = GRADERS[grader].told
    assert told is not None
    right, wrong = told(item)
    place = f"{item.task}/{item.id}, {grader}, {scoring}"
    refused = not accepted(readings_of(grader, item, said(item, right), scoring))
    taken = [turns for turns in wrong if accepted(readings_of(grader, item, said(item, turns), scoring))]
    return [
        *([f"{place}: the gold answer is refused: {right}"] if refused else []),
        *(f"{place}: a wrong answer is accepted: {turns}" for turns in taken),
    ]


def check_card(card: Card, items: list[Item]) -> list[Checked]:
    """Every grader of a task against the task's items."""
    task = f"{card.benchmark}/{card.task}"
    checked = []
    for grader in card.graders:
        why = why_skipped(grader)
        failures = (
            [fault for item in items for scoring in SCORINGS for fault in faults_of(grader, item, scoring)]
            if not why
            else []
        )
        checked.append(Checked(task, grader, 0 if why else len(items), failures, why))
    return checked


def why_skipped(grader: str) -> str:
    """Why a grader cannot be held against gold answers; nothing where it can."""
    if grader in MODEL_GRADERS:
        return "a model grades, which the report's validation is about"
    if GRADERS[grader].describing:
        return "it describes a reply, right or wrong"
    return "" if GRADERS[grader].told else "its rule has no gold answer"


def check_graders(*, configfile: list[Path]) -> None:
    """Hold every parser of a run against its items: it must accept the gold answer and refuse a wrong one.

    No model is asked. A wrong answer is another value of the gold one's kind: the other verdict, the next step, a
    number that is one more. Both scorings are checked. configfile: run files, as of snakemake. Raises UserError with
    the items that fail, and where Snakemake cannot make them.
    """
    make_questions(configfile)
    plan, _ = plan_before_pins(configuration(configfile))
    checked = [
        row
        for loaded in plan.cards.values()
        for row in check_card(
            loaded.card,
            read_items(
                Path(paths.ITEMS.of(benchmark=loaded.card.benchmark, task=loaded.card.task)).parent, [loaded.card.task]
            ),
        )
    ]
    tell(checked)


def tell(checked: Iterable[Checked]) -> None:
    """A line a task and grader. Raises UserError with the items that fail."""
    failures = []
    for row in checked:
        found = f"skipped: {row.skipped}" if row.skipped else f"{row.items} items, {len(row.failures)} failures"
        log.info("%s, %s: %s", row.task, row.grader, found)
        failures += row.failures
    if failures:
        more = [f"and {len(failures) - SHOWN} more"] if len(failures) > SHOWN else []
        raise UserError(
            "check-graders",
            "\n".join([f"{len(failures)} failures", *failures[:SHOWN], *more]),
            "mend the grader or the item",
        )
