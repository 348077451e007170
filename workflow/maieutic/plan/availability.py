"""Parts of a run whose data files are available, for runs that leave out all other parts (`available_only`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from maieutic.config import cards
from maieutic.config.datasets import DatasetFile
from maieutic.config.models import RecordedModel
from maieutic.config.settings import Config
from maieutic.core.errors import UserError
from maieutic.datasets.pairs import PAIR_SOURCES


class AbsentPart(NamedTuple):
    """A part of a run that is left out.

    key: key of the configuration that names it, such as `run.tasks`; name: its name; file: path of its missing file
    within `data_dir`; pinned: False if the registry has no commit or checksum of the file.
    """

    key: str
    name: str
    file: str
    pinned: bool

    @property
    def fix(self) -> str:
        """Instruction for users who want to include the part."""
        return f"put {self.file} into data_dir" if self.pinned else "run `maieutic pin` with the run file"


def available_parts(config: Config) -> tuple[Config, list[AbsentPart]]:
    """Return a configuration without the parts whose files are unavailable, and these parts.

    A part is a task, a recorded tutor, a set of labels, a set of preferences or a source of pairs. Its files are
    unavailable if they are not pinned or, with `data_dir`, if the folder does not contain them. The configuration is
    returned unchanged unless `available_only` is set; otherwise the result has it unset. Raises UserError if no task is
    left.
    """
    if not config.available_only or config.edition != "published":
        return config, []
    absent = absent_datasets(config)
    left_out: list[AbsentPart] = []

    def available(key: str, name: str, datasets: Sequence[str]) -> bool:
        missing = next((name for name in datasets if name in absent), None)
        if missing is not None:
            copy = config.datasets[missing].published
            left_out.append(AbsentPart(key, name, copy.path, copy.pinned))
        return missing is None

    tasks = [
        task
        for named in config.run.tasks
        for task, dataset in tasks_with_datasets(named).items()
        if available("run.tasks", task, [dataset])
    ]
    if not tasks:
        problem = "no task is left, since the data files of all tasks are unavailable"
        raise UserError("run.tasks", problem, f"{left_out[0].fix}, or remove `available_only`")
    labels = {name: entry for name, entry in config.labels.items() if available("labels", name, entry.datasets)}
    preferences = {
        name: entry for name, entry in config.preferences.items() if available("preferences", name, entry.datasets)
    }
    run = config.run.model_copy(
        update={
            "tasks": tasks,
            "tutors": [
                name for name in config.run.tutors if available("run.tutors", name, reply_datasets(config, name))
            ],
            "labels": known_names(config.run.labels, config.labels, labels),
            "preferences": known_names(config.run.preferences, config.preferences, preferences),
            "predictions": known_names(config.run.predictions, config.labels, labels) or [],
            "pair_sources": [
                name
                for name in config.run.pair_sources
                if available("run.pair_sources", name, PAIR_SOURCES[name].datasets if name in PAIR_SOURCES else ())
            ],
        }
    )
    named = {*(config.run.labels or ()), *(config.run.preferences or ()), *config.run.predictions}
    named_parts = [part for part in left_out if part.key.startswith("run.") or part.name in named]
    changes = {"available_only": False, "run": run, "labels": labels, "preferences": preferences}
    return config.model_copy(update=changes), named_parts


def absent_datasets(config: Config) -> set[str]:
    """Return the datasets that are not pinned, or are neither in `data_dir` nor, without that folder, on the web."""
    folder = Path(config.data_dir) if config.data_dir else None
    return {
        name
        for name, dataset in config.datasets.items()
        if dataset.published.is_file
        and (
            not dataset.published.pinned
            or dataset.published.records is None
            or (not any(folder.glob(dataset.published.path)) if folder else not has_address(dataset.published))
        )
    }


def has_address(copy: DatasetFile) -> bool:
    """Return True if a file can be downloaded."""
    return copy.url is not None or copy.hub is not None


def tasks_with_datasets(named: str) -> dict[str, str]:
    """Return the tasks that an entry of `run.tasks` names, as BENCHMARK/TASK, with the dataset of each.

    An unknown name is returned as it is, without a dataset; the check of names reports it.
    """
    benchmark, _, task = named.partition("/")
    paths = [path for path in cards_of(benchmark) if not task or path.stem == task]
    return {f"{benchmark}/{path.stem}": dataset_of(path) for path in paths} or {named: ""}


def cards_of(benchmark: str) -> list[Path]:
    """Return the cards of a benchmark, none for an unknown benchmark."""
    return cards.cards_of(benchmark) if benchmark in cards.benchmarks_with_cards() else []


@cache
def dataset_of(path: Path) -> str:
    """Return the dataset of a card. The card is read once, since each job reads the plan."""
    return cards.read_card(path, cards.RELEASED).card.dataset


def reply_datasets(config: Config, tutor: str) -> list[str]:
    """Return the dataset of a recorded tutor's replies; empty for any other tutor."""
    entry = config.models.get(tutor)
    return entry.datasets if isinstance(entry, RecordedModel) else []


def known_names(
    named: list[str] | None, registry: Mapping[str, object], available: Mapping[str, object]
) -> list[str] | None:
    """Return the named entries that are available. Unknown names stay, since the check of names reports them."""
    return None if named is None else [name for name in named if name in available or name not in registry]
