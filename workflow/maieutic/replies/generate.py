"""Generate a tutor's replies to all items of a benchmark, with concurrent requests to one server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field

from maieutic.config.cards import LoadedCard, load_cards
from maieutic.config.models import BaselineModel, HostedModel, ServedModel, VllmModel
from maieutic.config.prompts import Messages, render
from maieutic.core.errors import PENDING_PLACE, UserError
from maieutic.core.jobs import Job
from maieutic.core.journal import (
    REPEAT,
    FailedRequests,
    FinishedRequest,
    Journal,
    Spool,
    canonical_digest,
    reply_journals,
    request_key,
)
from maieutic.core.ledger import JobSpending, append_spending, utc_now
from maieutic.core.progress import Progress
from maieutic.core.records import Item, Prompt, Reply, Turn, iter_records, write_records
from maieutic.core.shutdown import run_with_grace
from maieutic.core.states import filter_error, state_of
from maieutic.replies.baselines import baseline_reply
from maieutic.serving.answers import Answer, Usage
from maieutic.serving.backends import Backend, JobFiles, backend_of
from maieutic.serving.pictures import as_sent, with_pictures

log = logging.getLogger(__name__)
T = TypeVar("T")
TutorWork = Collection[tuple[LoadedCard, Item]]  # every iteration must yield the same order
# Number of conversations in progress per concurrent request. More conversations than requests keep the server busy,
# since some conversations wait for an identical request, for their next attempt, or for the disk.
CONVERSATIONS_PER_REQUEST = 2
EMPTY_TURN = "(no answer)"  # replaces a tutor's empty turns for providers that refuse them


class Shard(NamedTuple):
    """A part of a benchmark's items: every `parts`-th item, starting at item `number` (1-based)."""

    number: int
    parts: int


UNSHARDED = Shard(1, 1)


class CardItems(Collection[tuple[LoadedCard, Item]]):
    """Pairs of a card and an item, for all items of several cards. Iteration reads the items from their files.

    folder: folder of a benchmark's items, with one file per task; shard: part of the items to yield, where items are
    numbered across all cards.
    """

    def __init__(self, cards: Iterable[LoadedCard], folder: Path, shard: Shard = UNSHARDED) -> None:
        self.shard = shard
        # card, file of its items, and index of the first item in this file that belongs to the shard
        self.files: list[tuple[LoadedCard, Path, int]] = []
        number = 0
        for loaded in cards:
            path = folder / f"{loaded.card.task}.jsonl"
            self.files.append((loaded, path, (shard.number - 1 - number) % shard.parts))
            with open(path, "rb") as handle:
                number += sum(1 for _ in handle)
        self.number = len(range(shard.number - 1, number, shard.parts))

    def __len__(self) -> int:
        return self.number

    def __iter__(self) -> Iterator[tuple[LoadedCard, Item]]:
        for loaded, path, first in self.files:
            for item in iter_records(path, Item, first, self.shard.parts):
                yield loaded, item

    def __contains__(self, pair: object) -> bool:
        return any(pair == each for each in self)


class ConversationResults(NamedTuple):
    """Results of a job's conversations: replies by the number of their item, and sent prompts by their hash."""

    replies: Spool[int, Reply]
    prompts: Spool[str, Prompt]

    @classmethod
    def beside(cls, out: Path) -> ConversationResults:
        """Return empty results, which are buffered in the folder of the output file."""
        return cls(Spool(out.parent), Spool(out.parent))

    def write(self, out: Path, prompts: Path) -> None:
        """Write the replies in the order of the items, and the prompts in the order of their hashes."""
        self.prompts.write(prompts)
        self.replies.write(out)


