"""New requests of each job of a run. A request is new if its answer is not on file.

If a task's items exist, its new requests are counted by looking up every request in the journals. If not, they are
estimated from the card's number of items and the measured size of the task's requests (resources/sizes.csv).
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
from maieutic.config.rubrics import chosen_rubrics, read_rubric
from maieutic.core import paths
from maieutic.judges import stage as judges_stage
from maieutic.judges.assignments import work_on_labels, work_on_pairs, work_on_replies
from maieutic.judges.judging import JudgeSettings, JudgeWork, follow_up_work, judge_case
from maieutic.judges.probes import PROBES, work_on_probes
from maieutic.judges.questions import questions_about
from maieutic.launch.rehearsal import AnswersOnFile, NotOnFile, Rehearsal, request_identity, run_conversations_on_file
from maieutic.plan.plan import Plan
from maieutic.replies import stage as replies_stage
from maieutic.replies.generate import GenerateReplies, RequestLimits, Shard
from maieutic.serving.budget import CHARS_A_TOKEN

ASSUMED_ANSWER_CHARS = 600.0  # typical length of an answer to a task whose answers were not measured
VERDICT_TOKENS = 120  # typical number of tokens in a judge's answer that includes reasons
SIZES_FILE = paths.RESOURCES / "sizes.csv"


class NewRequests(NamedTuple):
    """Requests that one job will send.

    stage: `tutors`, `judges`, or `checks` (of judges on labelled replies); asker: name of the tutor or judge; model:
    registry entry that answers; requests: number of requests, None if unknown; prompt_tokens, answer_tokens: estimated
    sums over all requests; exact: True if the requests were counted, False if they were estimated; in_batches: number
    of further requests that are in a batch already.
    """

    stage: str
    asker: str
    model: str
    requests: int | None
    prompt_tokens: float = 0.0
    answer_tokens: float = 0.0
    exact: bool = False
    in_batches: int = 0


class EstimatedRequests(NamedTuple):
    """Estimate for a part of a job whose input files do not exist yet. The fields are the same as in NewRequests."""

    requests: int | None
    prompt_tokens: float = 0.0
    answer_tokens: float = 0.0


class RequestSize(NamedTuple):
    """Size of a task's requests, measured on the published data or the demo data.

    items: number of items; requests: number of requests per item; prompt_chars, answer_chars: mean numbers of
    characters per request.
    """

    items: int
    requests: float
    prompt_chars: float
    answer_chars: float


@cache
def measured_sizes(path: Path = SIZES_FILE) -> dict[tuple[str, str, str], RequestSize]:
    """Return the measured sizes by benchmark, task and rubric. The rubric is "" for requests to a tutor."""
    with open(path, encoding="utf-8", newline="") as handle:
        return {
            (row["benchmark"], row["task"], row["rubric"]): RequestSize(
                int(row["items"]), *(float(row[name]) for name in ("requests", "prompt_chars", "answer_chars"))
            )
            for row in csv.DictReader(handle)
        }


# tutors ---------------------------------------------------------------------------------------------------------------


def new_replies(plan: Plan, benchmark: str, tutor: str, rehearsal: Rehearsal, shard: str | None = None) -> NewRequests:
    """Count a tutor's requests on a benchmark, or on one shard of it. The tutor is a hosted or served model."""
    model = plan.models[tutor]
    assert isinstance(model, VllmModel | HostedModel)
    identity = request_identity(model, replies_stage.tutor_weights(plan, tutor))
    loaded_cards = plan.cards_for(benchmark, tutor)
    job = (
        replies_stage.generate_shard_job(plan, benchmark, tutor, shard)
        if shard
        else replies_stage.generate_replies_job(plan, benchmark, tutor)
    )
    items = rehearsal.items(benchmark, job.tasks)
    if identity is None or items is None:
        whole = estimated_total(
            "tutors", tutor, tutor, [estimated_replies(plan, loaded, model.repeats) for loaded in loaded_cards]
        )
        return shard_share(whole, job.shard)
    names = {"benchmark": benchmark, "tutor": tutor}
    journal = Path(paths.SHARD_JOURNAL.of(**names, shard=shard) if shard else paths.REPLY_JOURNAL.of(**names))
    on_file = AnswersOnFile(tutor, model, identity, journal, job.journals(journal))
    if on_file.has_answers:
        later = count_later_turns(job, items, on_file)
        return unanswered_requests("tutors", tutor, tutor, on_file, later, mean_answer_tokens(on_file, loaded_cards))
    # Tutors without any answer on file get the same requests if their settings are the same: count them only once.
    alike = (
        benchmark, *job.tasks, job.protocol, job.shard, job.max_tokens, type(model), model.endpoint, model.prompt_role,
        model.user_last, model.max_tokens, model.thinking_tokens, model.repeats,
    )  # fmt: skip
    if alike not in rehearsal.counts_by_settings:
        later = count_later_turns(job, items, on_file)
        rehearsal.counts_by_settings[alike] = unanswered_requests(
            "tutors", tutor, tutor, on_file, later, mean_answer_tokens(on_file, loaded_cards)
        )
    return rehearsal.counts_by_settings[alike]._replace(asker=tutor, model=tutor)


