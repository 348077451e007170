"""What every tutor says to every item: all items of a benchmark in flight at once against one server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field

from maieutic.config.cards import LoadedCard, cards_of
from maieutic.config.models import BaselineModel, HostedModel, ServedModel, VllmModel
from maieutic.config.prompts import Messages, render
from maieutic.core.ending import run_to_the_end
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.journal import Entry, Journal, digest, journals_of, request_key
from maieutic.core.ledger import Spent, now, put_down
from maieutic.core.progress import Progress
from maieutic.core.records import Item, Prompt, Reply, Turn, each_record, write_records
from maieutic.core.spool import Spool
from maieutic.replies.baselines import baseline_reply
from maieutic.serving.answers import Answer
from maieutic.serving.backends import Backend, JobFiles, backend_of
from maieutic.serving.pictures import as_sent, with_pictures

log = logging.getLogger(__name__)
T = TypeVar("T")
Work = Collection[tuple[LoadedCard, Item]]  # gone through twice, in one order
# Conversations that are under way for each request that may be in flight: the others wait for an answer that is asked
# already, for a further attempt, or for the disk.
UNDER_WAY = 2
EMPTY_TURN = "(no answer)"  # what a provider that refuses empty turns is sent in the place of the tutor's


class Shard(NamedTuple):
    """A part of a benchmark's items: every `of`-th, from the `number`-th on, both counted from 1."""

    number: int
    of: int


WHOLE = Shard(1, 1)


class CardItems(Collection[tuple[LoadedCard, Item]]):
    """The items of some cards, each with its card, read from their files as they are gone through.

    folder: of a benchmark's items, a file for each task; shard: which of them, counted over all cards.
    """

    def __init__(self, cards: Iterable[LoadedCard], folder: Path, shard: Shard = WHOLE) -> None:
        self.shard = shard
        self.files: list[tuple[LoadedCard, Path, int]] = []  # with the place of the shard's first item in the file
        number = 0
        for loaded in cards:
            path = folder / f"{loaded.card.task}.jsonl"
            self.files.append((loaded, path, (shard.number - 1 - number) % shard.of))
            with open(path, "rb") as handle:
                number += sum(1 for _ in handle)
        self.number = len(range(shard.number - 1, number, shard.of))

    def __len__(self) -> int:
        return self.number

    def __iter__(self) -> Iterator[tuple[LoadedCard, Item]]:
        for loaded, path, first in self.files:
            for item in each_record(path, Item, first, self.shard.of):
                yield loaded, item

    def __contains__(self, pair: object) -> bool:
        return any(pair == each for each in self)


class Conversed(NamedTuple):
    """What became of a job's items: the reply to each by its number, and the prompts that were sent by their hashes."""

    replies: Spool[int, Reply]
    prompts: Spool[str, Prompt]

    @classmethod
    def beside(cls, out: Path) -> Conversed:
        """Room for them on the disk that the replies are written to."""
        return cls(Spool(out.parent), Spool(out.parent))

    def write(self, out: Path, prompts: Path) -> None:
        """Write the replies in the order of the items, and the prompts in that of their hashes."""
        self.prompts.write(prompts)
        self.replies.write(out)


