"""Batches of requests at providers: the run, and nothing else, sends and collects them.

A run collects into the journals when it starts, and sends what its jobs have put into their outboxes when it ends.
`maieutic batches` does the same by hand. No request is in two batches at a time: a batch's record is on disk before the
batch is submitted, and a submission without a clear answer is looked up at the endpoint before anything is sent again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Container, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import Price
from maieutic.config.registry import unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError, raise_all
from maieutic.core.files import atomic_file, write_json
from maieutic.core.journal import (
    KEY_PREFIX,
    FailedRequests,
    FinishedRequest,
    Journal,
    canonical_digest,
    load_journal_answers,
)
from maieutic.core.ledger import JobSpending, append_spending, ledger_lines, ledger_path, utc_now
from maieutic.core.shutdown import SHUTDOWN, run_with_grace
from maieutic.core.states import FAILED_MARK, state_of
from maieutic.core.terminal import say
from maieutic.launch.lengths import ASSUMED_ANSWER_CHARS
from maieutic.launch.results_lock import locked_results
from maieutic.launch.saved_runs import name_of_run
from maieutic.replies.generate import RequestCounts, usage_of_answer
from maieutic.serving.answers import Answer, MalformedAnswer, usage_of
from maieutic.serving.backends import hosted_client
from maieutic.serving.batch_endpoint import SEND_SINGLY, BatchEndpoint, BatchStatus, UnclearSubmission
from maieutic.serving.batches import (
    FORMER,
    MEGABYTE,
    NO_NAME,
    OUTBOX,
    Asker,
    Batch,
    BatchFolder,
    BatchState,
    OutboxHeader,
    Outcome,
    QueuedRequest,
    index_answers,
    new_batch_id,
    outboxes,
    outcome_at,
    read_requests,
    store_answers,
)
from maieutic.serving.budget import CHARS_A_TOKEN, Allowance, Amount, Purse, tokens_of_messages
from maieutic.serving.client import ADDRESSES, Client, ErrorStatus, Unanswered, body_of, wait_unless_shutdown
from maieutic.serving.pictures import as_sent
from maieutic.serving.refusals import Refusal, scope_of

log = logging.getLogger(__name__)
CALL_SECONDS = 15.0  # timeout of a call about one batch
SETTLE_SECONDS = 30.0  # a submission that was cut off may reach the endpoint's list of batches this much later
FIRST_POLL, LONGEST_POLL = 5.0, 60.0  # seconds between two looks at the batches, at first and later
LONGEST_BATCH = 26 * 3600.0  # seconds after its last step for which a batch is waited for: providers promise a day
GRACE = 60.0  # seconds that an upload or a submission has after a first signal
# Number of batches that may leave a request unanswered before it is recorded as failed. Like any failed request, it is
# then asked once more, in one more batch; `maieutic forget` allows further ones.
MOST_SUBMISSIONS = 2
TOO_MANY_QUEUED = "token_limit_exceeded"  # error code of a batch that fails because too many tokens are queued
CHECKED = "checked"  # entries that have answered a single request, by a digest of each
Outboxes = list[tuple[Path, OutboxHeader]]
Address = tuple[str, str | None]  # base URL of an endpoint, and the variable with its key


class BatchOutcome(NamedTuple):
    """Outcome of one request of a batch that has ended.

    answer: None if the request has to be sent again; fault: error of all requests that have no answer, None without.
    """

    queued: QueuedRequest
    outcome: Outcome
    answer: Answer | None
    fault: UserError | None


class BatchWork:
    """Work of one call on the batches of a results folder.

    faults: by registry entry, the error after which nothing more is sent to it; held: outboxes that the budget does not
    pay; answered: number of requests that were sent by themselves; stuck: names of batches that have ended, but whose
    answers cannot be had in this call; headers: the outboxes that were found.
    """

    def __init__(self, journals: Path = Path(paths.JOURNALS), addresses: Collection[Address] | None = None) -> None:
        """journals: folder of all journals; addresses: of endpoints that may be called (default: all in records)."""
        self.addresses = addresses
        self.journals, self.folder = journals, BatchFolder(journals / Path(paths.BATCHES).name)
        self.clients: dict[str, Client] = {}
        self.faults: dict[str, UserError] = {}
        self.held: list[OutboxHeader] = []
        self.headers: list[OutboxHeader] = []
        self.stuck: set[str] = set()
        self.answered = 0

    @property
    def is_answered_later(self) -> bool:
        """True if another call will have answers for the jobs that have outboxes, and no fault keeps any of them."""
        if SHUTDOWN.is_set or any(header.entry in self.faults for header in self.headers):
            return False
        journals = {header.journal for header in self.headers}
        return bool(self.answered) or any(journals & batch.askers.keys() for batch in self.folder.pending())

    async def close(self) -> None:
        """Close the connections."""
        for client in self.clients.values():
            await client.close()

    def client(self, of: Batch | OutboxHeader) -> Client:
        """Return the client of an endpoint, by the entry in a record. Raises UserError if its key is not set."""
        name = f"{of.entry} {of.model.model_dump_json()} {of.allowance}"
        if name not in self.clients:
            allowance = Allowance.model_validate_json(of.allowance) if of.allowance else None
            purse = Purse(allowance, of.entry, of.model.request_timeout) if allowance else None
            self.clients[name] = hosted_client(of.entry, of.model, purse)
        return self.clients[name]

    def endpoint(self, batch: Batch) -> BatchEndpoint:
        """Return the batch API of a batch's endpoint. Its errors name the registry entry."""
        return BatchEndpoint(self.client(batch), f"models.{batch.entry}")

    def save(self, batch: Batch, **changes: Any) -> Batch:
        """Save a step of a batch, and return the changed batch."""
        batch = batch.model_copy(update={"at": utc_now(), **changes})
        self.folder.save(batch)
        return batch

    def drop(self, batch: Batch) -> None:
        """Forget a batch without answers, so that its requests are sent again."""
        self.folder.remove(batch)
        if (purse := self.client(batch).purse) is not None:
            purse.release_in_batch(batch.keys)

    def note_fault(self, entry: str, fault: UserError) -> None:
        """Print an entry's error, after which this call sends no more requests of the entry."""
        self.faults[entry] = fault
        for each in fault.all:
            say(each.line, error=True)

    # collection -------------------------------------------------------------------------------------------------------

    async def collect(self) -> None:
        """Collect the batches that have ended. Each answer goes to the journals of all jobs that need it.

        Raises UserError if a record cannot be read: its requests would be sent again.
        """
        for batch in self.folder.pending():
            if SHUTDOWN.is_set:
                return
            if self.addresses is not None and (batch.model.base_url, batch.model.key_env) not in self.addresses:
                problem = f"no entry of this run has the address {batch.model.base_url} with this key"
                say(f"batch {batch.provider_id} is left: {problem}; `maieutic batches` collects it", error=True)
                continue
            try:
                await self._collect(batch)
            except UserError as fault:
                self.stuck.add(batch.id)
                self.note_fault(batch.entry, fault)
            except (Unanswered, MalformedAnswer) as error:  # it stays pending
                say(f"{batch.host}: batch {batch.provider_id or batch.id}: {error}", error=True)

    async def _collect(self, batch: Batch) -> None:
        """Collect a batch if it has ended. Raises UserError if it has failed, or if the endpoint does not know it."""
        if batch.state == BatchState.SUBMITTING:
            if (status := await self._listed_late(batch)) is None:
                self.drop(batch)  # its submission did not arrive
                return
            log.info("%s: batch %s was created although its submission was cut off", batch.host, status.provider_id)
            batch = self._submitted(batch, status)
        if batch.state == BatchState.SUBMITTED:
            status = await self.endpoint(batch).retrieve(str(batch.provider_id), self.folder.file(batch, "json"))
            if not status.is_final:
                if status.line != batch.status:
                    self.save(batch, status=status.line)
                return
            if status.status == "failed" and not (status.output_file or status.error_file or status.completed):
                self._fail(batch, status)
                return
            if not await self._download(batch, status):
                return
            batch = self.save(batch, state=BatchState.DOWNLOADED, status=status.line)
        if (fault := await self._journal(batch)) is not None:
            raise fault

    def _fail(self, batch: Batch, status: BatchStatus) -> None:
        """Drop a batch that has failed as a whole. Raises UserError, unless too many tokens were queued."""
        reason = "; ".join(fault.message for fault in status.faults) or "the endpoint gives no reason"
        self.drop(batch)
        problem = f"batch {status.provider_id} failed, and nothing was answered: {reason}"
        if all(TOO_MANY_QUEUED not in fault.codes for fault in status.faults):
            raise UserError(f"models.{batch.entry}.batch", problem, SEND_SINGLY)
        hint = f"If a batch exceeds this limit by itself, set models.{batch.entry}.batch_requests"
        say(f"{batch.host}: {problem}. {hint}", error=True)

    async def _download(self, batch: Batch, status: BatchStatus) -> bool:
        """Download the answers of a batch that has ended. Returns False if its files lack lines.

        What such files have is taken. The rest of the batch stays pending, and is downloaded again by the next call.

        Raises UserError if the endpoint has no file with the answers.
        """
        record = self.folder.file(batch, "json")
        files = [file for file in (status.output_file, status.error_file) if file]
        parts = {file: self.folder.file(batch, f"{number}.part") for number, file in enumerate(files)}
        try:
            number = len(batch.keys) + batch.taken
            received = [f for f, p in parts.items() if await self.endpoint(batch).download(f, p, record, number)]
            for file in parts.keys() - set(received):
                log.warning("%s: file %s of batch %s no longer exists", batch.host, file, status.provider_id)
            if (status.completed or status.output_file) and status.output_file not in received:
                problem = f"batch {status.provider_id} has answers, but {batch.host} has no file with them"
                raise UserError(f"models.{batch.entry}.batch", problem, f"delete {record} to send its requests again")
            store_answers([parts[file] for file in received], self.folder.file(batch, "answers"))
        finally:
            for path in parts.values():
                path.unlink(missing_ok=True)
        here = index_answers(self.folder.file(batch, "answers"), set(batch.keys)).places
        if missing := max(expected_lines(batch, status) - len(here), 0):
            if here:
                taken = batch.model_copy(update={"askers": batch.with_keys(here), "status": status.line})
                fault = await self._journal(taken, whole=False)
                left = batch.with_keys(set(batch.keys) - here.keys())
                share = 1 - len(here) / len(batch.keys)
                self.save(
                    batch, askers=left, taken=batch.taken + len(here), status=status.line,
                    reserved_tokens=round(batch.reserved_tokens * share), reserved_usd=batch.reserved_usd * share,
                )  # fmt: skip
                if fault is not None:
                    raise fault
            self.stuck.add(batch.id)
            problem = f"batch {status.provider_id}: the files of {batch.host} lack {missing} of its answers"
            fix = f"run again later, or delete {record} to send these requests again"
            say(UserError(f"models.{batch.entry}.batch", problem, fix).line, error=True)
        return not missing

    async def _journal(self, batch: Batch, whole: bool = True) -> UserError | None:
        """Append a batch's answers to the journals of the jobs that asked, and keep what it left unanswered.

        whole: False for the answers of an incomplete file, after which the batch stays as it is on disk. Returns the
        error of all requests, if every request was refused for a reason that is not its own.
        """
        earlier = [other for other in self.folder.batches()[0] if other.state == BatchState.COLLECTED]
        tries = Counter(key for other in earlier for key in other.keys)
        fault: UserError | None = None
        unanswered, retries = dict[str, str](), Counter[str]()
        entries = dict[str, FinishedRequest]()
        async for queued, outcome, answer, fault in self._answers(batch):
            number = tries[queued.key] + 1
            if answer is None:
                words = outcome.words if isinstance(outcome, Refusal) else str(outcome)
                unanswered[queued.key] = words
                retries[words] += 1
                if fault is not None or not whole or number < MOST_SUBMISSIONS:
                    continue
                answer = Answer("", None, "error", None, None, 0.0, number, f"{FAILED_MARK}{words} in batch {number}")
            answer = replace(answer, seconds=0.0, attempts=number, batched=True)
            entries[queued.key] = FinishedRequest(key=KEY_PREFIX + queued.key, **vars(answer))
        counts = {
            journal: {key: entries[key] for key in asker.keys if key in entries}
            for journal, asker in batch.askers.items()
        }
        for journal, answers in counts.items():
            add_entries(Path(journal), list(answers.values()))
        say(f"{batch.host}: batch {batch.provider_id} {batch.status}: {counts_line(counts, unanswered)}", error=True)
        if batch.status.startswith("cancel") and unanswered:
            problem = f"batch {batch.provider_id} of {batch.entry} was cancelled"
            say(
                f"{problem}: a run that needs its {len(unanswered):,} unanswered requests submits them anew", error=True
            )
        spend_batch(batch, counts, retries, self.client(batch))
        for other in earlier:  # what an earlier batch left unanswered is answered now
            if (left := other.with_keys(set(other.keys) - (set(batch.keys) - unanswered.keys()))) != other.askers:
                self.save(other, askers=left) if left else self.folder.remove(other)
        if fault is not None:
            self._mark_checked(batch.entry)
        if not whole:
            return fault
        if left := batch.with_keys(unanswered):
            self.save(batch, state=BatchState.COLLECTED, askers=left)
            for suffix in ("requests", "answers"):
                self.folder.file(batch, suffix).unlink(missing_ok=True)
        else:
            self.folder.remove(batch)
        return fault

    async def _answers(self, batch: Batch) -> AsyncIterator[BatchOutcome]:
        """Yield the outcome of each request.

        Answers come first, because they show whether a refusal concerns one request or all.
        """
        client, path = self.client(batch), self.folder.file(batch, "answers")
        keys, fault = set(batch.keys), None
        for file in (path, self.folder.file(batch, "requests")):
            if not file.is_file():
                fix = f"restore it, or delete {self.folder.file(batch, 'json')} to send the batch's requests again"
                raise UserError(str(file), "a file of a batch is missing", fix)
        index = index_answers(path, keys)
        for is_first in (True, False):
            for queued in read_requests(self.folder.file(batch, "requests")):
                if queued.key not in keys or (queued.key in index.answered) != is_first:
                    continue
                outcome = outcome_at(path, index.places.get(queued.key))
                usage, answer = usage_of(outcome) if isinstance(outcome, dict) else None, None
                try:
                    if isinstance(outcome, dict):
                        body = body_of(client.server, queued.request)
                        answer = client.read_reply(queued.request, body, outcome, 0.0, 1)
                        client.sent += 1
                        client.note_answer(client.sent)
                    elif isinstance(outcome, Refusal) and fault is None:
                        answer = await self._refusal(client, outcome, queued)
                except MalformedAnswer as error:
                    outcome = str(error)
                except UserError as error:
                    fault = error
                if client.purse is not None:
                    client.purse.settle_in_batch(queued.request, queued.key, usage)
                yield BatchOutcome(queued, outcome, answer, fault)

    async def _refusal(self, client: Client, refusal: Refusal, queued: QueuedRequest) -> Answer | None:
        """Return a refusal of one request as its answer. Raises UserError if every request would be refused."""
        if scope_of(refusal) == "one":
            return Answer("", None, "error", None, None, 0.0, 1, error=refusal.words)
        # Only a probe shows whether an account that the line calls empty is so. Otherwise other lines may do.
        number = client.sent if scope_of(refusal) == "all" else 0
        return await client.answer_to_refusal(ErrorStatus(refusal, {}), 1, number, queued.request)

    # sending ----------------------------------------------------------------------------------------------------------

    async def send(self, order: Sequence[str] = ()) -> None:
        """Send what is in the outboxes, in as few batches as the limits allow.

        order: journals in the order of the plan, in which a budget is spent.
        """
        places = {journal: number for number, journal in enumerate(order)}
        boxes = sorted(outboxes(self.journals).items(), key=lambda box: places.get(box[1].journal, len(places)))
        self.headers = [header for _, header in boxes]
        groups: dict[str, Outboxes] = defaultdict(list)
        for path, header in boxes:
            groups[f"{header.entry} {header.model.model_dump_json()} {header.limits}"].append((path, header))
        by_key: dict[str, dict[str, list[OutboxHeader]]] = {}
        first: dict[str, list[OutboxHeader]] = {}  # by key: the jobs that ask a request
        for name, group in groups.items():
            by_key[name] = {}
            for key, headers in self._claimed(group).items():
                if key in first:  # the same model under another entry: one of them sends the request
                    first[key] += headers
                else:
                    by_key[name][key] = first[key] = headers
        for name, group in groups.items():
            await self._try(group, self._check(group, by_key[name]))
        unpaid = self._unpaid(boxes, {key for keys in by_key.values() for key in keys})
        for name, group in groups.items():
            paid = {key: [h for h in headers if h.journal not in unpaid] for key, headers in by_key[name].items()}
            await self._try(group, self._send(group, {key: headers for key, headers in paid.items() if headers}))

    async def _try(self, group: Outboxes, work: Coroutine[Any, Any, None]) -> None:
        """Do some work for one entry, unless it has a fault; note the error that ends it."""
        entry = group[0][1].entry
        if entry in self.faults or SHUTDOWN.is_set:
            work.close()
            return
        try:
            await work
        except UserError as fault:
            self.note_fault(entry, fault)
        except (Unanswered, MalformedAnswer) as error:
            fix = "run the same command again later"
            self.note_fault(entry, UserError(f"models.{entry}.batch", f"requests were not sent: {error}", fix))

    async def _send(self, boxes: Outboxes, by_key: Mapping[str, list[OutboxHeader]]) -> None:
        """Send the requests of one entry. Raises UserError if the endpoint refuses them.

        by_key: the jobs that ask each request. Outboxes stay until all is sent: what is in a batch is not sent again.
        """
        written: list[Batch] = []
        try:
            for endpoint in sorted({queued.request["endpoint"] for queued in unique_requests(boxes, by_key)}):
                written += self._write(boxes, by_key, endpoint)
            while written and not SHUTDOWN.is_set:
                await self._submit(written.pop(0))
        finally:
            for batch in written:
                self.drop(batch)  # not submitted
        if not SHUTDOWN.is_set:
            for path, _ in boxes:
                path.unlink(missing_ok=True)

    def _claimed(self, boxes: Outboxes) -> dict[str, list[OutboxHeader]]:
        """Return the outboxes' requests to send, by key, with the jobs that ask each.

        A request without an answer that is in a batch already is not sent. Its answer will reach this job too.
        """
        pending = self.folder.pending()
        holders = {key: batch.id for batch in pending for key in batch.keys}
        by_key: dict[str, list[OutboxHeader]] = defaultdict(list)
        claims: dict[str, dict[str, Asker]] = defaultdict(dict)
        for path, header in boxes:
            on_file = load_journal_answers(Path(header.journal), FinishedRequest)
            for queued in read_requests(path, 1):
                if KEY_PREFIX + queued.key in on_file:
                    continue
                if (holder := holders.get(queued.key)) is None:
                    by_key[queued.key].append(header)
                    continue
                asker = claims[holder].setdefault(header.journal, Asker(name=header.asker, keys=[]))
                asker.keys.append(queued.key)
        for batch in pending:
            for journal, asker in claims[batch.id].items():
                known = batch.askers.get(journal, asker)
                joined = asker.model_copy(update={"keys": list(dict.fromkeys([*known.keys, *asker.keys]))})
                batch = batch.model_copy(update={"askers": {**batch.askers, journal: joined}})
            if claims[batch.id]:
                self.folder.save(batch)
        return dict(by_key)

    async def _check(self, boxes: Outboxes, by_key: dict[str, list[OutboxHeader]]) -> None:
        """Send the first request of an entry by itself, so that a wrong entry costs a minute, and not a day.

        Raises UserError if the endpoint would refuse every request. by_key: loses the request that is answered.
        """
        header = boxes[0][1]
        digest = canonical_digest(header.model.model_dump(mode="json"))
        if not by_key or header.limits is None or self._checked().get(header.entry) == digest:
            return
        client, pictures = self.client(header), pictures_of(boxes)
        queued, counts = next(unique_requests(boxes, by_key)), RequestCounts()
        try:
            answer = await client.ask(queued.request, lambda request: with_data_urls(request, pictures))
            counts = counts.plus(usage_of_answer(answer))
            entry = FinishedRequest(key=KEY_PREFIX + queued.key, **vars(answer))
            for asker in by_key.pop(queued.key):
                add_entries(Path(asker.journal), [entry])
            self.answered += 1
        finally:
            spend(header.journal, header.asker, header.entry, counts, client, client.retries)
        self._mark_checked(header.entry, digest)

    def _checked(self) -> dict[str, str]:
        """Return the entries that have answered a single request, with their digests."""
        path = self.folder.path / CHECKED
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def _mark_checked(self, entry: str, digest: str = "") -> None:
        """Note that an entry has answered a single request; "" if it has to be checked again."""
        write_json(self.folder.path / CHECKED, {**self._checked(), entry: digest})

    def _unpaid(self, boxes: Outboxes, keys: Container[str]) -> set[str]:
        """Reserve the requests of the jobs that the budget pays as a whole. Returns the journals of the others.

        boxes: in the order of the plan; keys: keys of the requests that are to be sent.
        """
        unpaid = set[str]()
        for path, header in boxes:
            if header.entry in self.faults or header.limits is None or (purse := self.client(header).purse) is None:
                continue
            requests = [queued for queued in read_requests(path, 1) if queued.key in keys]
            if requests and not purse.reserve_together(requests):
                unpaid.add(header.journal)
                self.held.append(header)
        return unpaid

    def _write(self, boxes: Outboxes, by_key: Mapping[str, list[OutboxHeader]], endpoint: str) -> Iterator[Batch]:
        """Write the requests to one endpoint into batches within its limits, and yield each once it is on disk."""
        header, pictures = boxes[0][1], pictures_of(boxes)
        limits, client = header.limits, self.client(header)
        assert limits is not None
        most, url = int(limits.mb * MEGABYTE), f"{limits.url_prefix}/{ADDRESSES[endpoint]}"
        chosen, size = list[QueuedRequest](), 0
        for queued in unique_requests(boxes, by_key):
            if queued.request["endpoint"] != endpoint:
                continue
            length = len(batch_line(client, queued, url, pictures))
            if length > most:
                problem = f"a request of {length / MEGABYTE:.1f} MB is larger than a batch ({limits.mb:g} MB)"
                place = f"models.{header.entry}.batch_mb"
                self.note_fault(header.entry, UserError(place, problem, "raise batch_mb, or remove batch"))
                continue
            if chosen and (len(chosen) == limits.requests or size + length > most):
                yield self._saved(header, by_key, url, chosen, size, pictures)
                chosen, size = [], 0
            chosen.append(queued)
            size += length
        if chosen:
            yield self._saved(header, by_key, url, chosen, size, pictures)

    def _saved(
        self, header: OutboxHeader, by_key: Mapping[str, list[OutboxHeader]], url: str, chosen: list[QueuedRequest],
        size: int, pictures: str | None,
    ) -> Batch:  # fmt: skip
        """Return a new batch of the chosen requests, with its record and its requests on disk."""
        askers: dict[str, Asker] = {}
        for queued in chosen:
            for box in by_key[queued.key]:
                askers.setdefault(box.journal, Asker(name=box.asker, keys=[])).keys.append(queued.key)
        purse = self.client(header).purse
        reserved = purse.reserved_in_batch(queued.key for queued in chosen) if purse is not None else None
        batch = Batch(
            id=new_batch_id(), run=header.run, entry=header.entry, model=header.model, askers=askers, url=url,
            state=BatchState.WRITTEN, size=size, pictures=pictures, at=utc_now(), allowance=header.allowance,
            reserved_tokens=reserved.tokens if reserved else 0, reserved_usd=reserved.usd if reserved else 0.0,
            usd=about_usd(header.price, chosen),
        )  # fmt: skip
        self.folder.path.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.folder.file(batch, "requests")) as handle:
            handle.writelines(queued.line for queued in chosen)
        self.folder.save(batch)
        return batch

    async def _submit(self, batch: Batch) -> None:
        """Upload a batch's requests and submit it.

        A submission without a clear answer is not repeated before the endpoint's list shows that it did not arrive.

        Raises UserError if the endpoint refuses it, Unanswered after the last attempt.
        """
        client, upload = self.client(batch), self.folder.file(batch, "upload")
        try:
            requests = read_requests(self.folder.file(batch, "requests"))
            write_lines(upload, (batch_line(client, queued, batch.url, batch.pictures) for queued in requests))
            try:
                input_file = await self.endpoint(batch).upload(upload)
            except Exception:
                self.drop(batch)  # nothing was submitted
                raise
        finally:
            upload.unlink(missing_ok=True)
        batch = self.save(batch, state=BatchState.SUBMITTING, input_file=input_file)
        for _ in range(client.server.attempts):
            try:
                status: BatchStatus | None = await self.endpoint(batch).submit(batch)
            except (UnclearSubmission, MalformedAnswer) as error:
                log.warning("%s: no valid answer to the submission of a batch (%s)", batch.host, error)
                status = await self._listed_late(batch)
            except UserError:
                self.drop(batch)
                raise
            if status is not None:
                self._submitted(batch, status)
                return
        raise Unanswered(f"no answer to the submission of a batch at {batch.host}")

    def _submitted(self, batch: Batch, status: BatchStatus) -> Batch:
        """Record that a batch was submitted."""
        log.info("%s: batch %s submitted, %s requests", batch.host, status.provider_id, f"{len(batch.keys):,}")
        known = {"provider_id": status.provider_id, "status": status.line, "submitted": utc_now()}
        return self.save(batch, state=BatchState.SUBMITTED, **known)

    async def _listed_late(self, batch: Batch) -> BatchStatus | None:
        """Return the batch that a cut-off submission created, None if the endpoint does not list it.

        A batch may appear in the list with a delay.
        """
        record = self.folder.file(batch, "json")
        if (status := await self.endpoint(batch).search(batch, record)) is not None:
            return status
        await wait_unless_shutdown(SETTLE_SECONDS)
        return await self.endpoint(batch).search(batch, record)