def count_later_turns(job: GenerateReplies, items: Path, on_file: AnswersOnFile) -> int:
    """Return the number of turns that cannot be rendered yet, because they follow a turn without an answer on file."""
    _, later = asyncio.run(run_conversations_on_file(job.work(items), on_file, RequestLimits(job.max_tokens, job.seed)))
    return later


def shard_share(whole: NewRequests, shard: Shard) -> NewRequests:
    """Return one shard's share of the estimated requests of a whole benchmark."""
    return whole._replace(
        requests=None if whole.requests is None else len(range(shard.number - 1, whole.requests, shard.parts)),
        prompt_tokens=whole.prompt_tokens / shard.parts,
        answer_tokens=whole.answer_tokens / shard.parts,
    )


def all_new_replies(plan: Plan, tutor: str, rehearsal: Rehearsal) -> NewRequests:
    """Count a tutor's requests on all benchmarks, for a job that sends them all."""
    return total_requests(
        "tutors", tutor, tutor, [new_replies(plan, name, tutor, rehearsal) for name in plan.benchmarks]
    )


def estimated_replies(plan: Plan, loaded: LoadedCard, repeats: int) -> EstimatedRequests:
    """Estimate the requests that a tutor gets for a task. repeats: number of answers to each item."""
    card = loaded.card
    size = measured_sizes().get((card.benchmark, card.task, ""))
    items = item_count_of(plan, card)
    if items is None:
        return EstimatedRequests(None)
    turns = size.requests if size else len(loaded.templates)
    prompt, answer = (size.prompt_chars, size.answer_chars) if size else (2000.0, ASSUMED_ANSWER_CHARS)
    requests = round(items * turns) * repeats
    return EstimatedRequests(requests, requests * tokens_of_chars(prompt), requests * tokens_of_chars(answer))


def item_count_of(plan: Plan, card: Card) -> int | None:
    """Return the number of a task's items in this run, from the card or the registry; None if neither states it."""
    dataset = plan.datasets[card.dataset]
    published = card.items or dataset.published.records
    items = published
    if plan.edition == "demo" and dataset.demo is not None:
        records, known = dataset.demo.records, dataset.published.records
        items = round(records * published / known) if records and known and published else records
    return min(filter(None, (plan.run.limit, items)), default=None)


# judges ---------------------------------------------------------------------------------------------------------------


def panel_of(plan: Plan, judge: str) -> JudgeSettings:
    """Return the settings of a judge's jobs: its entry, the model that answers for it, and the random seed."""
    entry, model = plan.judge_entry(judge), plan.models[plan.answering_entry(judge)]
    assert isinstance(model, VllmModel | HostedModel)
    return JudgeSettings(judge, entry, model, plan.run.seed)


def new_verdicts(plan: Plan, judge: str, benchmark: str, batch: str, rehearsal: Rehearsal) -> NewRequests:
    """Count a judge's requests about the replies of a batch of tutors; estimate them if replies are not on file."""
    settings, cards = panel_of(plan, judge), plan.judge_cards(benchmark, judge)
    identity = request_identity(settings.model, judges_stage.answering_weights(plan, judge))
    items = rehearsal.items(benchmark, [card.task for card in cards])
    on_disk: list[Path] = []
    unknown = []
    for tutor in plan.judge_batches(benchmark)[batch]:
        replies = rehearsal.replies(benchmark, tutor) if identity is not None and items is not None else None
        if replies is None:
            unknown += [estimated_verdicts(plan, judge, card, tutor) for card in cards]
        else:
            on_disk.append(replies)
    guessed = estimated_total("judges", judge, plan.answering_entry(judge), [part for part in unknown if part])
    if not on_disk or identity is None or items is None:
        return guessed
    work = work_on_replies(settings.judge, cards, items, on_disk)
    journal = paths.VERDICT_JOURNAL.of(judge=judge, benchmark=benchmark, batch=batch)
    known = count_verdict_requests(plan, settings, identity, work, Path(journal))
    return total_requests("judges", judge, plan.answering_entry(judge), [known, guessed]) if unknown else known


def all_new_verdicts(plan: Plan, judge: str, batch: str, rehearsal: Rehearsal) -> NewRequests:
    """Count a judge's requests about a batch of tutors on all benchmarks, for a job that sends them all."""
    parts = [new_verdicts(plan, judge, name, batch, rehearsal) for name in plan.benchmarks_of_batch(judge, batch)]
    return total_requests("judges", judge, plan.answering_entry(judge), parts)


