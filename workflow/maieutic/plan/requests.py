"""What a run will ask that is not on file: new requests by job, from the journals where items are there already.

Where they are not, by the number of items that the cards know, and what such requests were measured to hold
(resources/sizes.csv).
"""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from maieutic.config.cards import Card, LoadedCard
from maieutic.config.models import BaselineModel, HostedModel, VllmModel
from maieutic.core import paths
from maieutic.core.journal import Entry, answers_on_file, request_key
from maieutic.core.records import Item, Prompt
from maieutic.judges.assignments import work_on_labels, work_on_pairs, work_on_replies
from maieutic.judges.judging import Panel, Work, follow_ups, judge_case
from maieutic.judges.probes import PROBES, work_on_probes
from maieutic.judges.questions import questions_of
from maieutic.judges.rubrics import chosen_rubrics
from maieutic.plan import inputs, jobs
from maieutic.plan.plan import Plan
from maieutic.replies.generate import Asking, Limits, Shard, converse
from maieutic.serving.backends import Backend, hosted_identity
from maieutic.serving.server import identity as served_identity

CHARS_A_TOKEN = 4.0
VERDICT_TOKENS = 120  # of a question to a judge that gives its reasons
SIZES = paths.RESOURCES / "sizes.csv"


class NewRequests(NamedTuple):
    """What one job will ask. stage: tutors or judges; model: the entry that answers; exact: counted, not supposed.

    prompt_tokens, answer_tokens: supposed, all requests together; None for requests: it cannot be known.
    """

    stage: str
    asker: str
    model: str
    requests: int | None
    prompt_tokens: float = 0.0
    answer_tokens: float = 0.0
    exact: bool = False


class Supposed(NamedTuple):
    """What a part of a job will take, where nothing of it is there to be counted: as in NewRequests."""

    requests: int | None
    prompt_tokens: float = 0.0
    answer_tokens: float = 0.0


class NotOnFile(Exception):
    """A journal has no answer to a request."""


class OnFile(Asking):
    """Answers of a journal alone; keeps the lengths of the requests that it lacks."""

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

    async def ask(self, request: dict[str, Any]) -> Entry:
        """The answer on file. Raises NotOnFile, and remembers the request, where there is none."""
        key = request_key(request, self.identity)
        if (known := self.journal.answers.get(key)) is not None:
            return known
        self.lacking[key] = len(json.dumps(request["messages"], ensure_ascii=False))
        raise NotOnFile


def forget(prompt: Prompt) -> None:
    """What would be sent is not kept."""


async def never() -> Any:
    """No client: nobody is asked."""
    raise NotOnFile


class Size(NamedTuple):
    """What requests of a task hold, measured on the published data: characters, each request's mean.

    items: how many there are; requests: of one item.
    """

    items: int
    requests: float
    prompt_chars: float
    answer_chars: float


@cache
def sizes(path: Path = SIZES) -> dict[tuple[str, str, str], Size]:
    """By benchmark, task and rubric (empty: what a tutor is asked) the measured sizes."""
    with open(path, encoding="utf-8", newline="") as handle:
        return {
            (row["benchmark"], row["task"], row["rubric"]): Size(
                int(row["items"]), *(float(row[name]) for name in ("requests", "prompt_chars", "answer_chars"))
            )
            for row in csv.DictReader(handle)
        }


def identity_of(model: VllmModel | HostedModel, weights: Iterable[str]) -> dict[str, Any] | None:
    """A model's part of request keys; None for one whose weights are not there yet."""
    if isinstance(model, HostedModel):
        return hosted_identity(model)
    manifest = next((Path(path) for path in weights), None)
    return served_identity(model, manifest.parent) if manifest and manifest.is_file() else None


def there(files: Iterable[str], remade: Container[str]) -> bool:
    """Whether some files are all there, and none of those that will be written anew: what they hold is of before."""
    return all(Path(file).is_file() and file not in remade for file in files)


def listed(files: Any) -> list[str]:
    """An input of a rule as a list."""
    return [files] if isinstance(files, str) else list(files)


