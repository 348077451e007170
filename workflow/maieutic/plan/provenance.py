"""What a run was made of: the code's commit, checksums of cards, prompts, rubrics and data, and what is not as shipped.

`resources/shipped.json` holds the checksums of everything that this version ships and that decides on a number. A
file or a pin that differs from it is said on the page beside every number that rests on it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from maieutic.config import cards
from maieutic.config.cards import JUDGE, Card
from maieutic.config.datasets import Copy, Dataset, Edition
from maieutic.config.models import JudgeModel, RewardModel
from maieutic.core.documents import read_yaml
from maieutic.core.files import sha256_of, write_json
from maieutic.core.machine import Machine
from maieutic.core.paths import RESOURCES, shipped_name
from maieutic.graders.registry import GRADERS
from maieutic.judges import rubrics
from maieutic.judges.assignments import rubric_of
from maieutic.plan.plan import Plan

SHIPPED = RESOURCES / "shipped.json"
FOLDERS = (cards.CARDS, rubrics.RUBRICS, RESOURCES / "rewards")
# What decides on numbers: a change elsewhere (docs, tests) leaves the tree as good as clean.
DECISIVE = ("Snakefile", "workflow", "resources", "config", "envs", "containers")
MOST_EDITED = 20


class Code(BaseModel):
    """The state of the checkout.

    commit: None outside of a git checkout; edited: decisive files that differ from it, the first ones of n_edited.
    """

    model_config = ConfigDict(extra="forbid")

    commit: str | None
    edited: list[str] = []
    n_edited: int = 0

    @property
    def told(self) -> str:
        """One line for the page."""
        if self.commit is None:
            return "not a git checkout: the commit is not known"
        if not self.edited:
            return f"commit {self.commit}, nothing edited"
        return f"commit {self.commit}, with {self.n_edited} edited file{'' if self.n_edited == 1 else 's'}"


class Provenance(BaseModel):
    """What a run was made of.

    files: SHA-256 by path; versions: of cards and rubrics by path; readers: versions of the parsers by name; data:
    SHA-256 or the hub's commit of each source file, by dataset; differs: those of files and data that are not as
    shipped, each with what is different about it; machine: that of the workflow, None in the record of an earlier
    version. Servers' machines are in their own record.
    """

    model_config = ConfigDict(extra="forbid")

    code: Code
    files: dict[str, str]
    versions: dict[str, int] = {}
    readers: dict[str, int] = {}
    data: dict[str, str]
    differs: dict[str, str]
    machine: Machine | None = None


def git(*arguments: str, folder: Path = Path()) -> str | None:
    """What git says in a folder, None where there is no git or no checkout."""
    where = ["-C", str(folder)] if folder != Path() else []
    try:
        done = subprocess.run(["git", *where, *arguments], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def code_state(folder: Path = Path()) -> Code:
    """The commit of the checkout that a folder is, and what was edited since. folder: by default the working one."""
    top, commit = git("rev-parse", "--show-toplevel", folder=folder), git("rev-parse", "HEAD", folder=folder)
    # A folder below somebody else's checkout is none of this code's.
    if top is None or commit is None or Path(top.strip()).resolve() != folder.resolve():
        return Code(commit=None)
    edited = [line[3:] for line in (git("status", "--porcelain", "--", *DECISIVE, folder=folder) or "").splitlines()]
    return Code(commit=commit.strip(), edited=edited[:MOST_EDITED], n_edited=len(edited))


def identity_of(copy: Copy | None) -> str | None:
    """What pins a source file: its SHA-256, or the hub's commit."""
    if copy is None:
        return None
    return copy.sha256 or (copy.hub.revision if copy.hub else None)