def estimated_verdicts(plan: Plan, judge: str, card: Card, tutor: str) -> EstimatedRequests | None:
    """Estimate a judge's requests about a tutor's replies to a task; None if the tutor does not answer the task."""
    if not plan.is_answered_by(card, tutor):
        return None
    [rubric, *_] = chosen_rubrics(plan.judge_entry(judge).rubrics, card.rubrics)
    size, items = measured_sizes().get((card.benchmark, card.task, rubric)), item_count_of(plan, card)
    if items is None:
        return EstimatedRequests(None)
    answers = max(getattr(plan.models.get(tutor), "repeats", 1), plan.judge_entry(judge).repeats)
    requests = items * answers * (size.requests if size else questions_per_reply(rubric))
    prompt = tokens_of_chars(size.prompt_chars if size else 4000.0)
    return EstimatedRequests(round(requests), requests * prompt, requests * VERDICT_TOKENS)


def questions_per_reply(name: str) -> float:
    """Return the number of questions about a reply by a rubric whose requests were not measured."""
    rubric = read_rubric(name).rubric
    return (len(rubric.criteria) if rubric.separate else 1) * (2 if rubric.both_orders else 1)


def new_label_checks(plan: Plan, judge: str, rehearsal: Rehearsal) -> NewRequests:
    """Count a judge's requests about labelled replies and preference pairs."""
    settings = panel_of(plan, judge)
    identity = request_identity(settings.model, judges_stage.answering_weights(plan, judge))
    releases = plan.judged_releases(judge)
    folders = rehearsal.all_or_none(rehearsal.labels(release) for release in releases)
    sources = plan.preferences if settings.judge.pairs else []
    pairs = rehearsal.all_or_none(rehearsal.pairs(source) for source in sources)
    if identity is None or folders is None or pairs is None:
        return estimated_total("checks", judge, plan.answering_entry(judge), estimated_label_checks(plan, judge))
    limit = plan.label_limit(judge)
    work = work_on_labels(settings.judge, folders, limit, plan.run.seed)
    for path in pairs:
        work += work_on_pairs(settings.judge, path, limit, plan.run.seed)
    probed = [folder for folder in folders if folder.name in plan.validating_releases(judge)]
    work += work_on_probes(settings.judge, probed, plan.run.probes, limit, plan.run.seed)
    return count_verdict_requests(
        plan, settings, identity, work, Path(paths.LABELLED_JOURNAL.of(judge=judge))
    )._replace(stage="checks")


def estimated_label_checks(plan: Plan, judge: str) -> list[EstimatedRequests]:
    """Estimate a judge's requests about labelled replies and preference pairs whose files do not exist yet."""
    entry, limit = plan.judge_entry(judge), plan.label_limit(judge)
    keys = [
        ("labels", release, rubric.name)
        for release in plan.judged_releases(judge)
        if (rubric := plan.rubric_for_release(judge, release)) is not None
    ]
    keys += [("pairs", source, name) for source in plan.preferences for name in entry.pairs]
    parts = []
    for key in keys:
        size = measured_sizes().get(key)
        if size is None:
            parts.append(EstimatedRequests(None))
            continue
        has_probes = key[0] == "labels" and key[1] in plan.validating_releases(judge)
        probed = len(PROBES) * min(plan.run.probes, limit or size.items) if has_probes else 0
        requests = round((min(limit or size.items, size.items) + probed) * size.requests)
        prompt = requests * tokens_of_chars(size.prompt_chars)
        parts.append(EstimatedRequests(requests, prompt, requests * VERDICT_TOKENS))
    return parts


def count_verdict_requests(
    plan: Plan, settings: JudgeSettings, identity: Mapping[str, Any], work: JudgeWork, journal: Path
) -> NewRequests:
    """Count a judge's new requests for some work, including follow-up questions about verdicts on file."""
    on_file = AnswersOnFile(settings.name, settings.model, identity, journal)
    asyncio.run(verdicts_on_file(work, on_file, settings))
    return unanswered_requests("judges", settings.name, plan.answering_entry(settings.name), on_file, 0, VERDICT_TOKENS)


async def verdicts_on_file(work: JudgeWork, on_file: AnswersOnFile, settings: JudgeSettings) -> None:
    """Look up the answers to a judge's questions, then the answers to the follow-up questions about its verdicts."""
    while work:
        judgements = []
        for loaded, case in work:
            for question in questions_about(loaded.rubric, case):
                try:
                    judgements += await judge_case(loaded, case, question, on_file, settings)
                except NotOnFile:
                    continue
        work = follow_up_work(work, judgements)


# totals ---------------------------------------------------------------------------------------------------------------