def add_entries(journal: Path, entries: Sequence[FinishedRequest]) -> None:
    """Append answers to a journal, and requests that have failed to the file beside it."""
    failures = FailedRequests(journal, asks_again=True)
    with Journal(journal, FinishedRequest) as opened:
        opened.append(*(entry for entry in entries if state_of(entry.error) != "failed"))
    for entry in entries:
        if state_of(entry.error) == "failed":
            failures.add(entry)


def counts_line(counts: Mapping[str, Mapping[str, FinishedRequest]], unanswered: Mapping[str, str]) -> str:
    """Return the numbers of answered, refused and unanswered requests as text. counts: answers by journal and key."""
    entries = {key: entry for answers in counts.values() for key, entry in answers.items()}
    answered = sum(entry.error is None for entry in entries.values())
    numbers = {"refused": len(entries.keys() - unanswered.keys()) - answered, "unanswered": len(unanswered)}
    reasons = Counter(unanswered.values()).most_common(1)
    words = [f"{answered:,} answered", *(f"{number:,} {what}" for what, number in numbers.items() if number)]
    return ", ".join(words) + (f" ({reasons[0][0]})" if reasons else "")


def spend_batch(
    batch: Batch, counts: Mapping[str, Mapping[str, FinishedRequest]], retries: Mapping[str, int], client: Client
) -> None:
    """Append the usage of a batch to the ledgers of the journals. A request of several jobs is counted for the first.

    counts: answers by journal and key; retries: numbers of unanswered requests by reason, counted in the first ledger.
    """
    seen = set[str]()
    for journal, answers in counts.items():
        part = RequestCounts()
        for key, entry in answers.items():
            if key not in seen and state_of(entry.error) != "failed":
                part = part.plus(usage_of_answer(entry))
        seen |= answers.keys()
        spend(journal, batch.askers[journal].name, batch.entry, part, client, retries, f"{batch.id}/{batch.taken}")
        retries = {}