class RequestCounts(NamedTuple):
    """Numbers of answered requests and of their tokens. unreported: requests whose tokens the server did not report."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    unreported: int = 0

    def plus(self, usage: Usage, requests: int = 1) -> RequestCounts:
        """Return the counts with the usage of one more request. requests: 0 for a failed try that was billed."""
        return RequestCounts(
            self.requests + requests,
            self.prompt_tokens + (usage.prompt or 0),
            self.completion_tokens + (usage.answer or 0),
            self.cached_tokens + (usage.cached or 0),
            self.unreported + (not usage.is_reported),
        )


class ModelRequests:
    """Requests to one model about one benchmark. They are sent to the server only if the journal has no answer."""

    def __init__(
        self,
        name: str,
        model: ServedModel,
        identity: dict[str, Any],
        journal: Journal[FinishedRequest],
        backend: Backend,
        pictures: Path | None = None,
        answering: str | None = None,
        asks_failed: bool = False,
    ) -> None:
        """Prepare the requests of the tutor or judge `name`.

        pictures: folder of the pictures; answering: registry entry of the model that answers (default: `name`);
        asks_failed: ask once more about requests that failed in an earlier run.
        """
        self.answering = answering or name
        self.pictures = pictures
        self.name, self.model, self.identity, self.journal, self.backend = name, model, identity, journal, backend
        self.failed = FailedRequests(journal.path, asks_failed)
        self.filtered = 0  # answers on file that a filter had cut, and that earlier versions took as replies
        self.counts = RequestCounts()
        self.rounds = TurnLog()
        self.waiting: dict[str, asyncio.Future[FinishedRequest]] = {}

    def fill_pictures(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the request with its pictures as data URLs."""
        return {**request, "messages": as_sent(request["messages"], self.pictures)}

    @property
    def requests(self) -> int:
        """Number of answered requests."""
        return self.counts.requests

    async def record_and_close(self) -> None:
        """Append the server's usage to the ledger, and stop the server."""
        self.record_usage()
        await self.backend.close()

    def record_usage(self) -> None:
        """Log the server's usage and append it to the ledger, unless the server was never started.

        The run counts what travels in batches.
        """
        if not self.backend.busy_from or self.backend.sends_batches:
            return
        seconds = time.monotonic() - self.backend.busy_from
        log.info("%d requests in %.1f s of server time%s", self.requests, seconds, self.cache_share())
        spent = JobSpending(
            time=utc_now(),
            asker=self.name,
            model=self.answering,
            **self.counts._asdict(),
            seconds=round(seconds, 1),
            retries=self.backend.new_retries(),
            unheeded=self.backend.silent_changes(),
            charged_usd=self.backend.newly_charged(),
        )
        append_spending(self.journal.path, spent)

    @property
    def budget_error(self) -> UserError | None:
        """Error of the limit of the run's budget at which the model has ended, None before."""
        return self.backend.purse.fault if self.backend.purse is not None else None

    def check_unanswered(self, progress: Progress, what: str) -> None:
        """Raise UserError if requests stayed unanswered, with their number and the reasons.

        what: plural noun for the message, such as "items".
        """
        if self.filtered:
            log.warning("%s: answers on file that a filter had cut, now missing: %d", self.name, self.filtered)
        if self.failed.now:
            log.warning(
                "%s: requests that failed in all tries while others were answered: %d; the next run asks them again",
                *(self.name, len(self.failed.now)),
            )
        check_pending(self.name, progress, what, [self])
        if self.budget_error is not None:
            raise self.budget_error
        if progress.failed:
            problem = f"{progress.failed} of {progress.total} {what} stayed unanswered ({progress.reasons()})"
            raise UserError(self.name, problem, "run again: only unanswered requests are sent")

    def cache_share(self) -> str:
        """Return a phrase for the log with the share of cached prompt tokens, or "" if the server reports none."""
        cached, prompt = self.counts.cached_tokens, self.counts.prompt_tokens
        return f", {100 * cached // prompt} % of the prompt tokens from its cache" if cached and prompt else ""

    async def ask(self, request: dict[str, Any]) -> FinishedRequest:
        """Return the answer to a request from the journal, or else from the server, and journal a new answer."""
        key = request_key(request, self.identity)
        if known := self.journal.answers.get(key):
            return self.with_state(known)
        if failed := self.failed.settled(key):
            return failed
        if key in self.waiting:  # an identical request is in progress: wait for its answer
            return await asyncio.shield(self.waiting[key])
        future = self.waiting[key] = asyncio.get_running_loop().create_future()
        try:
            self.backend.refuse(request)
            client = await self.backend.client()
            try:
                answer = await client.ask(request, self.fill_pictures)
            finally:
                self.count_others(client)
            entry = FinishedRequest(key=key, **vars(answer))
            if state_of(entry.error) == "failed":
                self.failed.add(entry)
            else:
                self.journal.append(entry)
            self.count(entry)
            future.set_result(entry)
            return entry
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # marks the exception as retrieved, since there may be no request that waits for it
            raise
        finally:
            del self.waiting[key]

    def with_state(self, entry: FinishedRequest) -> FinishedRequest:
        """Return an answer on file; one that a filter ended gets an error, which earlier versions did not record."""
        error = filter_error(entry.finish, entry.error)
        if error == entry.error:
            return entry
        self.filtered += 1
        return entry.model_copy(update={"error": error})

    def count(self, answer: FinishedRequest | Answer) -> None:
        """Add one request and its tokens to the counts."""
        self.counts = self.counts.plus(usage_of_answer(answer))

    def count_others(self, client: Any) -> None:
        """Count what else the endpoint bills: answered probes, and failed tries whose usage it reports."""
        while client.probe_answers:
            self.count(client.probe_answers.pop())
        while client.failed_usage:
            self.counts = self.counts.plus(client.failed_usage.pop(), requests=0)