def shipped_now(datasets: Mapping[str, Dataset]) -> dict[str, dict[str, str]]:
    """What resources/shipped.json has to hold. datasets: the registry as shipped."""
    paths = sorted(path for folder in FOLDERS for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")
    pins = {
        data_name(name, edition): pin
        for name, dataset in sorted(datasets.items())
        for edition, copy in (("demo", dataset.demo), ("published", dataset.published))
        if (pin := identity_of(copy))
    }
    return {"files": {shipped_name(path): sha256_of(path) for path in paths}, "data": pins}


def export_shipped(datasets: Path, out: Path) -> None:
    """Write the checksums of what this version ships. datasets: the registry, config/datasets.yaml."""
    raw = read_yaml(datasets)["datasets"]
    write_json(out, shipped_now({name: Dataset.model_validate(entry) for name, entry in raw.items()}))


def data_name(dataset: str, edition: str) -> str:
    """How a source file of one edition is called here."""
    return f"{dataset} ({edition})"


@cache
def shipped() -> dict[str, dict[str, str]]:
    """The checksums on file."""
    checksums: dict[str, dict[str, str]] = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return checksums


def card_paths(plan: Plan, card: Card) -> list[Path]:
    """The files that a task is asked by, under the protocol of every tutor."""
    path = cards.card_path(card.benchmark, card.task)
    tutors = [name for name in plan.run.tutors if plan.takes(card, name)]
    protocols = dict.fromkeys([plan.run.protocol, *(plan.protocol_of(name) for name in tutors)])
    read = [plan.shipped_card(path, protocol) for protocol in protocols]
    return list(dict.fromkeys(file for loaded in read for file in cards.files_of(path, loaded)))


def grader_paths(plan: Plan, card: Card, grader: str | None) -> list[Path]:
    """The files that a reward model or judge grades a task's replies by; none for a parser."""
    model = plan.models.get(grader or "")
    if isinstance(model, JudgeModel) and JUDGE in card.graders and grader in plan.judges_of_card(card):
        return rubrics.files_of(rubric_of(str(grader), model, card).name)
    return instruction_of(model) if isinstance(model, RewardModel) else []


def all_paths(plan: Plan) -> list[Path]:
    """Every file of a run that decides on a number: cards, prompts, rubrics, instructions of reward models."""
    paths = [path for own in plan.cards for path in card_paths(plan, plan.cards[own].card)]
    paths += [path for rubric in rubrics_used(plan) for path in rubrics.files_of(rubric)]
    rewards = [plan.models[name] for name in (*plan.run.reward_models, *plan.run.reward_comparisons)]
    paths += [path for model in rewards if isinstance(model, RewardModel) for path in instruction_of(model)]
    return sorted(set(paths))


def instruction_of(model: RewardModel) -> list[Path]:
    """The file with a reward model's instruction."""
    return [] if model.prompt == "none" else [RESOURCES / f"rewards/{model.prompt}.txt"]


def rubrics_used(plan: Plan) -> list[str]:
    """Every rubric card of the run's judges and taggers, and the other wordings that judges are probed with."""
    named = [rubric for name in (*plan.run.judges, *plan.run.taggers) for rubric in plan.rubric_names(name)]
    return list(dict.fromkeys([*named, *(other for name in plan.probed_judges for other in plan.wordings(name))]))


def record(plan: Plan, code: Code) -> Provenance:
    """What a run is made of. plan: of a configuration that is cut down to what it uses."""
    files = {shipped_name(path): sha256_of(path) for path in all_paths(plan)}
    data = {
        name: pin for name, dataset in plan.datasets.items() if (pin := identity_of(copy_of(dataset, plan.edition)))
    }
    known = shipped()
    differs = {
        path: "edited" if path in known["files"] else "not shipped"
        for path, digest in files.items()
        if known["files"].get(path) != digest
    }
    for name, pin in data.items():
        kept = known["data"].get(data_name(name, plan.edition))
        if kept != pin:
            differs[data_name(name, plan.edition)] = "another file" if kept else "not shipped"
    return Provenance(
        code=code, files=files, versions=versions_of(plan), readers=readers_of(plan), data=data, differs=differs
    )


def readers_of(plan: Plan) -> dict[str, int]:
    """Return the versions of the parsers that read the run's replies, by name."""
    names = {name for loaded in plan.cards.values() for name in loaded.card.graders}
    return {name: GRADERS[name].version for name in sorted(names & GRADERS.keys())}


def versions_of(plan: Plan) -> dict[str, int]:
    """The versions of a run's cards and rubrics, by their files: raised whenever results change their meaning."""
    versions = {shipped_name(path): loaded.card.version for path, loaded in plan.cards.items()}
    read = {name: rubrics.read_rubric(name).rubric for name in rubrics_used(plan)}
    return versions | {shipped_name(rubrics.rubric_path(name)): rubric.version for name, rubric in read.items()}


def copy_of(dataset: Dataset, edition: Edition) -> Copy | None:
    """A dataset's file of one edition."""
    return dataset.demo if edition == "demo" else dataset.published


def differences(provenance: Provenance | None, plan: Plan, card: Card, grader: str | None = None) -> list[str]:
    """What a task's numbers by one grader rest on that is not as shipped, as `file (edited)`."""
    if provenance is None:
        return []
    names = [shipped_name(path) for path in (*card_paths(plan, card), *grader_paths(plan, card, grader))]
    names.append(data_name(card.dataset, plan.edition))
    return told(provenance, names)


def told(provenance: Provenance, names: Iterable[str]) -> list[str]:
    """Of some names of files and data those that are not as shipped, each with what differs."""
    return [f"{name}, {provenance.differs[name]}" for name in dict.fromkeys(names) if name in provenance.differs]


def read_provenance(path: Path) -> Provenance | None:
    """The record of a run; None where there is none."""
    return Provenance.model_validate_json(path.read_text(encoding="utf-8")) if path.exists() else None