def tokens_of_chars(chars: float) -> float:
    """Return the estimated number of tokens in a text with the given number of characters."""
    return chars / CHARS_A_TOKEN


def mean_answer_tokens(on_file: AnswersOnFile, loaded_cards: Sequence[LoadedCard]) -> float:
    """Return the mean number of tokens per answer, from answers on file or else from the tasks' measured sizes."""
    journals = [on_file.journal.answers, *on_file.journal.answers.others]
    entries = (entry for answers in journals for entry in answers.values())
    known = [entry.completion_tokens for entry in entries if entry.completion_tokens]
    if known:
        return sum(known) / len(known)
    measured = [measured_sizes().get((loaded.card.benchmark, loaded.card.task, "")) for loaded in loaded_cards]
    chars = [size.answer_chars for size in measured if size]
    return tokens_of_chars(sum(chars) / len(chars)) if chars else 150.0


def unanswered_requests(
    stage: str, asker: str, model: str, on_file: AnswersOnFile, later: int, answer: float
) -> NewRequests:
    """Count the requests without an answer on file, and estimate their tokens.

    later: number of requests that depend on missing answers; answer: estimated number of tokens per answer.
    """
    lengths = list(on_file.unanswered_lengths.values())
    requests = len(lengths) + later
    similar = lengths or list(on_file.asked_in_batches.values())
    prompt = tokens_of_chars(sum(similar) / len(similar)) if similar else 0.0
    sent = len(on_file.asked_in_batches)
    return NewRequests(stage, asker, model, requests, requests * prompt, requests * answer, True, sent)


def estimated_total(
    stage: str, asker: str, model: str, parts: Sequence[EstimatedRequests | NewRequests]
) -> NewRequests:
    """Add up the parts of one job as an estimate. The number of requests is None if that of any part is None."""
    known = [part.requests for part in parts if part.requests is not None]
    return NewRequests(
        stage,
        asker,
        model,
        sum(known) if len(known) == len(parts) else None,
        sum(part.prompt_tokens for part in parts),
        sum(part.answer_tokens for part in parts),
    )


def total_requests(stage: str, asker: str, model: str, parts: Sequence[NewRequests]) -> NewRequests:
    """Add up the parts of one job; the sum is exact if every part is exact."""
    exact, in_batches = all(part.exact for part in parts), sum(part.in_batches for part in parts)
    return estimated_total(stage, asker, model, parts)._replace(exact=exact, in_batches=in_batches)


JobNames = Mapping[str, str]  # values of a job's wildcards, by name
REQUEST_COUNTERS: dict[str, Callable[..., NewRequests]] = {
    "generate_replies": new_replies,
    "generate_shard": new_replies,
    "generate_all_replies": all_new_replies,
    "judge_replies": new_verdicts,
    "judge_all_replies": all_new_verdicts,
    "judge_labelled": new_label_checks,
}


def countable_jobs(plan: Plan) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rule and wildcards of every job that calls a model and has countable requests, by stage."""
    for benchmark in plan.benchmarks:
        for tutor in (name for name in plan.tutors_on(benchmark) if name in plan.with_engine("vllm", "hosted")):
            names = {"benchmark": benchmark, "tutor": tutor}
            if shards := plan.shards_of(tutor):
                yield from (("generate_shard", {**names, "shard": shard}) for shard in shards)
            elif tutor not in plan.packed_tutors:
                yield "generate_replies", names
    packed = (tutor for tutor in plan.packed_tutors if tutor in plan.run.tutors)
    yield from (("generate_all_replies", {"tutor": tutor}) for tutor in packed)
    for judge in (name for name in plan.judges_of_replies if name in plan.judges_with_model):
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
    for judge in plan.judges_with_model:
        if plan.judged_releases(judge) or plan.judge_entry(judge).pairs:
            yield "judge_labelled", {"judge": judge}


def new_requests(
    plan: Plan, rehearsal: Rehearsal, planned: Collection[tuple[str, JobNames]] | None = None
) -> list[NewRequests]:
    """Count the new requests of a run by job. planned: rule and wildcards of the jobs to count; all jobs if None."""
    chosen = None if planned is None else {(rule, frozenset(names.items())) for rule, names in planned}
    counted = [
        REQUEST_COUNTERS[rule](plan, **names, rehearsal=rehearsal)
        for rule, names in countable_jobs(plan)
        if chosen is None or (rule, frozenset(names.items())) in chosen
    ]
    estimated = [
        NewRequests(part.stage, part.model, part.model, part.requests, part.prompt_tokens, part.answer_tokens)
        for slice_plan in plan.slices
        for part in slice_plan.requests(plan)
        if chosen is None or (part.rule, frozenset(part.names.items())) in chosen
    ]
    return [*counted, *estimated]