def usage_of_answer(answer: FinishedRequest | Answer) -> Usage:
    """Return the tokens of one answer. A refusal costs nothing."""
    usage = Usage(answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens)
    return Usage(0, 0) if answer.error is not None and not usage.is_reported else usage


def check_pending(title: str, progress: Progress, what: str, askers: Iterable[ModelRequests]) -> None:
    """Raise UserError if the answers of requests come from batches.

    title: name of the work; what: plural noun for its pieces, such as "items"; askers: requests to its models.
    """
    askers = list(askers)
    pending = [line for asker in askers if (line := asker.backend.pending_line())]
    if not progress.later or not pending:
        return
    problem = f"{title}: {progress.later} of {progress.total} {what} have no answer yet: {'; '.join(pending)}"
    if (others := progress.failed - progress.later) > 0:
        problem += f"; {others} others stayed unanswered ({progress.reasons()})"
        raise UserError(title, problem.removeprefix(f"{title}: "), "run again: only unanswered requests are sent")
    raise UserError(PENDING_PLACE, problem, "run the same command again later")


class TurnLog:
    """Log of the turns of conversations. Logs each turn but the first when a task's first conversation reaches it."""

    def __init__(self) -> None:
        self.turn_of: dict[tuple[str, str], int] = {}
        self.logged: set[tuple[str, int]] = set()

    def enter(self, item: Item, number: int, turns: int) -> None:
        """Record that an item's conversation begins turn `number` of `turns` turns."""
        self.turn_of[item.task, item.id] = number
        if number == 1 or (item.task, number) in self.logged:
            return
        self.logged.add((item.task, number))
        behind = sum(task == item.task and at < number for (task, _), at in self.turn_of.items())
        log.info(
            "%s: turn %d of %d begins with item %s; items in an earlier turn: %d",
            *(item.task, number, turns, item.id, behind),
        )

    def leave(self, item: Item) -> None:
        """Record that an item's conversation has ended."""
        del self.turn_of[item.task, item.id]


class RequestLimits:
    """Settings for all requests of a run: the limit on the tokens of an answer, and the sampling seed."""

    def __init__(self, max_tokens: int | None, seed: int) -> None:
        self.max_tokens, self.seed = max_tokens, seed


def tutor_request(
    loaded: LoadedCard, messages: Messages, model: ServedModel, limits: RequestLimits, repeat: int = 0
) -> dict[str, Any]:
    """Return a tutor's request: fields of OpenAI's API, and `endpoint`, the kind of endpoint to use.

    repeat: number of earlier answers to the same prompt. The first answer's request does not depend on it.
    """
    card = loaded.card
    return {
        "endpoint": model.endpoint or card.endpoint,
        "messages": messages,
        "temperature": card.temperature,
        "max_tokens": model.token_limit(card.max_tokens, limits.max_tokens),
        "stop": card.stop,
        # Greedy answers do not depend on the seed, but those of hosted models may still vary.
        **({"seed": limits.seed + repeat} if card.temperature or repeat else {}),
        **({REPEAT: repeat} if repeat else {}),  # part of the request key, but not sent
    }


def merge_system_message(messages: Messages) -> Messages:
    """Return the messages with the system message merged into the first user message."""
    system, *others = messages
    first = next(number for number, message in enumerate(others) if message["role"] == "user")
    content = f"{system['content']}\n\n{others[first]['content']}"
    return [*others[:first], {"role": "user", "content": content}, *others[first + 1 :]]


def append_message(messages: Messages, role: str, content: str) -> Messages:
    """Append a message, or merge it into the last message if both have the same role.

    Many chat templates require that roles alternate.
    """
    if messages and messages[-1]["role"] == role != "system":
        return [*messages[:-1], {"role": role, "content": f"{messages[-1]['content']}\n\n{content}"}]
    return [*messages, {"role": role, "content": content}]