def spend(
    journal: str, asker: str, entry: str, counts: RequestCounts, client: Client, retries: Mapping[str, int],
    batch: str | None = None,
) -> None:  # fmt: skip
    """Append requests that the run itself has sent to the ledger of a journal, with probes and failed tries apart.

    retries: numbers of failed attempts at these requests, by reason; batch: name of the part of a batch with these
    requests, which is counted once; None for single requests.
    """
    others = RequestCounts()
    while client.probe_answers:
        others = others.plus(usage_of_answer(client.probe_answers.pop()))
    while client.failed_usage:
        others = others.plus(client.failed_usage.pop(), requests=0)
    charged = 0.0
    if client.purse is not None:
        charged, client.purse.charged = client.purse.charged.usd, Amount()
    ledger = ledger_path(Path(journal))
    known = {line.batch for line in ledger_lines(ledger)} if batch and ledger.is_file() else set[str | None]()
    parts: list[tuple[RequestCounts, str | None, Mapping[str, int]]] = []
    if others != RequestCounts():
        parts.append((others, None, {}))
    if (counts != RequestCounts() or retries) and batch not in known:
        parts.append((counts, batch, retries))
    for part, name, failures in parts:
        line = JobSpending(
            time=utc_now(), asker=asker, model=entry, **part._asdict(), seconds=0.0, batched=name is not None,
            retries=dict(failures), unheeded=dict(client.watcher.lines), batch=name, charged_usd=charged,
        )  # fmt: skip
        append_spending(Path(journal), line)
        charged = 0.0