class Asking:
    """One model on one benchmark: asks what the journal lacks, starting the server on the first miss."""

    def __init__(
        self,
        name: str,
        model: ServedModel,
        identity: dict[str, Any],
        journal: Journal[Entry],
        backend: Backend,
        pictures: Path | None = None,
        answering: str | None = None,
    ) -> None:
        """pictures: the folder of the pictures that messages name; answering: the model's entry, where a judge asks."""
        self.answering = answering or name
        self.pictures = pictures
        self.name, self.model, self.identity, self.journal, self.backend = name, model, identity, journal, backend
        self.asked = self.prompt_tokens = self.completion_tokens = self.cached_tokens = 0
        self.spent: UserError | None = None  # the run's budget, once it is
        self.rounds = Rounds()
        self.waiting: dict[str, asyncio.Future[Entry]] = {}

    def sent(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request with its pictures in it."""
        return {**request, "messages": as_sent(request["messages"], self.pictures)}

    async def end(self) -> None:
        """Put down what was asked, and end the server."""
        self.put_down()
        await self.backend.close()

    def put_down(self) -> None:
        """Say what was asked, and put it into the ledger."""
        if self.backend.busy_from:
            seconds = time.monotonic() - self.backend.busy_from
            log.info("%d requests in %.1f s with the server up%s", self.asked, seconds, self.cache_share())
            counts = {
                "prompt_tokens": self.prompt_tokens,
                "completion_tokens": self.completion_tokens,
                "cached_tokens": self.cached_tokens,
            }
            spent = {
                "requests": self.asked,
                **counts,
                "seconds": round(seconds, 1),
                "retries": self.backend.new_retries(),
                "unheeded": self.backend.unheeded(),
            }
            put_down(self.journal.path, Spent(time=now(), asker=self.name, model=self.answering, **spent))

    async def within_budget(self, client: Any, request: dict[str, Any]) -> Any:
        """The server's answer. Raises Interrupted where the run's budget is spent; what is asked already goes on."""
        from maieutic.serving.client import Interrupted

        purse = self.backend.purse
        if purse is None:
            return await client.ask(request, self.sent)
        if self.spent is not None:
            raise Interrupted(self.spent.problem)
        reserved = False

        def sent(request: dict[str, Any]) -> dict[str, Any]:
            """Reserve when the request has its turn: what waits for one is not asked yet."""
            nonlocal reserved
            if not reserved:
                try:
                    purse.reserve()
                except UserError as error:
                    self.spent = error
                    raise Interrupted(error.problem) from None
                reserved = True
            return self.sent(request)

        try:
            return await client.ask(request, sent)
        except Exception:  # one that is cancelled was sent, and may be paid
            if reserved:
                purse.release()
            raise

    def check_unanswered(self, progress: Progress, what: str) -> None:
        """At the end of work. Raises UserError where something stayed unanswered: what, and why."""
        if self.spent is not None:
            raise self.spent
        if progress.failed:
            problem = f"{progress.failed} of {progress.total} {what} stayed unanswered ({progress.reasons()})"
            raise UserError(self.name, problem, "run again: only these are asked")

    def cache_share(self) -> str:
        """The share of the prompts' tokens that the server had in its cache; empty where it told none."""
        if not (self.cached_tokens and self.prompt_tokens):
            return ""
        return f", {100 * self.cached_tokens // self.prompt_tokens} % of the prompts' tokens from its cache"

    async def ask(self, request: dict[str, Any]) -> Entry:
        """The answer to a request: from the journal, or from the server and then in the journal."""
        key = request_key(request, self.identity)
        if known := self.journal.answers.get(key):
            return known
        if key in self.waiting:  # two items with the same prompt are one request
            return await asyncio.shield(self.waiting[key])
        future = self.waiting[key] = asyncio.get_running_loop().create_future()
        try:
            self.backend.refuse(request)
            client = await self.backend.client()
            try:
                answer = await self.within_budget(client, request)
            finally:
                self.count_probes(client)
            entry = Entry(key=key, **vars(answer))
            self.journal.append(entry)
            if self.backend.purse is not None:  # after it: what is paid is on file, whatever becomes of the purse
                self.backend.purse.settle(
                    entry.prompt_tokens or 0, entry.completion_tokens or 0, entry.cached_tokens or 0
                )
            self.count(entry)
            future.set_result(entry)
            return entry
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # nobody else may be waiting for it
            raise
        finally:
            del self.waiting[key]

    def count(self, answer: Entry | Answer) -> None:
        """Count one request with its tokens."""
        self.asked += 1
        self.prompt_tokens += answer.prompt_tokens or 0
        self.completion_tokens += answer.completion_tokens or 0
        self.cached_tokens += answer.cached_tokens or 0

    def count_probes(self, client: Any) -> None:
        """Count the probes that were answered: they are paid, and no item's answers."""
        while client.asides:
            answer = client.asides.pop()
            self.count(answer)
            if self.backend.purse is not None:
                with suppress(UserError):  # a spent budget ends the job at the next request
                    self.backend.purse.reserve()
                    self.backend.purse.settle(
                        answer.prompt_tokens or 0, answer.completion_tokens or 0, answer.cached_tokens or 0
                    )


class Rounds:
    """Which turn each conversation is in, to say once a turn how many others it did not wait for."""

    def __init__(self) -> None:
        self.at: dict[tuple[str, str], int] = {}
        self.said: set[tuple[str, int]] = set()

    def enter(self, item: Item, number: int, turns: int) -> None:
        """One item goes into its turn `number`."""
        self.at[item.task, item.id] = number
        if number == 1 or (item.task, number) in self.said:
            return
        self.said.add((item.task, number))
        behind = sum(task == item.task and at < number for (task, _), at in self.at.items())
        log.info(
            "%s: turn %d of %d begins with %s, while %d others are in an earlier turn",
            *(item.task, number, turns, item.id, behind),
        )

    def leave(self, item: Item) -> None:
        """One item's conversation is over."""
        del self.at[item.task, item.id]


class Limits:
    """What a run may change of every request."""

    def __init__(self, max_tokens: int | None, seed: int) -> None:
        self.max_tokens, self.seed = max_tokens, seed


def request_of(loaded: LoadedCard, messages: Messages, model: ServedModel, limits: Limits) -> dict[str, Any]:
    """Everything that is asked, in the SDK's own names; `endpoint` says how."""
    card = loaded.card
    return {
        "endpoint": model.endpoint or card.endpoint,
        "messages": messages,
        "temperature": card.temperature,
        "max_tokens": model.bound(card.max_tokens, limits.max_tokens),
        "stop": card.stop,
        **({"seed": limits.seed} if card.temperature else {}),  # greedy answers do not depend on it
    }


def folded(messages: Messages) -> Messages:
    """The system message at the head of the first message of the user, for models that take none."""
    system, *others = messages
    first = next(number for number, message in enumerate(others) if message["role"] == "user")
    content = f"{system['content']}\n\n{others[first]['content']}"
    return [*others[:first], {"role": "user", "content": content}, *others[first + 1 :]]


def followed(messages: Messages, role: str, content: str) -> Messages:
    """The messages with one more. Chat templates want users and assistants in turn: two of one speaker become one."""
    if messages and messages[-1]["role"] == role != "system":
        return [*messages[:-1], {"role": role, "content": f"{messages[-1]['content']}\n\n{content}"}]
    return [*messages, {"role": role, "content": content}]


def first_prompt(loaded: LoadedCard, item: Item) -> str:
    """The words that an item's first reply answers."""
    return render(loaded.templates[0], {**item.vars, "answers": []}, loaded.shots)


def first_messages(
    loaded: LoadedCard, item: Item, prompt_role: str | None, user_last: bool = False, usual_role: str = "system"
) -> Messages:
    """What the first request holds: the system message, what was said before, the card's first turn, the pictures.

    prompt_role: of the model by the registry; `user` where it takes no system message. user_last: it takes no
    conversation that ends with the assistant's words, which the user says then. usual_role: who says a prompt that
    stands alone where neither registry nor card says it.
    """
    system = [{"role": "system", "content": render(loaded.system, item.vars, "")}] if loaded.card.system else []
    before = [*system, *item.history]
    speaker = "user" if user_last else item.speaker
    alone = prompt_role if prompt_role == "user" else loaded.card.role or prompt_role or usual_role
    role = (loaded.card.role or speaker) if before else alone
    messages = followed(before, role, first_prompt(loaded, item))
    return with_pictures(folded(messages) if system and prompt_role == "user" else messages, item.images)


async def asked_once(
    loaded: LoadedCard, messages: Messages, job: Asking, limits: Limits, keep: Callable[[Prompt], None]
) -> tuple[Entry, dict[str, Any], str]:
    """Return the answer to messages, the request, and the hash of the messages."""
    request, sent = request_of(loaded, messages, job.model, limits), digest(messages)
    keep(Prompt(messages=sent, content=messages))
    return await job.ask(request), request, sent


def without_empty_turns(messages: Messages) -> Messages:
    """Return the messages with EMPTY_TURN where the tutor left a turn empty."""
    return [
        {**message, "content": EMPTY_TURN}
        if message["role"] == "assistant" and isinstance(message["content"], str) and not message["content"].strip()
        else message
        for message in messages
    ]


async def converse(
    loaded: LoadedCard, item: Item, job: Asking, limits: Limits, keep: Callable[[Prompt], None]
) -> Reply:
    """One item from its first turn to its last; later turns see the tutor's own answers. keep: takes what is sent."""
    turns: list[Turn] = []
    # Several hosted endpoints refuse a conversation of a system message alone.
    usual = "user" if isinstance(job.model, HostedModel) else "system"
    messages = first_messages(loaded, item, job.model.prompt_role, job.model.user_last, usual)
    for number, template in enumerate(loaded.templates, 1):
        if turns:
            answers = [turn.text for turn in turns]
            asked = render(template, {**item.vars, "answers": answers}, loaded.shots)
            messages = [*messages, {"role": "assistant", "content": answers[-1]}, {"role": "user", "content": asked}]
        job.rounds.enter(item, number, len(loaded.templates))
        entry, request, sent = await asked_once(loaded, messages, job, limits, keep)
        if entry.error and (filled := without_empty_turns(messages)) != messages:
            messages = filled  # some providers refuse a conversation with an empty turn
            entry, request, sent = await asked_once(loaded, messages, job, limits, keep)
        fields = {name: getattr(entry, name) for name in Turn.model_fields if name not in {"messages", "endpoint"}}
        turns.append(Turn(messages=sent, endpoint=request["endpoint"], **fields))
        if entry.error:
            break
    job.rounds.leave(item)
    # A card has at least one turn, so the last one's entry is there: its key names the whole conversation.
    return Reply(id=item.id, task=item.task, tutor=job.name, key=entry.key, turns=turns, error=entry.error)


async def converse_all(work: Work, job: Asking, limits: Limits, kept: Conversed) -> None:
    """Every item, in the order in which answers come. Raises UserError when some stayed unanswered, at the end."""
    from maieutic.serving.client import Unanswered

    progress = Progress(job.name, len(work))

    def keep(prompt: Prompt) -> None:
        if prompt.messages not in kept.prompts:
            kept.prompts.put(prompt.messages, prompt)

    async def one(number: int, loaded: LoadedCard, item: Item) -> None:
        asked = job.asked
        try:
            reply = await converse(loaded, item, job, limits, keep)
        except Unanswered as error:
            progress.fail(str(error))
            return
        kept.replies.put(number, reply)
        tokens = sum(turn.completion_tokens or 0 for turn in reply.turns)
        fresh = job.asked > asked
        progress.step(known=not fresh, tokens=tokens if fresh else 0)

    conversations = (one(number, loaded, item) for number, (loaded, item) in enumerate(work))
    await watched(conversations, job.backend.check, UNDER_WAY * job.model.concurrency, job.model.grace)
    progress.say()
    job.check_unanswered(progress, "items")


async def watched(
    coroutines: Iterable[Coroutine[Any, Any, None]], watch: Callable[[], None], under_way: int, grace: float
) -> None:
    """Run coroutines together, with a regular look at the server; the first error that matters ends them all.

    After an error that the user can mend those that are begun have `grace` seconds: what is in flight is paid.

    coroutines: made when their turn comes; under_way: how many are begun and not finished at any time.
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
    tasks = [asyncio.create_task(work_off()) for _ in range(under_way)]
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
    """A tutor's entry and the tasks of one benchmark that it is asked, under one protocol.

    max_tokens: upper bound on the cards' own; seed: of answers that are drawn; shard: of the items, left out: all.
    """

    tutor: str
    entry: Annotated[VllmModel | HostedModel | BaselineModel, Field(discriminator="engine")]
    benchmark: str
    tasks: list[str]
    protocol: str
    max_tokens: int | None = None
    seed: int
    shard: Shard = WHOLE

    def journals(self, own: Path) -> list[Path]:
        """The further journals of this tutor on this benchmark: of the whole, of shards of it.

        own: the job's, in the folder of the benchmark's journals; that of a shard two folders below it.
        """
        folder = own.parent if self.shard == WHOLE else own.parents[2]
        return [path for path in journals_of(folder, self.tutor) if path != own]

    def work(self, items: Path) -> CardItems:
        """The job's items with their cards. items: the folder of the benchmark's items."""
        return CardItems(cards_of(self.benchmark, self.tasks, self.protocol), items, self.shard)


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
    """Write one Reply per item, and the prompts that were sent; nothing is asked that a journal of the tutor holds.

    items: the folder of the benchmark's items; weights: the manifest of a model that we serve; pictures: the store of
    the items' pictures; journal: the job's own.
    """
    work = job.work(items)
    if isinstance(job.entry, BaselineModel):
        tutor, name = job.entry.tutor, job.tutor
        write_records(out, (baseline_reply(name, tutor, item, len(loaded.templates)) for loaded, item in work))
        write_records(prompts, [])
        return
    files = JobFiles(next(iter(weights), None), journal, server_log, pictures, job.journals(journal))
    ask_tutor(job.tutor, job.entry, work, Limits(job.max_tokens, job.seed), files, out, prompts)


def ask_tutor(
    name: str, model: VllmModel | HostedModel, work: Work, limits: Limits, files: JobFiles, out: Path, prompts: Path
) -> None:
    """Write one Reply per item of the work, and the prompts that were sent."""
    with Journal(files.journal, Entry, files.journals) as journal:
        backend, identity = backend_of(name, model, files)
        kept = Conversed.beside(out)
        asking = Asking(name, model, identity, journal, backend, files.pictures)
        run_to_the_end(together([run_job(work, asking, limits, kept)], backend), model.grace)
    kept.write(out, prompts)


async def run_job(work: Work, job: Asking, limits: Limits, kept: Conversed) -> None:
    """Converse, and put down what was asked, whatever happens."""
    try:
        return await converse_all(work, job, limits, kept)
    finally:
        job.put_down()


async def together(parts: Iterable[Coroutine[Any, Any, T]], backend: Backend) -> list[T]:
    """Pieces of work at once against one server, which is ended at last; gives what became of each.

    A piece that fails ends no other one. Raises UserError with the faults of all of them, after that.
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