def turn_count(loaded: LoadedCard, item: Item) -> int:
    """Return the number of turns of an item's conversation: those of the card, then those of the item's script."""
    return len(loaded.templates) + len(item.script)


def turn_prompt(loaded: LoadedCard, item: Item, answers: Sequence[str]) -> str:
    """Return the student's next turn after the tutor's `answers`: a template of the card, or a turn of the script."""
    number = len(answers)
    template = loaded.templates[min(number, len(loaded.templates) - 1)]
    scripted = number - len(loaded.templates)
    student = {"student": item.script[scripted]} if scripted >= 0 else {}
    return render(template, {**item.vars, **student, "answers": list(answers)}, loaded.shots)


def first_prompt(loaded: LoadedCard, item: Item) -> str:
    """Return the prompt text of an item's first turn."""
    return turn_prompt(loaded, item, [])


def first_messages(
    loaded: LoadedCard, item: Item, prompt_role: str | None, user_last: bool = False, usual_role: str = "system"
) -> Messages:
    """Return the messages of the first request: system message, history, the card's first turn, and the pictures.

    prompt_role: `prompt_role` of the model's registry entry, `user` if the model accepts no system message; user_last:
    True if the model refuses conversations that end with an assistant message, so that the last message gets the role
    `user`; usual_role: role of a prompt without a history if neither the registry entry nor the card sets a role.
    """
    system = [{"role": "system", "content": render(loaded.system, item.vars, "")}] if loaded.card.system else []
    before = [*system, *item.history]
    speaker = "user" if user_last else item.speaker
    alone = prompt_role if prompt_role == "user" else loaded.card.role or prompt_role or usual_role
    role = (loaded.card.role or speaker) if before else alone
    messages = append_message(before, role, first_prompt(loaded, item))
    return with_pictures(merge_system_message(messages) if system and prompt_role == "user" else messages, item.images)


async def send_messages(
    loaded: LoadedCard,
    messages: Messages,
    job: ModelRequests,
    limits: RequestLimits,
    keep: Callable[[Prompt], None],
    repeat: int,
) -> tuple[FinishedRequest, dict[str, Any], str]:
    """Send messages. Returns the answer, the request, and the hash of the messages. keep: called with the prompt."""
    request, sent = tutor_request(loaded, messages, job.model, limits, repeat), canonical_digest(messages)
    keep(Prompt(messages=sent, content=messages))
    return await job.ask(request), request, sent


def without_empty_turns(messages: Messages) -> Messages:
    """Return the messages with EMPTY_TURN in place of the tutor's empty turns."""
    return [
        {**message, "content": EMPTY_TURN}
        if message["role"] == "assistant" and isinstance(message["content"], str) and not message["content"].strip()
        else message
        for message in messages
    ]


async def converse(
    loaded: LoadedCard, item: Item, job: ModelRequests, limits: RequestLimits, keep: Callable[[Prompt], None]
) -> Reply:
    """Run the conversation about one item and return the tutor's reply. keep: called with each prompt that is sent.

    A refused turn ends a conversation, and so does an empty turn if the student follows a script, whose next turn would
    answer nothing.
    """
    turns: list[Turn] = []
    count, ended = turn_count(loaded, item), None
    repeat = item.repeat % job.model.repeats  # a model with fewer repeats gives its earlier answers again
    # Several hosted endpoints refuse a conversation that consists of only a system message.
    usual = "user" if isinstance(job.model, HostedModel) else "system"
    messages = first_messages(loaded, item, job.model.prompt_role, job.model.user_last, usual)
    for number in range(1, count + 1):
        if turns:
            answers = [turn.text for turn in turns]
            question = turn_prompt(loaded, item, answers)
            messages = [*messages, {"role": "assistant", "content": answers[-1]}, {"role": "user", "content": question}]
        job.rounds.enter(item, number, count)
        entry, request, sent = await send_messages(loaded, messages, job, limits, keep, repeat)
        if entry.error and (filled := without_empty_turns(messages)) != messages:
            messages = filled  # retry without empty turns, since some providers refuse them
            entry, request, sent = await send_messages(loaded, messages, job, limits, keep, repeat)
        fields = {name: getattr(entry, name) for name in Turn.model_fields if name not in {"messages", "endpoint"}}
        turns.append(Turn(messages=sent, endpoint=request["endpoint"], **fields))
        if entry.error:
            break
        if item.script and not entry.text.strip():
            ended = f"the tutor's turn {number} of {count} is empty"
            break
    job.rounds.leave(item)
    # A card has at least one turn, so `entry` is set. The last request contains the whole conversation, so its key is
    # the key of the reply.
    return Reply(id=item.id, task=item.task, tutor=job.name, key=entry.key, turns=turns, error=entry.error, ended=ended)