def pictures_of(boxes: Outboxes) -> str | None:
    """Return the folder of the pictures in the requests of some outboxes; None without pictures."""
    return next((header.pictures for _, header in boxes if header.pictures), None)


def unique_requests(boxes: Outboxes, keys: Container[str]) -> Iterator[QueuedRequest]:
    """Yield each request in the outboxes that is among the keys once."""
    seen = set[str]()
    for path, _ in boxes:
        for queued in read_requests(path, 1):
            if queued.key in keys and queued.key not in seen:
                seen.add(queued.key)
                yield queued


def with_data_urls(request: dict[str, Any], pictures: str | None) -> dict[str, Any]:
    """Return a request with its pictures as data URLs. pictures: their folder."""
    return {**request, "messages": as_sent(request["messages"], Path(pictures) if pictures else None)}


def batch_line(client: Client, queued: QueuedRequest, url: str, pictures: str | None) -> bytes:
    """Return a request as a line of a batch's file."""
    body = body_of(client.server, with_data_urls(queued.request, pictures))
    return json.dumps({"custom_id": queued.key, "method": "POST", "url": url, "body": body}).encode() + b"\n"


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write the lines of a file."""
    with open(path, "wb") as handle:
        handle.writelines(lines)


def about_usd(price: Price | None, requests: Iterable[QueuedRequest]) -> float | None:
    """Return about how many US dollars the requests of a batch cost; None without prices."""
    if price is None:
        return None
    usd = 0.0
    for queued in requests:
        answer = min(ASSUMED_ANSWER_CHARS / CHARS_A_TOKEN, int(queued.request.get("max_tokens") or 10**9))
        usd += price.usd(tokens_of_messages(queued.request["messages"]), answer, batched=True)
    return usd


def expected_lines(batch: Batch, status: BatchStatus) -> int:
    """Return the number of the batch's requests about which its files must have a line.

    A 200 is no proof that a file is whole: it may be an error page, empty or cut. Its lines are counted against the
    provider's `completed` and `failed`, or, where it states no counts, against what was sent. A batch that was expired
    or cancelled needs a line only for the requests that the provider counts as finished. Without any line of its own, a
    batch is whole only if the provider states that nothing was finished.
    """
    finished = status.completed + status.failed
    if not (status.output_file or status.error_file or status.completed) and status.failed:
        return 0  # the provider states that nothing was answered, and has no file
    if status.status == "completed" and not finished:  # no counts, or counts that contradict the status
        return len(batch.keys)
    if status.total or finished:
        return min(max(finished - batch.taken, 0), len(batch.keys))
    has_file = status.output_file or status.error_file
    return 0 if status.is_counted and not has_file else 1  # it ended before it began


# a run ---------------------------------------------------------------------------------------------------------------


def check_former_batches(journals: Path) -> None:
    """Raise UserError if a version that kept batches beside their journals has left some whose answers are missing."""
    for record in sorted(journals.glob(f"**/*{FORMER}/*.json")):
        answers = load_journal_answers(record.parent.with_suffix(".jsonl"), FinishedRequest)
        known = json.loads(record.read_text(encoding="utf-8"))
        if any(KEY_PREFIX + key not in answers for key in known["keys"]) and known["state"] != "written":
            fix = (
                "collect it with the version that sent it (git checkout 90bee011), or delete this record to send again"
            )
            raise UserError(str(record), "a batch of an earlier version has answers that no journal has", fix)


def collect_batches(addresses: Collection[Address] | None = None) -> BatchWork:
    """Collect what has ended at the start of a run, and discard what earlier calls have not sent.

    addresses: those of the run's entries, since a key must not go to an address that a received folder of results
    names. Returns the work, whose faults keep `send_batches` from sending. Raises UserError for unreadable records.
    """
    work = BatchWork(addresses=addresses)
    check_former_batches(work.journals)
    for path in work.journals.glob(f"**/*{OUTBOX}"):  # each job writes its own anew
        path.unlink(missing_ok=True)
    work.folder.remove_leftovers()
    run_work(work, work.collect())
    if SHUTDOWN.is_set:
        raise KeyboardInterrupt
    return work


def run_work(work: BatchWork, part: Coroutine[Any, Any, None]) -> None:
    """Run a part of the work. After a first signal nothing more is sent; what is being sent has GRACE seconds."""

    async def run() -> None:
        try:
            await part
        finally:
            await work.close()

    run_with_grace(run(), GRACE)


def send_batches(faults: Mapping[str, UserError], order: Sequence[str]) -> BatchWork:
    """Send what a run's jobs have put into their outboxes. order: as in `BatchWork.send`."""
    work = BatchWork()
    work.faults.update(faults)
    run_work(work, work.send(order))
    return work


