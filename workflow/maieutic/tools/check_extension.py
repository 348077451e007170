"""`maieutic check`: check an extension before it is used."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import yaml

from maieutic.config.cards import read_card
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.errors import UserError, check_all
from maieutic.core.extensions import CODE, activate_extensions, check_extensions, extension_folders
from maieutic.core.terminal import say
from maieutic.preparation.own_readings import preview_of_own_files
from maieutic.run_plan import plan_of
from maieutic.tools.pinning import merged_configuration
from maieutic.tools.self_check import check_graders

log = logging.getLogger(__name__)
PAGES = Path("results/checks")
GRADER_KEYS = ("reward_models", "reward_comparisons", "classifiers", "judges", "taggers")
NO_GRADERS: dict[str, list[str]] = {key: [] for key in GRADER_KEYS}


def check(folder: Path, /, *, configfile: list[Path] | None = None) -> None:
    """Check an extension: its cards and rubrics, its prompts and parsers on its items, and a run to the page.

    Without a run file, only the cards and rubrics are checked. With one, the first records of each of the user's files
    are printed as they will be used, the prompts of all items are rendered, each parser must accept the items' gold
    answers and refuse wrong ones, and the cards' trivial tutors are run up to the page, results/checks/NAME/index.html.
    No model is called, and no result of another run changes.

    folder: the extension; configfile: run files that name it, as for snakemake. Raises UserError if there are faults.
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
    run_to_page({"name": None, "tutors": floors, **NO_GRADERS}, configfile, PAGES / name)
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


def run_to_page(run: dict[str, object], configfile: list[Path], out: Path) -> None:
    """Run the workflow with these keys of `run` on top of the run files, and copy its report to `out`.

    The run has results of its own, in a temporary folder with links to everything else in the working folder. Raises
    UserError if Snakemake fails.
    """
    with tempfile.TemporaryDirectory() as place:
        for path in Path().iterdir():
            if path.name not in (paths.ROOT, ".snakemake"):
                Path(place, path.name).symlink_to(path.absolute())
        overlay = Path(place, "check.yaml")
        overlay.write_text(yaml.safe_dump({"run": run}), encoding="utf-8")
        files = [*(path.absolute() for path in configfile), overlay]
        line = [sys.executable, "-m", "snakemake", "--cores", "1", "--configfile", *map(str, files)]
        ended = subprocess.run(line, cwd=place).returncode
        if ended != 0:
            fix = "fix the cause printed above, then run the command again"
            raise UserError(", ".join(map(str, configfile)), f"snakemake ended with exit status {ended}", fix)
        shutil.copytree(Path(place, paths.PAGE.of(run="report")).parent, out, dirs_exist_ok=True)