# tutors ---------------------------------------------------------------------------------------------------------------


def new_replies(
    plan: Plan, benchmark: str, tutor: str, remade: Container[str] = (), shard: str | None = None
) -> NewRequests | None:
    """What one tutor will be asked of one benchmark, or of a shard of it; None for a baseline.

    remade: files that will be written anew.
    """
    model = plan.models[tutor]
    if isinstance(model, BaselineModel):
        return None
    assert isinstance(model, VllmModel | HostedModel)
    files = inputs.generate_replies(plan, benchmark, tutor)
    identity = identity_of(model, listed(files["weights"]))
    loadeds = plan.cards_for(benchmark, tutor)
    job = jobs.generate_shard(plan, benchmark, tutor, shard) if shard else jobs.generate_replies(plan, benchmark, tutor)
    if identity is None or not there(listed(files["cases"]), remade):
        whole = supposed("tutors", tutor, tutor, [supposed_replies(plan, loaded) for loaded in loadeds])
        return share_of(whole, job.shard)
    names = {"benchmark": benchmark, "tutor": tutor}
    journal = Path(paths.SHARD_JOURNAL.of(**names, shard=shard) if shard else paths.REPLY_JOURNAL.of(**names))
    on_file = OnFile(tutor, model, identity, journal, job.journals(journal))
    work = job.work(Path(paths.ITEM_FOLDER.of(benchmark=benchmark)))
    later = asyncio.run(turns_behind(work, on_file, Limits(job.max_tokens, job.seed)))
    return counted("tutors", tutor, tutor, on_file, later, mean_answer(on_file, loadeds))


def share_of(whole: NewRequests, shard: Shard) -> NewRequests:
    """What of a benchmark's supposed requests falls to a shard."""
    return whole._replace(
        requests=None if whole.requests is None else len(range(shard.number - 1, whole.requests, shard.of)),
        prompt_tokens=whole.prompt_tokens / shard.of,
        answer_tokens=whole.answer_tokens / shard.of,
    )


def all_new_replies(plan: Plan, tutor: str, remade: Container[str] = ()) -> NewRequests:
    """What one tutor will be asked of all benchmarks in one job. remade: files that will be written anew."""
    parts = [part for name in plan.benchmarks if (part := new_replies(plan, name, tutor, remade)) is not None]
    return summed("tutors", tutor, tutor, parts)


async def turns_behind(work: Iterable[tuple[LoadedCard, Item]], on_file: OnFile, limits: Limits) -> int:
    """Hold every conversation as far as it is on file; how many turns stand behind the first that is not."""
    later = 0
    for loaded, item in work:
        try:
            await converse(loaded, item, on_file, limits, forget)
        except NotOnFile:
            later += len(loaded.templates) - on_file.rounds.at[item.task, item.id]
    return later


def supposed_replies(plan: Plan, loaded: LoadedCard) -> Supposed:
    """What a task that nobody was asked yet takes of a tutor."""
    card = loaded.card
    size = sizes().get((card.benchmark, card.task, ""))
    items = items_of(plan, card)
    if items is None:
        return Supposed(None)
    turns = len(loaded.templates)
    prompt, answer = (size.prompt_chars, size.answer_chars) if size else (2000.0, 600.0)
    requests = items * turns
    return Supposed(requests, requests * tokens(prompt), requests * tokens(answer))


def items_of(plan: Plan, card: Card) -> int | None:
    """How many items a task has in this run, as far as cards and registry know."""
    dataset = plan.datasets[card.dataset]
    published = card.items or dataset.published.records
    items = published
    if plan.edition == "demo" and dataset.demo is not None:
        records, known = dataset.demo.records, dataset.published.records
        items = round(records * published / known) if records and known and published else records
    return min(filter(None, (plan.run.limit, items)), default=None)


# judges ---------------------------------------------------------------------------------------------------------------


def panel_of(plan: Plan, judge: str) -> Panel:
    """A judge with the model that answers for it, as its jobs have them."""
    entry, model = plan.judge_entry(judge), plan.models[plan.answering(judge)]
    assert isinstance(model, VllmModel | HostedModel)
    return Panel(judge, entry, model, plan.run.seed)


