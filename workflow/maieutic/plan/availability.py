"""Parts of a run that are left out by name: no record has their commit or checksum, or their files are unavailable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from maieutic.config import cards
from maieutic.config.datasets import DatasetFile
from maieutic.config.models import Model, RecordedModel, TunedWeights, VllmModel, Weights, is_commit
from maieutic.config.settings import Config
from maieutic.core.errors import UserError
from maieutic.datasets.pairs import PAIR_SOURCES


class AbsentPart(NamedTuple):
    """A part of a run that is left out.

    key: key of the configuration that names it, such as `run.tasks`; name: its name; file: path of its missing file
    within `data_dir`, or repository of its weights; pinned: False if the registry has no commit or checksum;
    unrecorded: reason why no record has one (`unrecorded` of the entry), "" otherwise.
    """

    key: str
    name: str
    file: str
    pinned: bool
    unrecorded: str = ""

    @property
    def fix(self) -> str:
        """Instruction for users who want to include the part."""
        if self.pinned:
            return f"put {self.file} into data_dir"
        return f"run `maieutic pin` with the run file ({self.unrecorded or f'{self.file} is not pinned'})"


def available_parts(config: Config) -> tuple[Config, list[AbsentPart]]:
    """Return a configuration without the parts that are left out, and these parts.

    A part is a task, a tutor, a tuning, a set of labels, a set of preferences or a source of pairs. Of the published
    edition, and unless `run.strict` is set, it is left out

    - if its weights or data are in `unrecorded`, and neither the entry nor the lock file has a pin. Other entries
      without a pin stay, and the checks refuse them;
    - with `available_only`, also if a file is not pinned, is not in `data_dir` or, without that folder, cannot be
      downloaded.

    The result has `available_only` unset. Raises UserError if no task, or none of the named tutors, is left.
    """
    if config.edition != "published" or config.run.strict:
        return config, []
    absent = absent_datasets(config)
    left_out: list[AbsentPart] = []

    def available(key: str, name: str, datasets: Iterable[str]) -> bool:
        missing = next((name for name in datasets if name in absent), None)
        if missing is not None:
            copy = config.datasets[missing].published
            left_out.append(
                AbsentPart(key, name, copy.path, copy.pinned, config.unrecorded.get(f"datasets.{missing}", ""))
            )
        return missing is None

    def available_tutor(name: str) -> bool:
        weights, reason = weights_of(config.models.get(name)), config.unrecorded.get(f"models.{name}")
        if reason and isinstance(weights, Weights) and not is_commit(weights.revision):
            left_out.append(AbsentPart("run.tutors", name, str(weights.repo), False, reason))
            return False
        entry = config.models.get(name)
        if isinstance(entry, RecordedModel) and not any(entry.has_task(*task.split("/")) for task in tasks):
            of_task = (part for part in left_out if part.key == "run.tasks" and entry.has_task(*part.name.split("/")))
            if part := next(of_task, None):
                left_out.append(part._replace(key="run.tutors", name=name))
                return False
        return available("run.tutors", name, datasets_of_tutor(config, name))

    tasks = [
        task
        for named in config.run.tasks
        for task, dataset in tasks_with_datasets(named).items()
        if available("run.tasks", task, [dataset])
    ]
    if not tasks:
        problem = "no task is left, since the data files of all tasks are unavailable"
        raise UserError("run.tasks", problem, f"{left_out[0].fix}, or remove `available_only`")
    tutors = [name for name in config.run.tutors if available_tutor(name)]
    if config.run.tutors and not tutors and not config.available_only:
        fix = next(part.fix for part in left_out if part.key == "run.tutors")
        raise UserError("run.tutors", "no tutor is left, since no record has a pin of their weights or data", fix)
    tunings = {name: entry for name, entry in config.tunings.items() if available("tunings", name, entry.mix)}
    labels = {name: entry for name, entry in config.labels.items() if available("labels", name, entry.datasets)}
    preferences = {
        name: entry for name, entry in config.preferences.items() if available("preferences", name, entry.datasets)
    }
    run = config.run.model_copy(
        update={
            "tasks": tasks,
            "tutors": tutors,
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
    if not left_out:
        return config.model_copy(update={"available_only": False}), []
    named = {*(config.run.labels or ()), *(config.run.preferences or ()), *config.run.predictions, *config.tunings}
    named_parts = [part for part in left_out if part.key.startswith("run.") or part.name in named]
    parts = {"run": run, "labels": labels, "preferences": preferences, "tunings": tunings}
    return config.model_copy(update={"available_only": False, **parts}), named_parts


def absent_datasets(config: Config) -> set[str]:
    """Return the datasets without which a part is left out."""
    folder = Path(config.data_dir) if config.data_dir else None
    unrecorded = {name for name in config.datasets if f"datasets.{name}" in config.unrecorded}
    return {
        name
        for name, dataset in config.datasets.items()
        if (is_unpinned(dataset.published) and (config.available_only or name in unrecorded))
        or (config.available_only and is_unavailable(dataset.published, folder))
    }


def is_unpinned(copy: DatasetFile) -> bool:
    """Return True for a file, not data of this run, without a checksum or commit, or without a number of records."""
    return copy.is_file and (not copy.pinned or copy.records is None)


def is_unavailable(copy: DatasetFile, folder: Path | None) -> bool:
    """Return True for a file that is not in `data_dir` or, without that folder, cannot be downloaded."""
    return copy.is_file and (not any(folder.glob(copy.path)) if folder else copy.url is None and copy.hub is None)


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


def weights_of(model: Model | None) -> object:
    """Return the source of a served model's weights, None for any other model."""
    return model.weights if isinstance(model, VllmModel) else None


def datasets_of_tutor(config: Config, tutor: str) -> list[str]:
    """Return the datasets of a recorded tutor's replies, or those that train a tuned tutor; empty for any other."""
    entry = config.models.get(tutor)
    if isinstance(entry, RecordedModel):
        return entry.datasets
    weights = weights_of(entry)
    tuning = config.tunings.get(weights.tuned) if isinstance(weights, TunedWeights) else None
    return list(tuning.mix) if tuning else []


def known_names(
    named: list[str] | None, registry: Mapping[str, object], available: Mapping[str, object]
) -> list[str] | None:
    """Return the named entries that are available. Unknown names stay, since the check of names reports them."""
    return None if named is None else [name for name in named if name in available or name not in registry]
