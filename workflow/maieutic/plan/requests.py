"""What a run will ask that is not on file: new requests by job, from the journals where items are there already.

Where they are not, by the number of items that the cards know, and what such requests were measured to hold
(resources/sizes.csv).
"""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import Card, LoadedCard
from maieutic.config.models import HostedModel, VllmModel
from maieutic.core import paths
from maieutic.judges.assignments import work_on_labels, work_on_pairs, work_on_replies
from maieutic.judges.judging import Panel, Work, follow_ups, judge_case
from maieutic.judges.probes import PROBES, work_on_probes
from maieutic.judges.questions import questions_of
from maieutic.judges.rubrics import chosen_rubrics
from maieutic.plan import inputs, jobs
from maieutic.plan.plan import Plan
from maieutic.plan.rehearsal import NotOnFile, OnFile, Rehearsal, held, identity_of
from maieutic.replies.generate import GenerateReplies, Limits, Shard

CHARS_A_TOKEN = 4.0
VERDICT_TOKENS = 120  # of a question to a judge that gives its reasons
SIZES = paths.RESOURCES / "sizes.csv"


class NewRequests(NamedTuple):
    """What one job will ask. model: the entry that answers; exact: counted, not supposed.

    stage: tutors, judges, or checks (of judges, on what people have labelled).
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


def listed(files: Any) -> list[str]:
    """An input of a rule as a list."""
    return [files] if isinstance(files, str) else list(files)


# tutors ---------------------------------------------------------------------------------------------------------------


def new_replies(plan: Plan, benchmark: str, tutor: str, rehearsal: Rehearsal, shard: str | None = None) -> NewRequests:
    """Count what one hosted or served tutor will be asked of one benchmark, or of a shard of it."""
    model = plan.models[tutor]
    assert isinstance(model, VllmModel | HostedModel)
    identity = identity_of(model, listed(inputs.generate_replies(plan, benchmark, tutor)["weights"]))
    loadeds = plan.cards_for(benchmark, tutor)
    job = jobs.generate_shard(plan, benchmark, tutor, shard) if shard else jobs.generate_replies(plan, benchmark, tutor)
    items = rehearsal.items(benchmark, job.tasks)
    if identity is None or items is None:
        whole = supposed("tutors", tutor, tutor, [supposed_replies(plan, loaded) for loaded in loadeds])
        return share_of(whole, job.shard)
    names = {"benchmark": benchmark, "tutor": tutor}
    journal = Path(paths.SHARD_JOURNAL.of(**names, shard=shard) if shard else paths.REPLY_JOURNAL.of(**names))
    on_file = OnFile(tutor, model, identity, journal, job.journals(journal))
    if on_file.has_answers:
        later = conversed(job, items, on_file)
        return counted("tutors", tutor, tutor, on_file, later, mean_answer(on_file, loadeds))
    # Tutors that were asked nothing yet, and are asked alike, are asked the same: counted once for all of them.
    alike = (
        benchmark, *job.tasks, job.protocol, job.shard, job.max_tokens, type(model), model.endpoint, model.prompt_role,
        model.user_last, model.max_tokens, model.thinking_tokens,
    )  # fmt: skip
    if alike not in rehearsal.fresh:
        later = conversed(job, items, on_file)
        rehearsal.fresh[alike] = counted("tutors", tutor, tutor, on_file, later, mean_answer(on_file, loadeds))
    return rehearsal.fresh[alike]._replace(asker=tutor, model=tutor)


def conversed(job: GenerateReplies, items: Path, on_file: OnFile) -> int:
    """Hold a job's conversations as far as they are on file; return the number of turns that cannot be worded yet."""
    _, later = asyncio.run(held(job.work(items), on_file, Limits(job.max_tokens, job.seed)))
    return later


def share_of(whole: NewRequests, shard: Shard) -> NewRequests:
    """What of a benchmark's supposed requests falls to a shard."""
    return whole._replace(
        requests=None if whole.requests is None else len(range(shard.number - 1, whole.requests, shard.of)),
        prompt_tokens=whole.prompt_tokens / shard.of,
        answer_tokens=whole.answer_tokens / shard.of,
    )


def all_new_replies(plan: Plan, tutor: str, rehearsal: Rehearsal) -> NewRequests:
    """Count what one tutor will be asked of all benchmarks in one job."""
    return summed("tutors", tutor, tutor, [new_replies(plan, name, tutor, rehearsal) for name in plan.benchmarks])


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


