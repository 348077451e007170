"""Record of what a run's numbers were made of, and the changes to shipped files that affect them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from maieutic.config import cards, rubrics
from maieutic.config.cards import JUDGE, Card
from maieutic.config.datasets import Dataset, DatasetFile, Edition
from maieutic.config.models import JudgeModel, RewardModel
from maieutic.config.rubrics import rubric_for_card
from maieutic.core.errors import UserError
from maieutic.core.extensions import listed_name
from maieutic.core.machine import Machine
from maieutic.core.paths import RESOURCES
from maieutic.plan.availability import AbsentPart
from maieutic.plan.plan import Plan

NOT_SHIPPED = "not shipped"  # kind of difference of a file that only this run has


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


def source_file_name(dataset: str, edition: str) -> str:
    """Return the name under which checksums and provenance list a dataset's source file of one edition."""
    return f"{dataset} ({edition})"


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


def instruction_of(model: RewardModel) -> list[Path]:
    """Return a list with the file of a reward model's instruction; empty if the model has no instruction."""
    return [] if model.prompt == "none" else [RESOURCES / f"rewards/{model.prompt}.txt"]


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