def pending_lines(work: BatchWork) -> list[str]:
    """Return what a user still waits for: a line for each provider with batches in progress, one for unpaid jobs."""
    by_host: dict[str, list[Batch]] = defaultdict(list)
    for batch in work.folder.batches()[0]:
        if batch.is_pending:
            by_host[batch.host].append(batch)
    lines = []
    for host, batches in by_host.items():
        number = sum(len(batch.keys) for batch in batches)
        usd = [batch.usd for batch in batches if batch.usd is not None]
        cost = f", about {sum(usd):.2f} USD" if usd else ""
        lines.append(f"PENDING: {number:,} requests at {host}{cost}; run the same command again later")
    if work.answered and not lines:
        lines = ["PENDING: the answers are on file; run the same command again"]
    if work.held:
        jobs = ", ".join(f"{header.asker} ({Path(header.journal).parent.name})" for header in work.held)
        fix = "run again, or raise this limit: each run starts with its full budget"
        lines.append(f"not sent: {jobs}: run.budget does not pay these jobs as a whole. Fix: {fix}")
    return lines


# commands -------------------------------------------------------------------------------------------------------------


def batches(wait: bool = False) -> None:
    """Collect the batches that have ended, and send what the last run has not sent.

    Args:
        wait: collect until all batches have ended, for up to a day each

    Raises:
        UserError: if an endpoint refuses something, or if a run uses the results
    """
    with locked_results("batches"):
        work = BatchWork()
        check_former_batches(work.journals)
        work.folder.remove_leftovers()
        run_work(work, collect_and_send(work, wait))
        for line in pending_lines(work) or ["No batches are in progress: run snakemake again."]:
            say(line)
    if work.faults:
        raise UserError.of(list(work.faults.values()))