def new_verdicts(plan: Plan, judge: str, benchmark: str, batch: str, rehearsal: Rehearsal) -> NewRequests:
    """Count what one judge will be asked of a batch of tutors; suppose it of those whose replies are not on file."""
    panel, cards = panel_of(plan, judge), plan.judge_cards(benchmark, judge)
    identity = identity_of(panel.model, inputs.answering_weights(plan, judge))
    items = rehearsal.items(benchmark, [card.task for card in cards])
    there: list[Path] = []
    unknown = []
    for tutor in plan.judge_batches(benchmark)[batch]:
        replies = rehearsal.replies(benchmark, tutor) if identity is not None and items is not None else None
        if replies is None:
            unknown += [supposed_verdicts(plan, judge, card, tutor) for card in cards]
        else:
            there.append(replies)
    guessed = supposed("judges", judge, plan.answering(judge), [part for part in unknown if part])
    if not there or identity is None or items is None:
        return guessed
    work = work_on_replies(panel.judge, cards, items, there)
    journal = paths.VERDICT_JOURNAL.of(judge=judge, benchmark=benchmark, batch=batch)
    known = asked_of(plan, panel, identity, work, Path(journal))
    return summed("judges", judge, plan.answering(judge), [known, guessed]) if unknown else known


def all_new_verdicts(plan: Plan, judge: str, batch: str, rehearsal: Rehearsal) -> NewRequests:
    """Count what one judge will be asked of a batch of tutors in one job for all benchmarks."""
    parts = [new_verdicts(plan, judge, name, batch, rehearsal) for name in plan.benchmarks_of_batch(judge, batch)]
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


def new_labelled(plan: Plan, judge: str, rehearsal: Rehearsal) -> NewRequests:
    """Count what one judge will be asked about what people have labelled."""
    panel = panel_of(plan, judge)
    identity = identity_of(panel.model, inputs.answering_weights(plan, judge))
    releases = plan.told_releases(judge)
    folders = rehearsal.all_of(rehearsal.labels(release) for release in releases)
    sources = plan.preferences if panel.judge.pairs else []
    pairs = rehearsal.all_of(rehearsal.pairs(source) for source in sources)
    if identity is None or folders is None or pairs is None:
        return supposed("checks", judge, plan.answering(judge), supposed_labelled(plan, judge))
    limit = plan.label_limit(judge)
    work = work_on_labels(panel.judge, folders, limit, plan.run.seed)
    for path in pairs:
        work += work_on_pairs(panel.judge, path, limit, plan.run.seed)
    probed = [folder for folder in folders if folder.name in plan.releases_for(judge)]
    work += work_on_probes(panel.judge, probed, plan.run.probes, limit, plan.run.seed)
    return asked_of(plan, panel, identity, work, Path(paths.LABELLED_JOURNAL.of(judge=judge)))._replace(stage="checks")


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


Names = Mapping[str, str]  # wildcards of a job
COUNTS: dict[str, Callable[..., NewRequests]] = {
    "generate_replies": new_replies,
    "generate_shard": new_replies,
    "generate_all_replies": all_new_replies,
    "judge_replies": new_verdicts,
    "judge_all_replies": all_new_verdicts,
    "judge_labelled": new_labelled,
}


def asking_jobs(plan: Plan) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield rule and wildcards of every job that asks a model, and whose requests can be counted, in their order."""
    for benchmark in plan.benchmarks:
        for tutor in (name for name in plan.tutors_on(benchmark) if name in plan.with_engine("vllm", "hosted")):
            names = {"benchmark": benchmark, "tutor": tutor}
            if shards := plan.shards_of(tutor):
                yield from (("generate_shard", {**names, "shard": shard}) for shard in shards)
            elif tutor not in plan.packed:
                yield "generate_replies", names
    yield from (("generate_all_replies", {"tutor": tutor}) for tutor in plan.packed)
    for judge in (name for name in plan.judges_of_replies if name in plan.asked_judges):
        batches = [
            (benchmark, batch)
            for benchmark in plan.judged_benchmarks(judge)
            for batch, tutors in plan.judge_batches(benchmark).items()
            if tutors
        ]
        if judge in plan.packed_judges:
            several = dict.fromkeys(batch for _, batch in batches)
            yield from (("judge_all_replies", {"judge": judge, "batch": batch}) for batch in several)
        else:
            for benchmark, batch in batches:
                yield "judge_replies", {"judge": judge, "benchmark": benchmark, "batch": batch}
    for judge in plan.asked_judges:
        if plan.told_releases(judge) or plan.judge_entry(judge).pairs:
            yield "judge_labelled", {"judge": judge}


def new_requests(
    plan: Plan, rehearsal: Rehearsal, planned: Collection[tuple[str, Names]] | None = None
) -> list[NewRequests]:
    """Count what a run will ask, a job at a time. planned: rule and wildcards of the jobs that count; None: all."""
    chosen = None if planned is None else {(rule, frozenset(names.items())) for rule, names in planned}
    return [
        COUNTS[rule](plan, **names, rehearsal=rehearsal)
        for rule, names in asking_jobs(plan)
        if chosen is None or (rule, frozenset(names.items())) in chosen
    ]
