"""Provenance of a run: commit of the code, checksums of cards, prompts, rubrics and data, and changes to shipped files.

`shipped.json` in `resources` and in each benchmark's folder lists the checksums of shipped files, and the pins of
datasets that affect a number. The report page marks every number that depends on a file or pin that differs from these.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from maieutic.config import cards, rubrics
from maieutic.config.cards import JUDGE, Card
from maieutic.config.datasets import Dataset, DatasetFile, Edition
from maieutic.config.models import JudgeModel, RewardModel
from maieutic.config.rubrics import rubric_for_card
from maieutic.core.errors import UserError
from maieutic.core.extensions import extension_files, listed_name
from maieutic.core.files import sha256_of, write_json
from maieutic.core.machine import Machine
from maieutic.core.paths import RESOURCES
from maieutic.core.yaml_files import read_yaml
from maieutic.graders.registry import GRADERS
from maieutic.plan.availability import AbsentPart
from maieutic.plan.plan import Plan

SHIPPED = RESOURCES / "shipped.json"
SHIPPED_FOLDERS = (rubrics.USER_RUBRICS, RESOURCES / "rewards")  # besides the folders of benchmarks
ShippedChecksums = dict[str, dict[str, str]]  # checksums of `files`, and pins of `data`, by name
# Paths that affect numbers. A checkout with changes only in other paths (docs, tests) counts as unedited.
PATHS_BEHIND_NUMBERS = ("Snakefile", "workflow", "resources", "config", "envs", "containers")
MOST_EDITED = 20


class CodeState(BaseModel):
    """State of the checkout.

    commit: hash of the commit, None outside a git checkout; edited: files that affect numbers and differ from the
    commit, at most MOST_EDITED of them; n_edited: number of all such files.
    """

    model_config = ConfigDict(extra="forbid")

    commit: str | None
    edited: list[str] = []
    n_edited: int = 0

    @property
    def as_line(self) -> str:
        """State of the checkout in one line, for the report page."""
        if self.commit is None:
            return "not a git checkout: the commit is unknown"
        if not self.edited:
            return f"commit {self.commit}, nothing edited"
        return f"commit {self.commit}, with {self.n_edited} edited file{'' if self.n_edited == 1 else 's'}"


class Provenance(BaseModel):
    """Record of the code, files and data that the numbers of a run depend on.

    files: SHA-256 by path; versions: versions of cards and rubrics by path; readers: versions of the parsers by name;
    data: SHA-256 or hub commit of each source file by dataset; differs: files and data that are not as shipped, each
    with its kind of difference; absent: parts of the run that were left out without their data files; machine: machine
    on which the workflow ran; date: day (UTC) on which the run began; extensions: SHA-256 of each card, prompt, rubric
    and code file of the active extensions by path. These three are None in records of earlier versions. The machines of
    servers are recorded separately.
    """

    model_config = ConfigDict(extra="forbid")

    code: CodeState
    files: dict[str, str]
    versions: dict[str, int] = {}
    readers: dict[str, int] = {}
    data: dict[str, str]
    differs: dict[str, str]
    machine: Machine | None = None
    date: str | None = None
    absent: list[AbsentPart] = []
    extensions: dict[str, str] | None = None

    @property
    def code_files(self) -> dict[str, str]:
        """SHA-256 of the files of extensions that are not among `files`: their code, and cards of other tasks."""
        return {name: digest for name, digest in (self.extensions or {}).items() if name not in self.files}


def git_output(*arguments: str, folder: Path = Path()) -> str | None:
    """Return the output of a git command in a folder; None if git is not installed or the command fails."""
    where = ["-C", str(folder)] if folder != Path() else []
    try:
        done = subprocess.run(["git", *where, *arguments], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def code_state(folder: Path = Path()) -> CodeState:
    """Return the commit and the edited files of the checkout whose root is `folder`."""
    top, commit = (
        git_output("rev-parse", "--show-toplevel", folder=folder),
        git_output("rev-parse", "HEAD", folder=folder),
    )
    # If this folder is part of another checkout, that checkout's commit does not describe this code.
    if top is None or commit is None or Path(top.strip()).resolve() != folder.resolve():
        return CodeState(commit=None)
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

    datasets: the registry, config/datasets.yaml.
    """
    registry = {name: Dataset.model_validate(entry) for name, entry in read_yaml(datasets)["datasets"].items()}
    for path, content in current_checksums(registry).items():
        write_json(path, content)


