"""Provenance of a run: commit of the code, checksums of cards, prompts, rubrics and data, and changes to shipped files.

`shipped.json` in `resources` and in each benchmark's folder lists the checksums of shipped files, and the pins of
datasets that affect a number. The report page marks every number that depends on a file or pin that differs from these.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from maieutic.config import cards, rubrics
from maieutic.config.datasets import Dataset, DatasetFile
from maieutic.config.models import RewardModel
from maieutic.core.errors import UserError
from maieutic.core.extensions import extension_files, listed_name
from maieutic.core.files import sha256_of, write_json
from maieutic.core.paths import RESOURCES
from maieutic.core.yaml_files import read_yaml
from maieutic.graders.registry import GRADERS
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import (
    NOT_SHIPPED,
    CodeState,
    Provenance,
    card_paths,
    copy_of_edition,
    instruction_of,
    source_file_name,
)

SHIPPED = RESOURCES / "shipped.json"
SHIPPED_FOLDERS = (rubrics.USER_RUBRICS, RESOURCES / "rewards")  # besides the folders of benchmarks
ShippedChecksums = dict[str, dict[str, str]]  # checksums of `files`, and pins of `data`, by name
# Paths that affect numbers. A checkout with changes only in other paths (docs, tests) counts as unedited.
PATHS_BEHIND_NUMBERS = ("Snakefile", "workflow", "resources", "config", "envs", "containers")
MOST_EDITED = 20
COMMIT_FILE = "COMMIT"  # in an installed package: the commit from which it was built


def git_output(*arguments: str, folder: Path = Path()) -> str | None:
    """Return the output of a git command in a folder; None if git is not installed or the command fails."""
    done = run_git(*arguments, folder=folder)
    return done.stdout if done is not None and done.returncode == 0 else None


def run_git(*arguments: str, folder: Path = Path()) -> subprocess.CompletedProcess[str] | None:
    """Run a git command in a folder; return None if git is not installed or does not end."""
    where = ["-C", str(folder)] if folder != Path() else []
    variables = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            ["git", *where, *arguments], capture_output=True, text=True, check=False, timeout=60, env=variables
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def ownership_fault(folder: Path = Path()) -> UserError | None:
    """Return the error for a checkout whose commit is unknown, because its folder belongs to another user."""
    done = run_git("rev-parse", "HEAD", folder=folder)
    if done is None or "dubious ownership" not in done.stderr:
        return None
    place = shlex.quote(str(folder.resolve()))
    problem = "the checkout belongs to another user, so git does not show its commit, and the record has none"
    return UserError(str(folder.resolve()), problem, f"git config --global --add safe.directory {place}")


def code_state(folder: Path = Path()) -> CodeState:
    """Return the commit and the edited files of the checkout whose root is `folder`."""
    top, commit = (
        git_output("rev-parse", "--show-toplevel", folder=folder),
        git_output("rev-parse", "HEAD", folder=folder),
    )
    # If this folder is part of another checkout, that checkout's commit does not describe this code.
    if top is None or commit is None or Path(top.strip()).resolve() != folder.resolve():
        built = folder / COMMIT_FILE
        return CodeState(commit=built.read_text(encoding="utf-8").strip() if built.is_file() else None)
    edited = [
        line[3:]
        for line in (git_output("status", "--porcelain", "--", *PATHS_BEHIND_NUMBERS, folder=folder) or "").splitlines()
    ]
    return CodeState(commit=commit.strip(), edited=edited[:MOST_EDITED], n_edited=len(edited))


def pin_of_copy(copy: DatasetFile | None) -> str | None:
    """Return the pin of a source file: its SHA-256, or its commit on the hub; None if it has no pin."""
    if copy is None:
        return None
    return copy.sha256 or (copy.hub.revision if copy.hub else None)


def pins_of(datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """Return the pins of datasets' source files in both editions, by source file."""
    return {
        source_file_name(name, edition): pin
        for name, dataset in sorted(datasets.items())
        for edition, copy in (("demo", dataset.demo), ("published", dataset.published))
        if (pin := pin_of_copy(copy))
    }


