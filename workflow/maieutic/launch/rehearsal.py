"""Rehearsal of a run: its cheap steps are executed beforehand, with their outputs in a temporary folder.

`maieutic estimate` and the dry run count the requests of a run from these files. The results folder alone is not
enough, because it may contain items and replies of an earlier run under the same names.
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
from maieutic.core.journal import KEY_PREFIX, FinishedRequest, canonical_digest, load_journal_answers, request_key
from maieutic.core.records import Prompt, Reply, write_records
from maieutic.datasets.sources import local_copy, read_checked_source
from maieutic.plan import inputs
from maieutic.plan.plan import Plan
from maieutic.preparation import stage as preparation_stage
from maieutic.preparation.items import make_items
from maieutic.preparation.labels import make_labels
from maieutic.preparation.pairs import make_pairs
from maieutic.replies import stage as replies_stage
from maieutic.replies.generate import ModelRequests, RequestLimits, TutorWork, converse, generate_replies, turn_count
from maieutic.replies.recorded import read_replies
from maieutic.serving.backends import Backend, hosted_identity
from maieutic.serving.batches import BatchAnswers, BatchFolder, BatchState
from maieutic.serving.server import vllm_identity as served_identity

NO_FILE = Path("-")  # placeholder for the journal, the log and the picture store of a job that calls no model


class NotOnFile(Exception):
    """Error for a request whose answer is not in a journal. key: its key."""

    def __init__(self, key: str = "") -> None:
        super().__init__(key)
        self.key = key


class AnswersOnFile(ModelRequests):
    """A model that is never called, because its answers are read from journals.

    unanswered_lengths: number of characters in the messages of each request without an answer, by request key;
    asked_in_batches: the same for the requests that are in a batch.
    """

    def __init__(
        self,
        name: str,
        model: VllmModel | HostedModel,
        identity: Mapping[str, Any],
        journal: Path,
        others: Iterable[Path] = (),
    ) -> None:
        """Load the answers from the job's own journal and from other journals, which are only read.

        name: name of the tutor or judge; model: its registry entry; identity: request-key fields of the model.
        """
        kept: Any = SimpleNamespace(answers=load_journal_answers(journal, FinishedRequest, others), path=journal)
        super().__init__(name, model, dict(identity), kept, Backend(refuse_client))
        self.unanswered_lengths: dict[str, int] = {}
        self.asked_in_batches: dict[str, int] = {}
        folders = [BatchFolder.beside(path) for path in (journal, *others)]
        batches = [(folder, batch) for folder in folders for batch in folder.batches()]
        self.pending_keys = {key for _, batch in batches if batch.is_pending for key in batch.keys}
        self.collected = [
            BatchAnswers(batch, folder.answers_path(batch))
            for folder, batch in batches
            if batch.state == BatchState.COLLECTED
        ]

    def is_in_batch(self, key: str, request: Mapping[str, Any]) -> bool:
        """Return True if a request is in a pending batch, or if a collected one makes it unnecessary to send it."""
        name = key.removeprefix(KEY_PREFIX)
        return name in self.pending_keys or any(
            name in answers.keys and answers.settles(name, request) for answers in self.collected
        )

    @property
    def has_answers(self) -> bool:
        """True if any of the journals contains an answer, or a batch contains a request."""
        answers = self.journal.answers
        batches = self.pending_keys or self.collected
        return bool(len(answers) or batches) or any(len(other) for other in answers.others)

    async def ask(self, request: dict[str, Any]) -> FinishedRequest:
        """Return the answer on file. Without an answer, record the length of the request and raise NotOnFile."""
        key = request_key(request, self.identity)
        if (known := self.journal.answers.get(key)) is not None:
            return known
        lengths = self.asked_in_batches if self.is_in_batch(key, request) else self.unanswered_lengths
        lengths[key] = len(json.dumps(request["messages"], ensure_ascii=False))
        raise NotOnFile(key)


async def refuse_client() -> Any:
    """Raise NotOnFile instead of starting a client."""
    raise NotOnFile


def discard_prompt(prompt: Prompt) -> None:
    """Discard the prompt of a request, because a rehearsal sends no requests."""


def request_identity(model: VllmModel | HostedModel, weights: Iterable[str]) -> dict[str, Any] | None:
    """Return the fields that identify a model in its request keys; None if its weights are not yet prepared."""
    if isinstance(model, HostedModel):
        return hosted_identity(model)
    manifest = next((Path(path) for path in weights), None)
    return served_identity(model, manifest.parent) if manifest and manifest.is_file() else None


async def run_conversations_on_file(
    work: TutorWork, on_file: AnswersOnFile, limits: RequestLimits
) -> tuple[list[Reply], int]:
    """Run every conversation up to its first turn whose answer is not on file.

    Returns the finished replies, and the number of turns after the unanswered turns, added up over all conversations.
    Conversations that will be the same, such as those about copies of an item, count once.
    """
    replies, later, counted = [], 0, set[str]()
    for loaded, item in work:
        try:
            replies.append(await converse(loaded, item, on_file, limits, discard_prompt))
        except NotOnFile as error:
            left = turn_count(loaded, item) - on_file.rounds.turn_of[item.task, item.id]
            if not left:
                continue
            ahead = canonical_digest([error.key, item.task, item.vars, item.script])
            later += 0 if ahead in counted else left
            counted.add(ahead)
    return replies, later


@contextmanager
def logging_disabled() -> Iterator[None]:
    """Suppress logging during a rehearsal, because each step logs its findings when the run executes it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


