"""Jobs of a finished run as Snakemake plans them: how each computed file is made from other files of the run.

Snakemake reads the rules of this checkout and a configuration that is written anew from the validated one. It reads no
file of a received run, and it executes nothing.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.commands import command_function
from maieutic.core import paths
from maieutic.core.extensions import extension_folders
from maieutic.core.files import write_json
from maieutic.core.jobs import LOG, parse_rule_arguments
from maieutic.launch import snakemake_compat
from maieutic.plan.rules import ABSENT, RulePlan, planning_finished_run
from maieutic.report.stage import report_files
from maieutic.run_plan import unchecked_plan

CHECKOUT = Path(__file__).parents[3]  # folder of the rules and cards
# Folders of files that are computed from replies, verdicts, rewards, labels and pairs, without a model
COMPUTED_FOLDERS = ("results/grades/", "results/scores/", "results/validation/")
# Validations, whose inputs may be too large to be packed
VALIDATION_FILES = ("results/validation/", "results/scores/labels/", paths.LEADING_REWARD_MODEL.of())
# Keys of a configuration that name programs, code or files of the machine on which the run was made
MACHINE_KEYS = frozenset({"interpreters", "containers", "extensions", "data_dir"})
MODULE_CALL = ["-m", "maieutic"]
DAY = 86_400.0


class PlannedJob(NamedTuple):
    """Job of a run that computes files without a model.

    inputs, outputs: paths as the rules name them; missing: inputs that are neither files of the run nor outputs of jobs
    without missing inputs; words: name of the job's command, with its flags.
    """

    rule: str
    inputs: list[str]
    outputs: list[str]
    missing: list[str]
    words: list[str]

    @property
    def validates(self) -> bool:
        """True if the job measures a grader against labels or pairs."""
        return all(path.startswith(VALIDATION_FILES) for path in self.outputs)

    def run(self, outputs: Mapping[str, Path]) -> None:
        """Run the job's command in this process. outputs: where to write each output, by its path."""
        run_words(self.words, outputs)


def run_words(words: Sequence[str], files: Mapping[str, Path]) -> None:
    """Run a command of the package in this process. words: its name and flags; files: paths to use for named ones."""
    name, *flags = words
    function = command_function(name)
    assert function is not None  # every rule runs a command of the package
    arguments = parse_rule_arguments(function, flags)
    assert arguments is not None, words
    arguments.pop(LOG, None)

    def elsewhere(value: Any) -> Any:
        if isinstance(value, list):
            return [elsewhere(member) for member in value]
        return files.get(str(value), value) if isinstance(value, Path) else value

    function(**{flag: elsewhere(value) for flag, value in arguments.items()})


def computed_files(plan: RulePlan) -> list[str]:
    """Return the files of a run that are computed without a model: those that the report reads."""
    of_slices = [file for part in plan.slices for file in part.computed_files(plan)]
    leading = [paths.LEADING_REWARD_MODEL.of()] if plan.chooses_reward_model else []
    computed = (file for file in report_files(plan) if file.startswith(COMPUTED_FOLDERS))
    return list(dict.fromkeys([*computed, *of_slices, *leading]))


def config_of_any_machine(plan: RulePlan) -> dict[str, Any]:
    """Return a run's configuration without the keys that concern one machine, and without people's own label file.

    Its extensions are those that are active in this process.
    """
    content = plan.config.model_dump(mode="json", exclude=set(MACHINE_KEYS))
    content["run"]["human_labels"] = None
    content["extensions"] = [str(folder) for folder in extension_folders()]
    return content


@contextmanager
def working_folder() -> Iterator[Path]:
    """Make a temporary folder with this checkout's cards the current one, and yield it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "resources").symlink_to(CHECKOUT / "resources")
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


@contextmanager
def folder_of_run(results: Path) -> Iterator[None]:
    """Make a temporary folder with a run's results and this checkout's cards the current one."""
    results = results.resolve()
    with working_folder() as folder:
        (folder / paths.ROOT).symlink_to(results)
        yield


@contextmanager
def folder_to_plan(results: Path) -> Iterator[None]:
    """Make a temporary folder the current one that has an empty file for each of a run's results.

    Snakemake takes no file for outdated, since all of them are equally old and newer than the cards.
    """
    names = [path.relative_to(results) for path in results.rglob("*") if path.is_file()]
    later = time.time() + DAY
    with working_folder() as folder:
        for file in names:
            path = folder / paths.ROOT / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            os.utime(path, (later, later))
        (folder / ABSENT).parent.mkdir(exist_ok=True)
        (folder / ABSENT).touch()
        for name in ("models", "datasets"):  # the configuration has all of their entries
            write_json(folder / f"config/{name}.yaml", {name: {}})
        yield


def jobs_of_run(plan: RulePlan, results: Path) -> list[PlannedJob]:
    """Return the jobs that compute files of a run, in an order in which they can run. results: its results folder."""
    config = config_of_any_machine(plan)
    targets = computed_files(unchecked_plan(config))
    planned, computed = list[PlannedJob](), set[str]()
    with folder_to_plan(results), planning_finished_run():
        jobs = snakemake_compat.jobs_of_dry_run(CHECKOUT / "Snakefile", config, targets)
        for job in jobs:
            inputs, outputs = [str(path) for path in job.input], [str(path) for path in job.output]
            if set(outputs).isdisjoint(targets):
                continue
            missing = [path for path in inputs if path == ABSENT or (path not in computed and not Path(path).exists())]
            if not missing:
                computed.update(outputs)
            planned.append(PlannedJob(job.rule.name, inputs, outputs, missing, command_words(job.shellcmd)))
    return planned


def command_words(command: str) -> list[str]:
    """Return the words of a rule's shell command behind `-m maieutic`: the name of a command and its flags."""
    words = shlex.split(command)
    place = next(place for place in range(len(words)) if words[place : place + 2] == MODULE_CALL)
    return words[place + 2 :]