async def collect_and_send(work: BatchWork, wait: bool) -> None:
    """Collect and send, and then collect until all batches have ended if `wait` is true."""
    await work.collect()
    if (changed := changed_since(outboxes(work.journals))) is None:
        await work.send()
    else:
        say(f"not sent: {changed} has changed since the last run: run the same command again", error=True)
    pause = FIRST_POLL
    while wait and not SHUTDOWN.is_set and any(is_awaited(batch, work.stuck) for batch in work.folder.pending()):
        await wait_unless_shutdown(pause)
        pause = min(1.5 * pause, LONGEST_POLL)
        await work.collect()


def is_awaited(batch: Batch, stuck: Container[str]) -> bool:
    """Return True if `--wait` waits for a batch. stuck: names of batches that have ended, but lack answers."""
    return batch.id not in stuck and time.time() - batch.last_step_seconds < LONGEST_BATCH


def changed_since(boxes: Mapping[Path, OutboxHeader]) -> Path | None:
    """Return a file that decides what a run asks and that is newer than one of its outboxes, or None."""
    if not boxes:
        return None
    oldest = min(path.stat().st_mtime for path in boxes)
    places = {Path("config"), Path("resources"), *(Path(name) for header in boxes.values() for name in header.settings)}
    files = (file for place in places for file in ([place] if place.is_file() else place.rglob("*")))
    return next((file for file in files if file.is_file() and file.stat().st_mtime > oldest), None)


