"""Answers that journals and batches already contain, for counting the requests of a run without sending any."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from maieutic.config.models import HostedModel, VllmModel
from maieutic.core.journal import KEY_PREFIX, FinishedRequest, canonical_digest, load_journal_answers, request_key
from maieutic.core.records import Prompt
from maieutic.replies.generate import ModelRequests, RequestLimits, TutorWork, converse, turn_count
from maieutic.serving.backends import Backend, hosted_identity
from maieutic.serving.batches import BatchFolder
from maieutic.serving.server import vllm_identity as served_identity


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
        self.in_batches = BatchFolder().pending_keys()

    @property
    def has_answers(self) -> bool:
        """True if any of the journals contains an answer, or a batch contains a request."""
        answers = self.journal.answers
        return bool(len(answers) or self.in_batches) or any(len(other) for other in answers.others)

    async def ask(self, request: dict[str, Any]) -> FinishedRequest:
        """Return the answer on file. Without an answer, record the length of the request and raise NotOnFile."""
        key = request_key(request, self.identity)
        if (known := self.journal.answers.get(key)) is not None:
            return known
        is_sent = key.removeprefix(KEY_PREFIX) in self.in_batches
        lengths = self.asked_in_batches if is_sent else self.unanswered_lengths
        lengths[key] = len(json.dumps(request["messages"], ensure_ascii=False))
        raise NotOnFile(key)


def entries_on_file(journals: Iterable[Path]) -> int:
    """Return the number of lines in journals, and of their requests in batches in progress."""
    askers = [(path, asker) for batch in BatchFolder().pending() for path, asker in batch.askers.items()]
    number = 0
    for path in journals:
        if path.is_file():
            with open(path, "rb") as handle:
                number += sum(1 for _ in handle)
        number += sum(len(asker.keys) for journal, asker in askers if Path(journal) == path)
    return number


async def refuse_client() -> Any:
    """Raise NotOnFile instead of starting a client."""
    raise NotOnFile


def discard_prompt(prompt: Prompt) -> None:
    """Discard the prompt of a request, because a count sends no requests."""


def request_identity(model: VllmModel | HostedModel, weights: Iterable[str]) -> dict[str, Any] | None:
    """Return the fields that identify a model in its request keys; None if its weights are not yet prepared."""
    if isinstance(model, HostedModel):
        return hosted_identity(model)
    manifest = next((Path(path) for path in weights), None)
    return served_identity(model, manifest.parent) if manifest and manifest.is_file() else None


async def count_later_turns(work: TutorWork, on_file: AnswersOnFile, limits: RequestLimits) -> int:
    """Run every conversation up to its first turn whose answer is not on file, and return the number of turns after it.

    These turns cannot be rendered yet. Conversations that will be the same, such as those about copies of an item,
    count once.
    """
    later, counted = 0, set[str]()
    for loaded, item in work:
        try:
            await converse(loaded, item, on_file, limits, discard_prompt)
        except NotOnFile as error:
            left = turn_count(loaded, item) - on_file.rounds.turn_of[item.task, item.id]
            if not left:
                continue
            ahead = canonical_digest([error.key, item.task, item.vars, item.script])
            later += 0 if ahead in counted else left
            counted.add(ahead)
    return later
