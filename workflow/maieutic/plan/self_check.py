"""`maieutic check-graders`: test every parser of a run against the gold answers of its items."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from maieutic.config.cards import MODEL_GRADERS, Card
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import SCORINGS, Item, Scoring, read_items
from maieutic.graders.parsing import readings_of
from maieutic.graders.reading import Reading
from maieutic.graders.registry import GRADERS
from maieutic.plan.items import make_questions
from maieutic.plan.pinning import configuration
from maieutic.plan.rules import plan_before_pins
from maieutic.replies.baselines import reply_of

log = logging.getLogger(__name__)
SHOWN = 20  # failures that the message names; the others are counted


class Checked(NamedTuple):
    """The check of one grader on one task.

    failures: one line per failure; skipped: why the grader was not checked, empty where it was.
    """

    task: str
    grader: str
    items: int
    failures: list[str]
    skipped: str = ""


def check_graders(*, configfile: list[Path]) -> None:
    """Test every parser of a run on the run's items: it must accept the gold answer and refuse a wrong one.

    No model is asked. A wrong answer is another value of the same kind: the other verdict, the next step, a number that
    is larger by one. Both scorings are checked. configfile: run files, as for snakemake. Raises UserError with the
    items that fail, and where Snakemake cannot make the items.
    """
    make_questions(configfile)
    plan, _ = plan_before_pins(configuration(configfile))
    cards = [loaded.card for loaded in plan.cards.values()]
    report(row for card in cards for row in check_card(card, items_of(card)))


def items_of(card: Card) -> list[Item]:
    """Return the items of a task from the results."""
    return read_items(Path(paths.ITEMS.of(benchmark=card.benchmark, task=card.task)).parent, [card.task])


def check_card(card: Card, items: list[Item]) -> list[Checked]:
    """Check each grader of a task on the task's items."""
    return [check_grader(f"{card.benchmark}/{card.task}", grader, items) for grader in card.graders]


def check_grader(task: str, grader: str, items: list[Item]) -> Checked:
    """Check one grader under both scorings. task: its name in the report."""
    if why := why_skipped(grader):
        return Checked(task, grader, 0, [], why)
    failures = [failure for item in items for scoring in SCORINGS for failure in failures_on(grader, item, scoring)]
    return Checked(task, grader, len(items), failures)


def why_skipped(grader: str) -> str:
    """Return why a grader cannot be checked with gold answers; an empty text where it can."""
    if grader in MODEL_GRADERS:
        return "a model grades, which the report's validation is about"
    if GRADERS[grader].describing:
        return "it describes a reply, right or wrong"
    return "" if GRADERS[grader].gold_replies else "its rule has no gold answer"


def failures_on(grader: str, item: Item, scoring: Scoring) -> list[str]:
    """Return a line for a refused gold answer, and one for each wrong answer that the grader accepts."""
    gold_replies = GRADERS[grader].gold_replies
    assert gold_replies is not None
    place = f"{item.task}/{item.id}, {grader}, {scoring}"
    try:
        right, wrong = gold_replies(item)
    except ValueError as error:
        return [f"{place}: {error}"]

    def accepts(texts: list[str]) -> bool:
        return all_right(readings_of(grader, item, reply_of("gold", item, texts), scoring))

    refused = [] if accepts(right) else [f"{place}: the gold answer is refused: {right}"]
    return refused + [f"{place}: a wrong answer is accepted: {texts}" for texts in wrong if accepts(texts)]


def all_right(readings: list[Reading]) -> bool:
    """Return whether each reading is correct, or at least 1 where it is a share or a count."""
    return bool(readings) and all(
        reading.correct if reading.correct is not None else bool(reading.value) and float(str(reading.value)) >= 1
        for reading in readings
    )


def report(checked: Iterable[Checked]) -> None:
    """Log one line for each task and grader. Raises UserError with all failures."""
    failures: list[str] = []
    for row in checked:
        outcome = f"skipped: {row.skipped}" if row.skipped else f"{row.items} items, {len(row.failures)} failures"
        log.info("%s, %s: %s", row.task, row.grader, outcome)
        failures += row.failures
    if failures:
        more = [f"and {len(failures) - SHOWN} more"] if len(failures) > SHOWN else []
        named = "\n".join([f"{len(failures)} failures", *failures[:SHOWN], *more])
        raise UserError("check-graders", named, "mend the grader or the item")