MOST_BUILT_ITEMS = 20_000  # items of larger tasks are not built, since that takes minutes and hundreds of megabytes


class Rehearsal:
    """Datasets, items, replies, labels and pairs of a run, as far as existing files are enough to build them.

    A results file that the run will keep is used unchanged. Any other file is built from its sources, in a temporary
    folder with the same layout. Methods return None for a file that cannot be built without the network or a model.
    """

    def __init__(self, plan: Plan, rewritten_files: Container[str] | None = None) -> None:
        """Create the temporary folder.

        rewritten_files: results files that the run will rewrite; None if every existing file may belong to another run.
        """
        self.plan, self.rewritten_files = plan, rewritten_files
        self.made: dict[tuple[str, ...], Path | None] = {}
        # Counts of requests to tutors without answers on file, by the settings that the requests depend on.
        self.counts_by_settings: dict[tuple[Any, ...], Any] = {}
        self.folder = tempfile.TemporaryDirectory(prefix="maieutic-")
        self.root = Path(self.folder.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.folder.cleanup()

    def is_kept(self, file: str) -> bool:
        """Return True if a results file exists and the run will not rewrite it."""
        return self.rewritten_files is not None and file not in self.rewritten_files and Path(file).is_file()

    def make_once(self, key: tuple[str, ...], make: Callable[[], Path | None]) -> Path | None:
        """Return the result of `make`, which is called once per key; None if `make` fails or its sources are absent."""
        if key not in self.made:
            try:
                with logging_disabled():
                    self.made[key] = make()
            except Exception:  # ignore any error, because the run will report it when it executes the step
                self.made[key] = None
        return self.made[key]

    def all_or_none(self, paths_made: Iterable[Path | None]) -> list[Path] | None:
        """Return the files as a list, or None if any of them is None."""
        files = list(paths_made)
        return [path for path in files if path is not None] if None not in files else None

    def source(self, dataset: str) -> Path | None:
        """Return the source file of a dataset in the run's edition; None if it cannot be made."""
        return self.make_once(("source", dataset), lambda: self.make_source(dataset))

    def make_source(self, dataset: str) -> Path | None:
        file, plan = paths.SOURCE.of(dataset=dataset), self.plan
        if self.is_kept(file):
            return Path(file)
        entry = plan.datasets[dataset]
        copy = entry.file_of(dataset, plan.edition)
        if copy.sha256 is None and copy.hub is None:  # the run itself generates this dataset
            return existing_file(Path(file)) if self.rewritten_files is None else None
        folder = Path(plan.config.data_dir) if plan.config.data_dir else None
        if copy.hub is None and (local := local_copy(copy, plan.edition, folder, paths.DEMO_DATA)) is not None:
            return local
        if not Path(file).is_file():
            return None
        read_checked_source(Path(file), entry, copy, file, entry.format_of(plan.edition), plan.config.limits)
        return Path(file)

    def items(self, benchmark: str, tasks: Iterable[str]) -> Path | None:
        """Return a folder with one file of items for each given task of a benchmark; None if any cannot be made."""
        if self.all_or_none(self.task_items(benchmark, task) for task in tasks) is None:
            return None
        return paths.ITEM_FOLDER.within(self.root, benchmark=benchmark)

    def task_items(self, benchmark: str, task: str) -> Path | None:
        """Return the file of a task's items; None if it cannot be made."""
        return self.make_once(("items", benchmark, task), lambda: self.make_items(benchmark, task))

    def make_items(self, benchmark: str, task: str) -> Path | None:
        names = {"benchmark": benchmark, "task": task}
        file, out = paths.ITEMS.of(**names), paths.ITEMS.within(self.root, **names)
        out.parent.mkdir(parents=True, exist_ok=True)
        if self.is_kept(file):
            out.symlink_to(Path(file).resolve())
            return out
        if (self.plan.card(**names).items or 0) > MOST_BUILT_ITEMS:
            return None
        pictures = [Path(path) for path in preparation_stage.task_pictures(self.plan, **names)]
        source = self.source(self.plan.card(**names).dataset)
        if source is None or not all(path.is_file() for path in pictures):
            return None
        make_items(job=preparation_stage.make_items_job(self.plan, **names), source=source, pictures=pictures, out=out)
        return out

    def replies(self, benchmark: str, tutor: str) -> Path | None:
        """Return the file of a tutor's replies to a benchmark; None if an answer is not on file."""
        return self.make_once(("replies", benchmark, tutor), lambda: self.make_replies(benchmark, tutor))

    def make_replies(self, benchmark: str, tutor: str) -> Path | None:
        names = {"benchmark": benchmark, "tutor": tutor}
        file, out = paths.REPLIES.of(**names), paths.REPLIES.within(self.root, **names)
        if self.is_kept(file):
            return Path(file)
        entry, plan = self.plan.models[tutor], self.plan
        prompts = paths.PROMPTS.within(self.root, **names)
        prompts.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, RecordedModel):
            cases = self.all_or_none(
                self.task_items(name, task) for name in plan.benchmarks for task in plan.tasks_for(name, tutor)
            )
            sources = self.sources([plan.card(*task).dataset for task in replies_stage.sampled_tasks(plan, tutor)])
            recorded = self.sources(entry.datasets) if entry.datasets else [Path(file) for file in entry.files]
            if cases is None or sources is None or recorded is None:
                return None
            files = {"file": recorded, "items": cases, "sources": sources}
            read_replies(job=replies_stage.read_replies_job(plan, **names), **files, out=out, prompts=prompts)
            return out
        items = self.items(benchmark, plan.tasks_for(benchmark, tutor))
        if items is None:
            return None
        job = replies_stage.generate_replies_job(plan, **names)
        if isinstance(entry, BaselineModel):
            nothing = {"pictures": NO_FILE, "journal": NO_FILE, "server_log": NO_FILE}
            generate_replies(job=job, items=items, weights=[], out=out, prompts=prompts, **nothing)
            return out
        assert isinstance(entry, VllmModel | HostedModel)
        identity = request_identity(entry, replies_stage.tutor_weights(plan, tutor))
        if identity is None:
            return None
        journal = Path(paths.REPLY_JOURNAL.of(**names))
        on_file = AnswersOnFile(tutor, entry, identity, journal, job.journals(journal))
        replies, _ = asyncio.run(
            run_conversations_on_file(job.work(items), on_file, RequestLimits(job.max_tokens, job.seed))
        )
        if on_file.unanswered_lengths or on_file.asked_in_batches:
            return None
        write_records(out, replies)
        return out

    def labels(self, release: str) -> Path | None:
        """Return the folder of a labelled set; None if it cannot be made."""
        return self.make_once(("labels", release), lambda: self.make_labels(release))

    def make_labels(self, release: str) -> Path | None:
        files, plan = inputs.label_files([release]), self.plan
        if all(self.is_kept(file) for file in files):
            return Path(files[0]).parent
        entry = plan.label_sets[release]
        sources = [Path(entry.file)] if entry.file else self.sources(plan.label_datasets(release))
        if sources is None:
            return None
        out = paths.LABELLED_ITEMS.within(self.root, release=release)
        out.parent.mkdir(parents=True, exist_ok=True)
        make_labels(job=preparation_stage.make_labels_job(plan, release), sources=sources, out=out)
        return out.parent

    def pairs(self, source: str) -> Path | None:
        """Return the file of a set of preference pairs; None if it cannot be made."""
        return self.make_once(("pairs", source), lambda: self.make_pairs(source))

    def make_pairs(self, source: str) -> Path | None:
        file, plan = paths.PAIRS.of(source=source), self.plan
        if self.is_kept(file):
            return Path(file)
        entry = plan.config.preferences.get(source)
        file_of_set = entry.file if entry else None
        sources = [Path(file_of_set)] if file_of_set else self.sources(plan.pair_datasets(source))
        if sources is None:
            return None
        out = paths.PAIRS.within(self.root, source=source)
        out.parent.mkdir(parents=True, exist_ok=True)
        counts = paths.PAIR_COUNTS.within(self.root, source=source)
        make_pairs(job=preparation_stage.make_pairs_job(plan, source), sources=sources, out=out, counts=counts)
        return out

    def sources(self, datasets: Sequence[str]) -> list[Path] | None:
        """Return the source files of the given datasets; None if any cannot be made."""
        return self.all_or_none(self.source(dataset) for dataset in datasets)


def existing_file(file: Path) -> Path | None:
    """Return the path of a file if the file exists, else None."""
    return file if file.is_file() else None