def new_verdicts(plan: Plan, judge: str, benchmark: str, batch: str, remade: Container[str] = ()) -> NewRequests:
    """What one judge will be asked of a batch of tutors. remade: files that will be written anew."""
    files, panel = inputs.judge_replies(plan, judge, benchmark, batch), panel_of(plan, judge)
    identity = identity_of(panel.model, listed(files["weights"]))
    cards = plan.judge_cards(benchmark, judge)
    if identity is None or not there([*listed(files["cases"]), *listed(files["replies"])], remade):
        tutors = plan.judge_batches(benchmark)[batch]
        parts = [supposed_verdicts(plan, judge, card, tutor) for card in cards for tutor in tutors]
        return supposed("judges", judge, plan.answering(judge), [part for part in parts if part])
    folder = Path(paths.ITEM_FOLDER.of(benchmark=benchmark))
    work = work_on_replies(panel.judge, cards, folder, [Path(path) for path in listed(files["replies"])])
    journal = paths.VERDICT_JOURNAL.of(judge=judge, benchmark=benchmark, batch=batch)
    return asked_of(plan, panel, identity, work, Path(journal))


def all_new_verdicts(plan: Plan, judge: str, batch: str, remade: Container[str] = ()) -> NewRequests:
    """What one judge will be asked of a batch of tutors in one job for all benchmarks."""
    parts = [new_verdicts(plan, judge, name, batch, remade) for name in plan.benchmarks_of_batch(judge, batch)]
    return summed("judges", judge, plan.answering(judge), parts)


def supposed_verdicts(plan: Plan, judge: str, card: Card, tutor: str) -> Supposed | None:
    """What a judge is asked of one tutor's replies to a task that are not there yet; None of a tutor without any."""
    if not plan.belongs(card, tutor):
        return None
    [rubric, *_] = chosen_rubrics(plan.judge_entry(judge).rubrics, card.rubrics)
    size, items = sizes().get((card.benchmark, card.task, rubric)), items_of(plan, card)
    if items is None:
        return Supposed(None)
    requests = items * (size.requests if size else 1.0)
    prompt = tokens(size.prompt_chars if size else 4000.0)
    return Supposed(round(requests), requests * prompt, requests * VERDICT_TOKENS)


def new_labelled(plan: Plan, judge: str, remade: Container[str] = ()) -> NewRequests:
    """What one judge will be asked about what people have labelled. remade: files that will be written anew."""
    files, panel = inputs.judge_labelled(plan, judge), panel_of(plan, judge)
    identity = identity_of(panel.model, listed(files["weights"]))
    if identity is None or not there([*listed(files["labels"]), *listed(files["pairs"])], remade):
        return supposed("judges", judge, plan.answering(judge), supposed_labelled(plan, judge))
    limit = plan.label_limit(judge)
    folders = list(dict.fromkeys(Path(path).parent for path in listed(files["labels"])))
    work = work_on_labels(panel.judge, folders, limit, plan.run.seed)
    for path in listed(files["pairs"]):
        work += work_on_pairs(panel.judge, Path(path), limit, plan.run.seed)
    probed = [folder for folder in folders if folder.name in plan.releases_for(judge)]
    work += work_on_probes(panel.judge, probed, plan.run.probes, limit, plan.run.seed)
    return asked_of(plan, panel, identity, work, Path(paths.LABELLED_JOURNAL.of(judge=judge)))


def supposed_labelled(plan: Plan, judge: str) -> list[Supposed]:
    """What a judge is asked about releases, and pairs, that are not there yet."""
    entry, limit = plan.judge_entry(judge), plan.label_limit(judge)
    wanted = [
        ("labels", release, rubric.name)
        for release in plan.told_releases(judge)
        if (rubric := plan.rubric_on(judge, release)) is not None
    ]
    wanted += [("pairs", source, name) for source in plan.preferences for name in entry.pairs]
    parts = []
    for key in wanted:
        size = sizes().get(key)
        if size is None:
            parts.append(Supposed(None))
            continue
        asked_again = key[0] == "labels" and key[1] in plan.releases_for(judge)
        probed = len(PROBES) * min(plan.run.probes, limit or size.items) if asked_again else 0
        requests = round((min(limit or size.items, size.items) + probed) * size.requests)
        prompt = requests * tokens(size.prompt_chars)
        parts.append(Supposed(requests, prompt, requests * VERDICT_TOKENS))
    return parts