def current_checksums(datasets: Mapping[str, Dataset]) -> dict[Path, ShippedChecksums]:
    """Return the content of each shipped.json for the current files, by its path. datasets: the registry of datasets.

    A benchmark's folder has its own list, with the pins of the datasets that its cards name.
    """
    lists: dict[Path, ShippedChecksums] = {}
    named: set[str] = set()
    for folder in sorted(path for path in cards.CARDS.iterdir() if path.is_dir()):
        used = {cards.read_card(path).card.dataset for path in folder.glob("*.yaml")}
        data = pins_of({name: entry for name, entry in datasets.items() if name in used})
        lists[folder / SHIPPED.name] = {"files": checksums_of(folder), "data": data}
        named |= used
    files = {name: digest for folder in SHIPPED_FOLDERS for name, digest in checksums_of(folder).items()}
    others = pins_of({name: entry for name, entry in datasets.items() if name not in named})
    return {**lists, SHIPPED: {"files": files, "data": others}}


def checksums_of(folder: Path) -> dict[str, str]:
    """Return the checksums of a folder's files, without documents and its own list of checksums."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")
    return {listed_name(path): sha256_of(path) for path in paths if path.name != SHIPPED.name}


def export_shipped(datasets: Path) -> None:
    """Write the checksums of all shipped files and pins to the files shipped.json in `resources`.

    datasets: the shipped registry of datasets.
    """
    registry = {name: Dataset.model_validate(entry) for name, entry in read_yaml(datasets)["datasets"].items()}
    for path, content in current_checksums(registry).items():
        write_json(path, content)


@cache
def shipped_checksums() -> ShippedChecksums:
    """Return the checksums in all lists of shipped files."""
    checksums: ShippedChecksums = {"files": {}, "data": {}}
    for path in (SHIPPED, *sorted(cards.CARDS.glob(f"*/{SHIPPED.name}"))):
        for kind, listed in json.loads(path.read_text(encoding="utf-8")).items():
            checksums[kind] |= listed
    return checksums


def files_behind_numbers(plan: Plan) -> list[Path]:
    """Return every file that affects a number of a run: cards, prompts, rubrics, instructions of reward models."""
    paths = [path for card_path in plan.cards for path in card_paths(plan, plan.cards[card_path].card)]
    paths += [path for rubric in rubrics_used(plan) for path in rubrics.files_of_rubric(rubric)]
    rewards = [plan.models[name] for name in (*plan.run.reward_models, *plan.run.reward_comparisons)]
    paths += [path for model in rewards if isinstance(model, RewardModel) for path in instruction_of(model)]
    return sorted(set(paths))


def rubrics_used(plan: Plan) -> list[str]:
    """Return the rubrics of the run's judges and taggers, and the reworded rubrics with which judges are probed."""
    named = [rubric for name in (*plan.run.judges, *plan.run.taggers) for rubric in plan.rubric_names(name)]
    return list(
        dict.fromkeys([*named, *(other for name in plan.probed_judges for other in plan.reworded_rubrics(name))])
    )


def provenance_of_plan(plan: Plan, code: CodeState) -> Provenance:
    """Return the provenance of a run.

    plan: plan of a configuration that contains only what the run uses; code: state of the checkout.
    """
    files = {listed_name(path): sha256_of(path) for path in files_behind_numbers(plan)}
    data = {
        name: pin
        for name, dataset in plan.datasets.items()
        if (pin := pin_of_copy(copy_of_edition(dataset, plan.edition)))
    }
    known = shipped_checksums()
    differs = {
        path: "edited" if path in known["files"] else NOT_SHIPPED
        for path, digest in files.items()
        if known["files"].get(path) != digest
    }
    for name, pin in data.items():
        kept = known["data"].get(source_file_name(name, plan.edition))
        if kept != pin:
            differs[source_file_name(name, plan.edition)] = "another file" if kept else NOT_SHIPPED
    return Provenance(
        code=code,
        files=files,
        versions=card_versions(plan),
        readers=parser_versions(plan),
        data=data,
        differs=differs,
        extensions={listed_name(path): sha256_of(path) for path in extension_files()},
    )


def parser_versions(plan: Plan) -> dict[str, int]:
    """Return the versions of the parsers that read the run's replies, by parser."""
    names = {name for loaded in plan.cards.values() for name in loaded.card.graders}
    return {name: GRADERS[name].version for name in sorted(names & GRADERS.keys())}


def card_versions(plan: Plan) -> dict[str, int]:
    """Return the versions of a run's cards and rubrics, by file. A version rises if the meaning of results changes."""
    versions = {listed_name(path): loaded.card.version for path, loaded in plan.cards.items()}
    read = {name: rubrics.read_rubric(name).rubric for name in rubrics_used(plan)}
    return versions | {listed_name(rubrics.rubric_path(name)): rubric.version for name, rubric in read.items()}