async def converse_all(work: TutorWork, job: ModelRequests, limits: RequestLimits, kept: ConversationResults) -> None:
    """Run the conversations about all items concurrently. Raises UserError at the end if requests stayed unanswered.

    kept: receives the replies and the prompts.
    """
    from maieutic.serving.client import Unanswered

    progress = Progress(job.name, len(work))

    def keep(prompt: Prompt) -> None:
        if prompt.messages not in kept.prompts:
            kept.prompts.put(prompt.messages, prompt)

    async def converse_one(number: int, loaded: LoadedCard, item: Item) -> None:
        requests = job.requests
        try:
            reply = await converse(loaded, item, job, limits, keep)
        except Unanswered as error:
            progress.fail(str(error), error.later, error.sent)
            return
        kept.replies.put(number, reply)
        tokens = sum(turn.completion_tokens or 0 for turn in reply.turns)
        fresh = job.requests > requests
        progress.step(known=not fresh, tokens=tokens if fresh else 0)

    conversations = (converse_one(number, loaded, item) for number, (loaded, item) in enumerate(work))
    under_way = min(CONVERSATIONS_PER_REQUEST * job.backend.most_in_flight, len(work))
    await run_watched(conversations, job.backend.check, under_way, job.model.grace)
    progress.log_line()
    job.check_unanswered(progress, "items")


async def run_watched(
    coroutines: Iterable[Coroutine[Any, Any, None]], watch: Callable[[], None], under_way: int, grace: float
) -> None:
    """Run coroutines concurrently, and check every second that the server is alive. The first error ends the others.

    After a UserError, the coroutines in progress have `grace` seconds to finish, because their requests are billed.

    coroutines: iterable from which each coroutine is taken when it can start; watch: function that raises an error if
    the server has ended; under_way: maximum number of coroutines in progress.
    """
    waiting, faults, faulty = iter(coroutines), list[UserError](), asyncio.Event()

    async def look() -> None:
        while True:
            await asyncio.sleep(1.0)
            watch()

    async def work_off() -> None:
        for coroutine in waiting:
            try:
                await coroutine
            except UserError as fault:
                faults.append(fault)
                faulty.set()
            if faults:
                return

    guard = asyncio.create_task(look())
    tasks = [asyncio.create_task(work_off()) for _ in range(max(under_way, 1))]
    finished = asyncio.create_task(asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION))
    ending = asyncio.create_task(faulty.wait())
    try:
        await asyncio.wait({guard, finished, ending}, return_when=asyncio.FIRST_COMPLETED)
        if faults and not guard.done():
            await asyncio.wait({guard, finished}, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
        if guard.done():
            guard.result()
        if finished.done():
            for done in finished.result()[0]:
                done.result()
        if faults:
            raise faults[0]
    finally:
        everything: list[asyncio.Task[Any]] = [guard, finished, ending, *tasks]
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)


class GenerateReplies(Job):
    """Job that generates one tutor's replies to tasks of one benchmark, under one protocol.

    entry: registry entry of the tutor; max_tokens: maximum value of a card's `max_tokens` in this run; seed: sampling
    seed; shard: part of the items to answer (default: all items); asks_failed: True if requests that failed in an
    earlier run are on file, which this job asks once more.
    """

    tutor: str
    entry: Annotated[VllmModel | HostedModel | BaselineModel, Field(discriminator="engine")]
    benchmark: str
    tasks: list[str]
    protocol: str
    max_tokens: int | None = None
    seed: int
    shard: Shard = UNSHARDED
    asks_failed: bool = False

    def journals(self, journal: Path) -> list[Path]:
        """Return the tutor's other journals for this benchmark: those of all items, and those of single shards.

        journal: this job's journal. It is in the folder of the benchmark's journals, or two levels lower for a shard.
        """
        folder = journal.parent if self.shard == UNSHARDED else journal.parents[2]
        return [path for path in reply_journals(folder, self.tutor) if path != journal]

    def work(self, items: Path) -> CardItems:
        """Return the job's items with their cards. items: folder of the benchmark's items."""
        return CardItems(load_cards(self.benchmark, self.tasks, self.protocol), items, self.shard)