def source_file_name(dataset: str, edition: str) -> str:
    """Return the name under which checksums and provenance list a dataset's source file of one edition."""
    return f"{dataset} ({edition})"


@cache
def shipped_checksums() -> ShippedChecksums:
    """Return the checksums in all lists of shipped files."""
    checksums: ShippedChecksums = {"files": {}, "data": {}}
    for path in (SHIPPED, *sorted(cards.CARDS.glob(f"*/{SHIPPED.name}"))):
        for kind, listed in json.loads(path.read_text(encoding="utf-8")).items():
            checksums[kind] |= listed
    return checksums


def card_paths(plan: Plan, card: Card) -> list[Path]:
    """Return the card and prompt files of a task under the run's protocol and the protocols of its tutors."""
    path = cards.card_path(card.benchmark, card.task)
    tutors = [name for name in plan.run.tutors if plan.can_answer(card, name)]
    protocols = dict.fromkeys([plan.run.protocol, *(plan.protocol_of(name) for name in tutors)])
    read = [plan.shipped_card(path, protocol) for protocol in protocols]
    return list(dict.fromkeys(file for loaded in read for file in loaded.files))


def grader_paths(plan: Plan, card: Card, grader: str | None) -> list[Path]:
    """Return the files that a reward model or judge uses to grade a task's replies; an empty list for a parser."""
    model = plan.models.get(grader or "")
    if isinstance(model, JudgeModel) and JUDGE in card.graders and grader in plan.judges_of_card(card):
        return rubrics.files_of_rubric(rubric_for_card(str(grader), model, card).name)
    return instruction_of(model) if isinstance(model, RewardModel) else []


def files_behind_numbers(plan: Plan) -> list[Path]:
    """Return every file that affects a number of a run: cards, prompts, rubrics, instructions of reward models."""
    paths = [path for card_path in plan.cards for path in card_paths(plan, plan.cards[card_path].card)]
    paths += [path for rubric in rubrics_used(plan) for path in rubrics.files_of_rubric(rubric)]
    rewards = [plan.models[name] for name in (*plan.run.reward_models, *plan.run.reward_comparisons)]
    paths += [path for model in rewards if isinstance(model, RewardModel) for path in instruction_of(model)]
    return sorted(set(paths))


def instruction_of(model: RewardModel) -> list[Path]:
    """Return a list with the file of a reward model's instruction; empty if the model has no instruction."""
    return [] if model.prompt == "none" else [RESOURCES / f"rewards/{model.prompt}.txt"]


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
        path: "edited" if path in known["files"] else "not shipped"
        for path, digest in files.items()
        if known["files"].get(path) != digest
    }
    for name, pin in data.items():
        kept = known["data"].get(source_file_name(name, plan.edition))
        if kept != pin:
            differs[source_file_name(name, plan.edition)] = "another file" if kept else "not shipped"
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


def copy_of_edition(dataset: Dataset, edition: Edition) -> DatasetFile | None:
    """Return a dataset's source file in one edition, None if the dataset does not have this edition."""
    return dataset.demo if edition == "demo" else dataset.published


def changed_files_of_task(
    provenance: Provenance | None, plan: Plan, card: Card, grader: str | None = None
) -> list[str]:
    """Return the changed files and data that affect one grader's numbers on a task, as `NAME, KIND OF DIFFERENCE`."""
    if provenance is None:
        return []
    names = [listed_name(path) for path in (*card_paths(plan, card), *grader_paths(plan, card, grader))]
    names.append(source_file_name(card.dataset, plan.edition))
    return changed_files(provenance, names)


def changed_files(provenance: Provenance, names: Iterable[str]) -> list[str]:
    """Return the named files and data that differ from the shipped versions, as `NAME, KIND OF DIFFERENCE`."""
    return [f"{name}, {provenance.differs[name]}" for name in dict.fromkeys(names) if name in provenance.differs]


def read_provenance(path: Path) -> Provenance | None:
    """Read the provenance of a run from a file; None if the file does not exist. Raises UserError if it is invalid."""
    if not path.exists():
        return None
    try:
        return Provenance.model_validate_json(path.read_bytes())
    except ValidationError as error:
        fix = "use the version of Maieutic that made the run, or run the workflow again, which rewrites the file"
        fault = error.errors()[0]
        problem = f"expected a run's provenance, found {'.'.join(map(str, fault['loc'])) or 'a file'}: {fault['msg']}"
        raise UserError(str(path), problem, fix) from None