class PendingBatch(NamedTuple):
    """Batch whose answers are not collected.

    status: its status at the endpoint, or the last known one; fault: reason why the endpoint did not state it or did
    not cancel the batch.
    """

    batch: Batch
    status: str
    fault: str = ""

    @property
    def run(self) -> str:
        """Name of the run that sent the batch."""
        return self.batch.run or NO_NAME

    @property
    def line(self) -> str:
        """Line about the batch for people."""
        name = self.batch.provider_id or "not submitted yet"
        since = f", submitted {self.batch.submitted_at} UTC" if self.batch.submitted_at else ""
        state, askers = ", ".join(filter(None, [self.status, self.fault])), self.batch.askers.values()
        of = ", ".join(dict.fromkeys(asker.name for asker in askers))
        return f"{name} at {self.batch.host}: {len(self.batch.keys):,} requests of {of}{since}: {state}"


def pending_batches() -> tuple[list[PendingBatch], list[UserError]]:
    """Return the batches without collected answers, and the errors of unreadable records.

    The endpoint of each batch is called for its status.
    """
    known, faults = BatchFolder().batches()
    return asyncio.run(call_endpoints([batch for batch in known if batch.is_pending], cancels=False)), faults


async def call_endpoints(pending: Iterable[Batch], cancels: bool) -> list[PendingBatch]:
    """Retrieve batches from their endpoints, or cancel them there, and return them with their status."""
    return list(await asyncio.gather(*(call_endpoint(batch, cancels) for batch in pending)))