def generate_replies(
    *,
    job: GenerateReplies,
    items: Path,
    weights: list[Path],
    pictures: Path,
    journal: Path,
    server_log: Path,
    out: Path,
    prompts: Path,
) -> None:
    """Write one Reply per item, and the prompts that were sent. Answers in the tutor's journals are reused.

    items: folder of the benchmark's items; weights: manifest of the model's weights if the run serves the model,
    otherwise empty; pictures: folder of the items' pictures; journal: this job's journal.
    """
    work = job.work(items)
    if isinstance(job.entry, BaselineModel):
        tutor, name = job.entry.tutor, job.tutor
        write_records(out, (baseline_reply(name, tutor, item, turn_count(loaded, item)) for loaded, item in work))
        write_records(prompts, [])
        return
    files = JobFiles(next(iter(weights), None), journal, server_log, pictures, job.journals(journal))
    limits = RequestLimits(job.max_tokens, job.seed)
    ask_tutor(job.tutor, job.entry, work, limits, files, out, prompts, job.asks_failed)


def ask_tutor(
    name: str,
    model: VllmModel | HostedModel,
    work: TutorWork,
    limits: RequestLimits,
    files: JobFiles,
    out: Path,
    prompts: Path,
    asks_failed: bool = False,
) -> None:
    """Write one Reply for each item in `work`, and the prompts that were sent. asks_failed: as in GenerateReplies."""
    with Journal(files.journal, FinishedRequest, files.journals) as journal:
        backend, identity = backend_of(name, model, files)
        kept = ConversationResults.beside(out)
        asking = ModelRequests(name, model, identity, journal, backend, files.pictures, asks_failed=asks_failed)
        run_with_grace(run_concurrently([run_conversations(work, asking, limits, kept)], backend), model.grace)
    kept.write(out, prompts)


async def run_conversations(
    work: TutorWork, job: ModelRequests, limits: RequestLimits, kept: ConversationResults
) -> None:
    """Run the conversations about all items, and then record the server's usage, even after an error."""
    try:
        return await converse_all(work, job, limits, kept)
    finally:
        job.record_usage()


async def run_concurrently(parts: Iterable[Coroutine[Any, Any, T]], backend: Backend) -> list[T]:
    """Run coroutines that use one server concurrently, stop the server, and return the results.

    If a coroutine fails, the others continue. At the end, one UserError with the errors of all coroutines is raised.
    """
    try:
        outcomes = await asyncio.gather(*parts, return_exceptions=True)
    finally:
        await backend.close()
    faults = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for fault in faults:
        if not isinstance(fault, UserError):
            raise fault
    if faults:
        raise UserError.of([fault for fault in faults if isinstance(fault, UserError)])
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def results_of(
    title: str, noun: str, work: Sequence[Callable[[], Coroutine[Any, Any, T]]], sides: Sequence[ModelRequests]
) -> list[T]:
    """Run coroutines concurrently, close the servers that they call, and return the results in order.

    Raises UserError at the end if requests stayed unanswered. title: name of the work in log messages; noun: plural
    noun for a piece of work; work: functions that return the coroutines; sides: requests to the models that they call.
    """
    from maieutic.serving.client import Unanswered

    progress, results = Progress(title, len(work)), dict[int, T]()
    grace = max(side.model.grace for side in sides)

    async def run_one(number: int, start: Callable[[], Coroutine[Any, Any, T]]) -> None:
        before = sum(side.requests for side in sides)
        try:
            results[number] = await start()
        except Unanswered as error:
            progress.fail(str(error), error.later, error.sent)
            return
        progress.step(known=sum(side.requests for side in sides) == before)

    def check() -> None:
        for side in sides:
            side.backend.check()

    async def run_all() -> None:
        at_once = CONVERSATIONS_PER_REQUEST * max(side.backend.most_in_flight for side in sides)
        at_once = min(at_once, len(work))
        coroutines = (run_one(number, start) for number, start in enumerate(work))
        try:
            await run_watched(coroutines, check, at_once, grace)
            progress.log_line()
            check_pending(title, progress, noun, sides)
            for side in sides:
                side.check_unanswered(progress, noun)
        finally:
            for side in sides:
                await side.record_and_close()

    run_with_grace(run_all(), grace)
    return [results[number] for number in range(len(work))]
