"""`maieutic check-graders`: test every parser of a run against the gold answers of the run's items."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from maieutic.config.cards import MODEL_GRADERS, Card
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import SCORINGS, Item, Scoring, read_items
from maieutic.graders.reading import Reading
from maieutic.graders.registry import GRADERS
from maieutic.replies.baselines import reply_without_request
from maieutic.replies.parsing import read_reply
from maieutic.run_plan import plan_before_pins
from maieutic.tools.items import make_questions
from maieutic.tools.pinning import merged_configuration

log = logging.getLogger(__name__)
MOST_PRINTED_FAILURES = 20  # maximum number of failures printed in the message; the others are only counted


class GraderCheck(NamedTuple):
    """Result of checking one grader on one task.

    failures: one line per failure; skipped: reason why the grader was not checked, or "".
    """

    task: str
    grader: str
    items: int
    failures: list[str]
    skipped: str = ""


def check_graders(*, configfile: list[Path]) -> None:
    """Test every parser of a run on the run's items: each must accept the gold answer and refuse wrong answers.

    No model is called. A wrong answer is made from the gold answer: the other verdict, the next step, or a number that
    is larger by one. Both scorings are checked. configfile: run files, as for snakemake. Raises UserError with the
    items that fail, or if Snakemake cannot build the items.
    """
    make_questions(configfile)
    plan, _ = plan_before_pins(merged_configuration(configfile))
    cards = [loaded.card for loaded in plan.cards.values()]
    report_stage(row for card in cards for row in check_card_on_gold(card, read_task_items(card)))


def read_task_items(card: Card) -> list[Item]:
    """Return the items of a task, read from the results folder."""
    return read_items(Path(paths.ITEMS.of(benchmark=card.benchmark, task=card.task)).parent, [card.task])


def check_card_on_gold(card: Card, items: list[Item]) -> list[GraderCheck]:
    """Check each grader of a task against the gold answers of the task's items."""
    return [check_grader_on_gold(f"{card.benchmark}/{card.task}", grader, items) for grader in card.graders]


def check_grader_on_gold(task: str, grader: str, items: list[Item]) -> GraderCheck:
    """Check one grader against the gold answers of items under both scorings. task: the task's name in the output."""
    if why := why_skipped(grader):
        return GraderCheck(task, grader, 0, [], why)
    failures = [failure for item in items for scoring in SCORINGS for failure in failures_on(grader, item, scoring)]
    return GraderCheck(task, grader, len(items), failures)


def why_skipped(grader: str) -> str:
    """Return the reason why a grader cannot be checked with gold answers, or "" if it can."""
    if grader in MODEL_GRADERS:
        return "a model assigns the grades, and the report validates that model"
    if GRADERS[grader].descriptive:
        return "its grades describe replies and are neither right nor wrong"
    return "" if GRADERS[grader].gold_replies else "its items have no gold answer"


def failures_on(grader: str, item: Item, scoring: Scoring) -> list[str]:
    """Return one line if the gold answer is refused, and one for each wrong answer that is accepted."""
    gold_replies = GRADERS[grader].gold_replies
    assert gold_replies is not None
    place = f"{item.task}/{item.id}, {grader}, {scoring}"
    try:
        right, wrong = gold_replies(item)
    except ValueError as error:
        return [f"{place}: {error}"]

    def accepts(texts: list[str]) -> bool:
        return all_correct(read_reply(grader, item, reply_without_request("gold", item, texts), scoring))

    refused = [] if accepts(right) else [f"{place}: the gold answer is refused: {right}"]
    return refused + [f"{place}: a wrong answer is accepted: {texts}" for texts in wrong if accepts(texts)]


def all_correct(readings: list[Reading]) -> bool:
    """Return True if there are readings and all are correct. A share or count is correct if it is at least 1."""
    return bool(readings) and all(
        reading.correct if reading.correct is not None else bool(reading.value) and float(str(reading.value)) >= 1
        for reading in readings
    )


def report_stage(checked: Iterable[GraderCheck]) -> None:
    """Log one line for each task and grader. Raises UserError with all failures."""
    failures: list[str] = []
    for row in checked:
        outcome = f"skipped: {row.skipped}" if row.skipped else f"{row.items} items, {len(row.failures)} failures"
        log.info("%s, %s: %s", row.task, row.grader, outcome)
        failures += row.failures
    if failures:
        more = [f"and {len(failures) - MOST_PRINTED_FAILURES} more"] if len(failures) > MOST_PRINTED_FAILURES else []
        lines = "\n".join([f"{len(failures)} failures", *failures[:MOST_PRINTED_FAILURES], *more])
        raise UserError("check-graders", lines, "correct the grader or the item")
