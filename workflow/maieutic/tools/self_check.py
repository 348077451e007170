"""`maieutic check-graders`: test every parser of a run against the gold answers of the run's items."""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import yaml

from maieutic.config.cards import MODEL_GRADERS, Card, read_card
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all
from maieutic.core.extensions import CODE, activate_extensions, check_extensions, extension_folders
from maieutic.core.records import SCORINGS, Item, Scoring, read_items
from maieutic.core.terminal import say
from maieutic.graders.reading import Reading
from maieutic.graders.registry import GRADERS
from maieutic.launch.config_files import merged_configuration
from maieutic.launch.run import snakemake_environment, snakemake_line
from maieutic.preparation.own_readings import preview_of_own_files
from maieutic.replies.baselines import reply_without_request
from maieutic.replies.parsing import read_reply
from maieutic.run_plan import plan_before_pins, plan_of
from maieutic.tools.items import make_questions

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
    is larger by one. Both scorings are checked.

    Args:
        configfile: run files, as for snakemake

    Raises:
        UserError: lists the items that fail; also raised if Snakemake cannot build the items
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


PAGES = Path("results/checks")
GRADER_KEYS = ("reward_models", "reward_comparisons", "classifiers", "judges", "taggers")
NO_GRADERS: dict[str, list[str]] = {key: [] for key in GRADER_KEYS}


def check(folder: Path, /, *, configfile: list[Path] | None = None) -> None:
    """Check an extension: its cards and rubrics, its prompts and parsers on its items, and a run to the page.

    Without a run file, only the cards and rubrics are checked. With one, the first records of each of the user's files
    are printed as they will be used, the prompts of all items are rendered, each parser must accept the items' gold
    answers and refuse wrong ones, and the cards' trivial tutors are run up to the page, results/checks/NAME/index.html.
    No model is called, and no result of another run changes.

    Args:
        folder: folder of the extension
        configfile: run files that name the extension, as for snakemake

    Raises:
        UserError: if there are faults
    """
    name = folder.absolute().name
    activate_extensions([folder, *(other for other in extension_folders() if other != folder.absolute())])
    if configfile is None:
        check_extensions([str(folder)])
        counts = check_cards_and_rubrics(folder)
        log.info("%s: %s are valid; add --configfile to check prompts, parsers and a run", name, counts)
        return
    raw = merged_configuration(configfile)
    if folder.absolute() not in [Path(place).absolute() for place in raw.get("extensions") or []]:
        raise UserError("extensions", f"the run file does not name {folder}", f"set extensions: [{folder}]")
    counts = check_cards_and_rubrics(folder)
    plan = plan_of(raw)
    tasks = [path for path in plan.cards if path.is_relative_to(folder.absolute())]
    if (folder / "resources/benchmarks").is_dir() and not tasks:
        raise UserError("run.tasks", f"no task of {folder} is selected", "add its tasks to run.tasks")
    for line in preview_of_own_files(plan):
        say(line)
    check_graders(configfile=configfile)
    floors = list(dict.fromkeys(tutor for loaded in plan.cards.values() for tutor in loaded.card.baselines.floor))
    places = [str(Path(place).absolute()) for place in raw["extensions"]]  # a relative path is not found from elsewhere
    run_to_page({"name": None, "tutors": floors, **NO_GRADERS}, places, configfile, PAGES / name)
    page = PAGES / name / Path(paths.PAGE).name
    log.info("%s: %s are valid; tasks run by trivial tutors: %d; page: %s", name, counts, len(tasks), page)


def check_cards_and_rubrics(folder: Path) -> str:
    """Read all cards and rubrics of an active extension, and return their numbers as text. Raises UserError."""
    checks = list(checks_of(folder.absolute()))
    check_all(checks)
    cards = len(list((folder / "resources/benchmarks").glob("*/*.yaml")))
    code = len(list((folder / CODE).glob("*/__init__.py")))
    return f"cards: {cards}, rubrics: {len(checks) - cards}, benchmarks with code: {code}"


def checks_of(folder: Path) -> Iterator[Callable[[], object]]:
    """Yield a check for each card and rubric of an extension."""
    for path in sorted((folder / "resources/benchmarks").glob("*/*.yaml")):
        yield partial(read_card, path)
    for rubrics in [folder / "resources/rubrics", *sorted((folder / "resources/benchmarks").glob("*/rubrics"))]:
        yield from (partial(read_rubric, path.stem) for path in sorted(rubrics.glob("*.yaml")))


def run_to_page(run: dict[str, object], extensions: list[str], configfile: list[Path], out: Path) -> None:
    """Run the workflow with these keys of `run` and extensions on top of the run files; copy its report to `out`.

    The run has results of its own, in a temporary folder with links to everything else in the working folder. Raises
    UserError if Snakemake fails.
    """
    with tempfile.TemporaryDirectory() as place:
        for path in Path().iterdir():
            if path.name not in (paths.ROOT, ".snakemake"):
                Path(place, path.name).symlink_to(path.absolute())
        overlay = Path(place, "check.yaml")
        overlay.write_text(yaml.safe_dump({"run": run, "extensions": extensions}), encoding="utf-8")
        files = [*(path.absolute() for path in configfile), overlay]
        line = [*snakemake_line(), "--cores", "1", "--configfile", *map(str, files)]
        ended = subprocess.run(line, cwd=place, env=snakemake_environment()).returncode
        if ended != 0:
            fix = "fix the cause printed above, then run the command again"
            raise UserError(", ".join(map(str, configfile)), f"snakemake ended with exit status {ended}", fix)
        shutil.copytree(Path(place, paths.PAGE.of(run="report")).parent, out, dirs_exist_ok=True)
