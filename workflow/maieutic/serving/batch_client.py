"""Client that sends a job's requests in batches, and collects the answers of batches that earlier jobs have sent.

It is used like the client of single requests. A request ends with `Pending` while its batch is not finished, unless the
run waits for its batches. Requests whose answers have to be sent again go into the next batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from maieutic.core.journal import KEY_PREFIX, canonical_digest, request_key
from maieutic.serving.answers import Answer, MalformedAnswer, Usage, usage_of
from maieutic.serving.batch_collector import BatchCollector
from maieutic.serving.batch_register import BatchRegister
from maieutic.serving.batch_sender import BatchOrigin, BatchSender
from maieutic.serving.batches import MOST_SUBMISSIONS, BatchFolder, BatchSettings, Outcome
from maieutic.serving.client import Client, ErrorStatus, OverBudget, Prepare, Unanswered, body_of, unchanged_request
from maieutic.serving.refusals import Refusal, scope_of
from maieutic.serving.silent_changes import SilentChangeWatcher

NOT_ACCEPTED, UNKNOWN = "its batch was not accepted", "without a reason"


class BatchClient:
    """Client of one hosted endpoint that sends requests in batches, if the entry's `batch` is true.

    If `batch` was set to false in the meantime, new requests are sent one by one, but those in a batch are not.
    """

    def __init__(
        self,
        live: Client,
        folders: Sequence[BatchFolder],
        identity: dict[str, Any],
        settings: BatchSettings,
        asker: str,
        key_env: str | None = None,
    ) -> None:
        """live: client of single requests; folders: folders with batches, of which the first belongs to this job.

        identity: request-key fields of the model; settings: settings of the run's batches; asker: name of the tutor or
        judge; key_env: name of the environment variable with the endpoint's key.
        """
        self.live, self.identity = live, identity
        self.register = BatchRegister(live, folders, canonical_digest(identity))
        self.collector = BatchCollector(self.register, settings.wait)
        self.sender: BatchSender | None = None  # None to send new requests one by one
        if (limits := settings.limits_of(asker)) is not None:
            origin = BatchOrigin(settings.run, settings.entry_of(asker), key_env)
            self.sender = BatchSender(self.register, self.collector, origin, limits)
        self.counted: set[tuple[str, str]] = set()  # names of batches, with the requests that they did not answer

    # the interface of the client of single requests -------------------------------------------------------------------

    @property
    def retries(self) -> dict[str, int]:
        """Number of failed attempts by kind."""
        return self.live.retries

    @property
    def probe_answers(self) -> list[Answer]:
        """Answers to probes that are not counted yet."""
        return self.live.probe_answers

    @property
    def failed_usage(self) -> list[Usage]:
        """Usage of failed tries that is not counted yet."""
        return self.live.failed_usage

    @property
    def watcher(self) -> SilentChangeWatcher:
        """Watcher for silent changes."""
        return self.live.watcher

    async def start(self) -> None:
        """Load the batches of earlier jobs, settle cut-off submissions, and collect the batches that have ended.

        Raises UserError if a batch has failed as a whole, or if the endpoint does not know it.
        """
        self.register.load()
        await self.collector.start()

    async def close(self) -> None:
        """End the work in progress and close the connections."""
        await self.register.close()
        await self.live.close()

    def key_of(self, request: dict[str, Any]) -> str:
        """Return the `custom_id` of a request: its key without the prefix, since 64 characters are allowed."""
        return request_key(request, self.identity).removeprefix(KEY_PREFIX)

    def is_in_batch(self, key: str) -> bool:
        """Return True if a request is in a batch whose answers are not collected. key: key of the request."""
        return key.removeprefix(KEY_PREFIX) in self.register.batch_of

    def pending_line(self) -> str:
        """Return this job's pending batches as text, such as `1 batch at api.openai.com with 500 requests`, or ""."""
        return self.collector.pending_line()

    # requests ---------------------------------------------------------------------------------------------------------

    async def ask(self, request: dict[str, Any], prepare: Prepare = unchanged_request) -> Answer:
        """Return the answer to a request from a batch. prepare: called just before the request's batch is sent.

        Raises Pending if the run does not wait for batches and the batch has not ended, Unanswered if the request was
        not answered in as many batches as the entry has `attempts`, UserError if every request would be refused.
        """
        key, batches = self.key_of(request), 0
        batch_of, reasons, purse = self.register.batch_of, self.collector.reasons, self.live.purse
        while True:
            if key not in batch_of and (answer := await self._received(key, request)) is not None:
                return replace(answer, seconds=0.0, attempts=max(batches, 1), batched=True)
            if key in batch_of and purse is not None:
                purse.reserve_in_batch(request, key, checked=False)  # this call counts what an earlier one has sent
            if self.live.fault is not None:
                raise self.live.fault
            if key in batch_of:
                await self.collector.wait_for(key)
            elif self.sender is None:
                return await self.live.ask(request, prepare)
            elif purse is not None and purse.fault is not None:
                raise OverBudget(purse.fault.problem)
            elif batches == self.live.server.attempts:
                raise Unanswered(f"no answer after {batches} batches, last {reasons.get(key, NOT_ACCEPTED)}")
            elif self.submissions(key) >= MOST_SUBMISSIONS:
                again = "to allow more: maieutic forget --missing failed"
                raise Unanswered(f"no answer in {MOST_SUBMISSIONS} batches, last {reasons.get(key, UNKNOWN)}; {again}")
            else:
                await self.sender.send(key, request, prepare)
                batches += key not in self.collector.queue.keys

    def submissions(self, key: str) -> int:
        """Return the number of batches, of this call and earlier ones, that contained a request and have ended."""
        return sum(key in answers.keys for answers in self.register.collected)

    async def _received(self, key: str, request: dict[str, Any]) -> Answer | None:
        """Return the answer to a request in the collected batches; None if it has to be sent (again)."""
        purse = self.live.purse
        holding = [answers for answers in reversed(self.register.collected) if key in answers.keys]
        for answers in sorted(holding, key=lambda answers: key not in answers.index.answered):
            outcome = answers.outcome(key)
            usage = usage_of(outcome) if isinstance(outcome, dict) else None  # None: nothing to pay
            try:
                answer = await self._answer_in(outcome, request, answers.batch.id in self.register.collected_now)
            except MalformedAnswer as error:
                outcome, answer = str(error), None
            if answer is not None:
                if purse is not None:
                    purse.settle_in_batch(request, key, usage)
                return answer
            if self._count_failure(answers.batch.id, key, outcome) and purse is not None:
                purse.settle_in_batch(request, key, usage)
        return None

    def _count_failure(self, name: str, key: str, outcome: Outcome) -> bool:
        """Count a batch that did not answer a request, once. Returns True if this process collected it and counts it.

        name: name of the batch's files.
        """
        if (name, key) in self.counted:
            return False
        self.counted.add((name, key))
        reason = self.collector.reasons[key] = outcome.words if isinstance(outcome, Refusal) else str(outcome)
        if name in self.register.collected_now:  # an earlier run has counted the others
            self.retries[reason] = self.retries.get(reason, 0) + 1
        return name in self.register.collected_now

    async def _answer_in(self, outcome: Outcome, request: dict[str, Any], fresh: bool) -> Answer | None:
        """Return an outcome as an answer, or None if the request has to be sent again.

        fresh: True if this process collected it. An older refusal of all requests may since have been mended.
        """
        if isinstance(outcome, Refusal):
            if scope_of(outcome) == "one":
                return Answer("", None, "error", None, None, 0.0, 1, error=outcome.words)
            if not fresh:
                return None
            if self.sender is not None:
                await self.sender.quiet()  # by then, answers to requests with the same parameters are known
            # Only a probe shows whether an account that the line calls empty is so. Otherwise other lines may do.
            number = self.live.sent if scope_of(outcome) == "all" else 0
            return await self.live.answer_to_refusal(ErrorStatus(outcome, {}), 1, number, request)
        if not isinstance(outcome, dict):
            return None
        answer = self.live.read_reply(request, body_of(self.live.server, request), outcome, 0.0, 1)
        self.live.sent += 1
        self.live.note_answer(self.live.sent)
        return answer
