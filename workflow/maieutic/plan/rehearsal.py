"""The files that the cheap steps of a run will write, made before the run, beside the results.

`maieutic estimate` and the dry run count from them what a run will ask. The results folder alone is not enough: after
another run in the same folder, its items and replies lie under the same names.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

from maieutic.config.models import BaselineModel, HostedModel, RecordedModel, VllmModel
from maieutic.core import paths
from maieutic.core.journal import Entry, answers_on_file, request_key
from maieutic.core.records import Prompt, Reply, write_records
from maieutic.datasets.items import make_items
from maieutic.datasets.sources import check_source, local_copy
from maieutic.judges.labels import make_labels
from maieutic.plan import inputs, jobs
from maieutic.plan.plan import Plan
from maieutic.replies.generate import Asking, Limits, Work, converse, generate_replies
from maieutic.replies.recorded import read_replies
from maieutic.rewards.pairs import make_pairs
from maieutic.serving.backends import Backend, hosted_identity
from maieutic.serving.server import identity as served_identity

NOBODY = Path("-")  # of a job that asks no model: a journal, a log, a store of pictures


class NotOnFile(Exception):
    """A journal has no answer to a request."""


class OnFile(Asking):
    """Answers of a journal alone. `lacking`: by key of a request without an answer, the length of its messages."""

    def __init__(
        self,
        name: str,
        model: VllmModel | HostedModel,
        identity: Mapping[str, Any],
        journal: Path,
        others: Iterable[Path] = (),
    ) -> None:
        """others: further journals whose answers count."""
        kept: Any = SimpleNamespace(answers=answers_on_file(journal, Entry, others), path=journal)
        super().__init__(name, model, dict(identity), kept, Backend(never))
        self.lacking: dict[str, int] = {}

    @property
    def has_answers(self) -> bool:
        """Return whether a journal has any answer."""
        answers = self.journal.answers
        return bool(len(answers)) or any(len(other) for other in answers.others)

    async def ask(self, request: dict[str, Any]) -> Entry:
        """Return the answer on file. Raises NotOnFile, and remembers the request, where there is none."""
        key = request_key(request, self.identity)
        if (known := self.journal.answers.get(key)) is not None:
            return known
        self.lacking[key] = len(json.dumps(request["messages"], ensure_ascii=False))
        raise NotOnFile


async def never() -> Any:
    """Raise NotOnFile: no client is there to be asked."""
    raise NotOnFile


def forget(prompt: Prompt) -> None:
    """Keep nothing of what would be sent."""


def identity_of(model: VllmModel | HostedModel, weights: Iterable[str]) -> dict[str, Any] | None:
    """Return a model's part of request keys, or None where its weights are not there yet."""
    if isinstance(model, HostedModel):
        return hosted_identity(model)
    manifest = next((Path(path) for path in weights), None)
    return served_identity(model, manifest.parent) if manifest and manifest.is_file() else None


async def held(work: Work, on_file: OnFile, limits: Limits) -> tuple[list[Reply], int]:
    """Hold every conversation as far as it is on file.

    Returns the finished replies, and the number of turns behind each conversation's first turn without an answer.
    """
    replies, later = [], 0
    for loaded, item in work:
        try:
            replies.append(await converse(loaded, item, on_file, limits, forget))
        except NotOnFile:
            later += len(loaded.templates) - on_file.rounds.at[item.task, item.id]
    return replies, later