def asked_of(plan: Plan, panel: Panel, identity: Mapping[str, Any], work: Work, journal: Path) -> NewRequests:
    """What a judge will be asked of some work, with the questions that follow from verdicts on file."""
    on_file = OnFile(panel.name, panel.model, identity, journal)
    asyncio.run(verdicts_on_file(work, on_file, panel))
    return counted("judges", panel.name, plan.answering(panel.name), on_file, 0, VERDICT_TOKENS)


async def verdicts_on_file(work: Work, on_file: OnFile, panel: Panel) -> None:
    """Ask every question of the journal, then what follows from its verdicts."""
    while work:
        judgements = []
        for loaded, case in work:
            for question in questions_of(loaded.rubric, case):
                try:
                    judgements += await judge_case(loaded, case, question, on_file, panel)
                except NotOnFile:
                    continue
        work = follow_ups(work, judgements)


# together -------------------------------------------------------------------------------------------------------------


def tokens(chars: float) -> float:
    """Characters as tokens."""
    return chars / CHARS_A_TOKEN


def mean_answer(on_file: OnFile, loadeds: Sequence[LoadedCard]) -> float:
    """Tokens of an answer: the mean of those on file, else what such answers were measured to take."""
    journals = [on_file.journal.answers, *on_file.journal.answers.others]
    entries = (entry for answers in journals for entry in answers.values())
    known = [entry.completion_tokens for entry in entries if entry.completion_tokens]
    if known:
        return sum(known) / len(known)
    measured = [sizes().get((loaded.card.benchmark, loaded.card.task, "")) for loaded in loadeds]
    chars = [size.answer_chars for size in measured if size]
    return tokens(sum(chars) / len(chars)) if chars else 150.0


def counted(stage: str, asker: str, model: str, on_file: OnFile, later: int, answer: float) -> NewRequests:
    """What is not on file. later: requests that nobody can word yet."""
    lengths = list(on_file.lacking.values())
    requests = len(lengths) + later
    prompt = tokens(sum(lengths) / len(lengths)) if lengths else 0.0
    return NewRequests(stage, asker, model, requests, requests * prompt, requests * answer, exact=True)


def supposed(stage: str, asker: str, model: str, parts: Sequence[Supposed | NewRequests]) -> NewRequests:
    """Several tasks of one job together; unknown where one of them is."""
    known = [part.requests for part in parts if part.requests is not None]
    return NewRequests(
        stage,
        asker,
        model,
        sum(known) if len(known) == len(parts) else None,
        sum(part.prompt_tokens for part in parts),
        sum(part.answer_tokens for part in parts),
    )


def summed(stage: str, asker: str, model: str, parts: Sequence[NewRequests]) -> NewRequests:
    """Several pieces of work of one job together; counted where all of them are."""
    return supposed(stage, asker, model, parts)._replace(exact=all(part.exact for part in parts))


COUNTS: dict[str, Callable[..., NewRequests | None]] = {
    "generate_replies": new_replies,
    "generate_shard": new_replies,
    "generate_all_replies": all_new_replies,
    "judge_replies": new_verdicts,
    "judge_all_replies": all_new_verdicts,
    "judge_labelled": new_labelled,
}


def new_requests(plan: Plan, rule: str, names: Mapping[str, str], remade: Container[str]) -> NewRequests | None:
    """What a planned job will ask, by its rule and wildcards; None for one that asks nobody, or cannot be counted.

    remade: files that jobs before it will write anew.
    """
    count = COUNTS.get(rule.removesuffix("_locally"))
    return count(plan, **names, remade=remade) if count is not None else None