async def call_endpoint(batch: Batch, cancels: bool) -> PendingBatch:
    """Retrieve a batch from its endpoint, or cancel it there, and return it with its status."""
    known, folder = PendingBatch(batch, batch.status), BatchFolder()
    entry = batch.model.model_copy(update={"request_timeout": CALL_SECONDS, "attempts": 2})
    try:
        client = hosted_client(batch.entry, entry)
    except UserError as error:
        return known._replace(fault=f"its current status needs the key: {error.fix}")
    endpoint, record = BatchEndpoint(client, f"models.{batch.entry}"), folder.file(batch, "json")
    try:
        name = batch.provider_id
        if name is None:
            if (listed := await endpoint.search(batch, record)) is None:
                return known._replace(fault="its submission was cut off, and the endpoint does not list it")
            name = listed.provider_id
        try:
            status = await (endpoint.cancel(name) if cancels else endpoint.retrieve(name, record))
        except (UserError, Unanswered):  # a batch that has ended cannot be cancelled
            status = await endpoint.retrieve(name, record)
            if not status.is_final:
                raise
        return known._replace(status=status.line)
    except (UserError, Unanswered, MalformedAnswer) as error:
        return known._replace(fault=str(error))
    finally:
        await client.close()


def cancel(run: str | None = None) -> None:
    """Cancel the pending batches of a run at their endpoints. Answers that are finished by then are still collected.

    Args:
        run: name or folder of the run; it may be omitted if only one run has pending batches

    Raises:
        UserError: names the batches that were not cancelled, and records that cannot be read
    """
    run = run and name_of_run(run)
    known, faults = BatchFolder().batches()
    known = [batch for batch in known if batch.is_pending]
    names = sorted({batch.run or NO_NAME for batch in known})
    if not names and faults:
        raise UserError.of(faults)
    if not names:
        say("No run of this folder has pending batches.")
        return
    if run is None and len(names) > 1:
        raise UserError("maieutic cancel", f"several runs have pending batches: {', '.join(names)}", "name one of them")
    if run is not None and run not in names:
        raise unknown_name("maieutic cancel", run, names, "the runs with pending batches")
    kept = []
    for pending in asyncio.run(call_endpoints([b for b in known if run in (None, b.run or NO_NAME)], cancels=True)):
        say(pending.line)
        if pending.fault:
            kept.append(pending.batch.provider_id or pending.batch.id)
    if kept:
        problem = f"not cancelled: {', '.join(kept)}"
        faults = [UserError("maieutic cancel", problem, "see the reasons above, and repeat this"), *faults]
    raise_all(faults)
    say("The next run collects the finished answers, and submits the other requests anew if they are part of it.")