@contextmanager
def in_silence() -> Iterator[None]:
    """Log nothing: what these steps report is reported when they run."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


class Rehearsal:
    """The datasets, items, replies, labels and pairs of a run, as far as they follow from files that are there.

    A file of the results that the run leaves as it is stands for itself. Another one is made from its own sources, in a
    temporary folder with the same layout. What cannot be made without a network or a model is None.
    """

    def __init__(self, plan: Plan, remade: Container[str] | None = None) -> None:
        """remade: the files of the results that the run will write anew; None: any of them may be of another run."""
        self.plan, self.remade = plan, remade
        self.made: dict[tuple[str, ...], Path | None] = {}
        self.fresh: dict[tuple[Any, ...], Any] = {}  # what tutors without any answer are asked, by what decides it
        self.folder = tempfile.TemporaryDirectory(prefix="maieutic-")
        self.root = Path(self.folder.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.folder.cleanup()

    def stays(self, file: str) -> bool:
        """Return whether a file of the results is there and will not be written anew."""
        return self.remade is not None and file not in self.remade and Path(file).is_file()

    def once(self, key: tuple[str, ...], make: Callable[[], Path | None]) -> Path | None:
        """Return what `make` gives, made once; None where its sources are not there, or are no such thing."""
        if key not in self.made:
            try:
                with in_silence():
                    self.made[key] = make()
            except Exception:  # of whatever kind: the step itself will report it
                self.made[key] = None
        return self.made[key]

    def all_of(self, paths_made: Iterable[Path | None]) -> list[Path] | None:
        """Return the files, or None where one is missing."""
        found = list(paths_made)
        return [path for path in found if path is not None] if None not in found else None

    def source(self, dataset: str) -> Path | None:
        """Return the source file of a dataset in the run's edition."""
        return self.once(("source", dataset), lambda: self.make_source(dataset))

    def make_source(self, dataset: str) -> Path | None:
        file, plan = paths.SOURCE.of(dataset=dataset), self.plan
        if self.stays(file):
            return Path(file)
        entry = plan.datasets[dataset]
        copy = entry.copy_of(dataset, plan.edition)
        if copy.sha256 is None and copy.hub is None:  # a set that the run itself makes
            return one_that_is_there(Path(file)) if self.remade is None else None
        folder = Path(plan.config.data_dir) if plan.config.data_dir else None
        if copy.hub is None and (found := local_copy(copy, plan.edition, folder, paths.DEMO_DATA)) is not None:
            return found
        if not Path(file).is_file():
            return None
        check_source(Path(file), entry, copy, file, entry.form_of(plan.edition), plan.config.limits)
        return Path(file)

    def items(self, benchmark: str, tasks: Iterable[str]) -> Path | None:
        """Return a folder with the items of some tasks of a benchmark, a file for each."""
        if self.all_of(self.task_items(benchmark, task) for task in tasks) is None:
            return None
        return paths.ITEM_FOLDER.within(self.root, benchmark=benchmark)

    def task_items(self, benchmark: str, task: str) -> Path | None:
        """Return the file of a task's items."""
        return self.once(("items", benchmark, task), lambda: self.make_items(benchmark, task))

    def make_items(self, benchmark: str, task: str) -> Path | None:
        names = {"benchmark": benchmark, "task": task}
        file, out = paths.ITEMS.of(**names), paths.ITEMS.within(self.root, **names)
        out.parent.mkdir(parents=True, exist_ok=True)
        if self.stays(file):
            out.symlink_to(Path(file).resolve())
            return out
        files = inputs.make_items(self.plan, **names)
        pictures = [Path(path) for path in files["pictures"]]
        source = self.source(self.plan.card(**names).dataset)
        if source is None or not all(path.is_file() for path in pictures):
            return None
        make_items(job=jobs.make_items(self.plan, **names), source=source, pictures=pictures, out=out)
        return out

    def replies(self, benchmark: str, tutor: str) -> Path | None:
        """Return the file of a tutor's replies to a benchmark, where every answer is on file."""
        return self.once(("replies", benchmark, tutor), lambda: self.make_replies(benchmark, tutor))

    def make_replies(self, benchmark: str, tutor: str) -> Path | None:
        names = {"benchmark": benchmark, "tutor": tutor}
        file, out = paths.REPLIES.of(**names), paths.REPLIES.within(self.root, **names)
        if self.stays(file):
            return Path(file)
        entry, plan = self.plan.models[tutor], self.plan
        prompts = paths.PROMPTS.within(self.root, **names)
        prompts.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, RecordedModel):
            cases = self.all_of(
                self.task_items(name, task) for name in plan.benchmarks for task in plan.tasks_for(name, tutor)
            )
            sources = self.sources([plan.card(*task).dataset for task in inputs.drawn_tasks(plan, tutor)])
            if cases is None or sources is None:
                return None
            files = {"file": [Path(file) for file in entry.files], "items": cases, "sources": sources}
            read_replies(job=jobs.read_replies(plan, **names), **files, out=out, prompts=prompts)
            return out
        items = self.items(benchmark, plan.tasks_for(benchmark, tutor))
        if items is None:
            return None
        job = jobs.generate_replies(plan, **names)
        if isinstance(entry, BaselineModel):
            nothing = {"pictures": NOBODY, "journal": NOBODY, "server_log": NOBODY}
            generate_replies(job=job, items=items, weights=[], out=out, prompts=prompts, **nothing)
            return out
        assert isinstance(entry, VllmModel | HostedModel)
        weights = inputs.generate_replies(plan, **names)["weights"]
        identity = identity_of(entry, [weights] if isinstance(weights, str) else weights)
        if identity is None:
            return None
        journal = Path(paths.REPLY_JOURNAL.of(**names))
        on_file = OnFile(tutor, entry, identity, journal, job.journals(journal))
        replies, _ = asyncio.run(held(job.work(items), on_file, Limits(job.max_tokens, job.seed)))
        if on_file.lacking:
            return None
        write_records(out, replies)
        return out

    def labels(self, release: str) -> Path | None:
        """Return the folder of a labelled release."""
        return self.once(("labels", release), lambda: self.make_labels(release))

    def make_labels(self, release: str) -> Path | None:
        files, plan = inputs.label_files([release]), self.plan
        if all(self.stays(file) for file in files):
            return Path(files[0]).parent
        entry = plan.label_sets[release]
        sources = [Path(entry.file)] if entry.file else self.sources(plan.label_datasets(release))
        if sources is None:
            return None
        out = paths.LABELLED_ITEMS.within(self.root, release=release)
        out.parent.mkdir(parents=True, exist_ok=True)
        make_labels(job=jobs.make_labels(plan, release), sources=sources, out=out)
        return out.parent

    def pairs(self, source: str) -> Path | None:
        """Return the file of a set of preference pairs."""
        return self.once(("pairs", source), lambda: self.make_pairs(source))

    def make_pairs(self, source: str) -> Path | None:
        file, plan = paths.PAIRS.of(source=source), self.plan
        if self.stays(file):
            return Path(file)
        entry = plan.config.preferences.get(source)
        own = entry.file if entry else None
        sources = [Path(own)] if own else self.sources(plan.pair_datasets(source))
        if sources is None:
            return None
        out = paths.PAIRS.within(self.root, source=source)
        out.parent.mkdir(parents=True, exist_ok=True)
        counts = paths.PAIR_COUNTS.within(self.root, source=source)
        make_pairs(job=jobs.make_pairs(plan, source), sources=sources, out=out, counts=counts)
        return out

    def sources(self, datasets: Sequence[str]) -> list[Path] | None:
        """Return the source files of some datasets, or None where one is missing."""
        return self.all_of(self.source(dataset) for dataset in datasets)


def one_that_is_there(file: Path) -> Path | None:
    """Return the file if it exists."""
    return file if file.is_file() else None
