"""New requests of a run's planned jobs. A request is new if its answer is not on file.

If the files that a job reads exist and the run keeps them, its requests are looked up in the journals one by one. If
not, they are estimated from the card's number of items and the measured size of its requests (resources/sizes.csv).
"""

from __future__ import annotations

import asyncio
import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import Card, LoadedCard
from maieutic.config.models import BaselineModel, HostedModel, VllmModel
from maieutic.config.rubrics import chosen_rubrics, read_rubric
from maieutic.core import paths
from maieutic.core.records import Grade, Reply, read_items, read_records
from maieutic.judges import stage as judges_stage
from maieutic.judges.assignments import work_on_labels, work_on_pairs, work_on_replies
from maieutic.judges.judging import JudgeSettings, JudgeWork, follow_up_work, judge_case
from maieutic.judges.probes import PROBES, work_on_probes
from maieutic.judges.questions import questions_about
from maieutic.launch.answers_on_file import (
    AnswersOnFile,
    NotOnFile,
    count_later_turns,
    entries_on_file,
    request_identity,
)
from maieutic.launch.lengths import (
    ASSUMED_ANSWER_CHARS,
    NOTHING,
    AmountRange,
    answer_span,
    known,
    total_of,
    verdict_span,
)
from maieutic.launch.snakemake_compat import LOCAL_TWIN, Job, asks_model
from maieutic.plan import inputs
from maieutic.plan.plan import Plan
from maieutic.plan.rules import RulePlan
from maieutic.plan.slice_plan import PlannedRequests
from maieutic.replies import stage as replies_stage
from maieutic.replies.generate import RequestLimits, Shard
from maieutic.replies.reader import UnreadReply, doubts_of, reader_request
from maieutic.serving.budget import CHARS_A_TOKEN

SIZES_FILE = paths.RESOURCES / "sizes.csv"


READINGS = "readings"  # stage of the reader's requests, whose estimate is the number of replies that it may read
READING_CHARS, READING_TOKENS = 1500.0, 40.0  # of a request to the reader, with a reply, and of its answer


class NewRequests(NamedTuple):
    """Requests that one job will send.

    stage: `tutors`, `judges`, or `checks` (of judges on labelled replies); asker: name of the tutor or judge; model:
    registry entry that answers; requests: number of requests, None if unknown; prompt_tokens, answer_tokens: estimated
    sums over all requests, answers without thinking; exact: True if every request was looked up, False if some were
    estimated; answered: True if answers on file may settle estimated requests, so that the job may send none;
    in_batches: number of further requests that are in a batch already.
    """

    stage: str
    asker: str
    model: str
    requests: int | None
    prompt_tokens: float = 0.0
    answer_tokens: AmountRange = NOTHING
    exact: bool = False
    answered: bool = False
    in_batches: int = 0


def about(parts: Iterable[NewRequests]) -> str:
    """Return the words in front of a total number of requests; "" if every request was looked up."""
    estimated = [part for part in parts if not part.exact and part.requests != 0]
    if not estimated:
        return ""
    if all(part.stage == READINGS for part in estimated):
        return "at most "
    return "at most about " if all(part.answered for part in estimated) else "about "


class EstimatedRequests(NamedTuple):
    """Estimate for a part of a job whose input files do not exist yet. The fields are the same as in NewRequests.

    least: number of requests that the part needs in any case.
    """

    requests: int | None
    prompt_tokens: float = 0.0
    answer_tokens: AmountRange = NOTHING
    least: int = 0


class RequestSize(NamedTuple):
    """Size of a task's requests, measured on the published data or the demo data.

    items: number of items; requests: number of requests per item; prompt_chars, answer_chars: mean numbers of
    characters of a request and of the human reference; criteria: mean number of criteria in a judge's question.
    """

    items: int
    requests: float
    prompt_chars: float
    answer_chars: float
    criteria: float


@cache
def measured_sizes(path: Path = SIZES_FILE) -> dict[tuple[str, str, str], RequestSize]:
    """Return the measured sizes by benchmark, task and rubric. The rubric is "" for requests to a tutor."""
    with open(path, encoding="utf-8", newline="") as handle:
        return {
            (row["benchmark"], row["task"], row["rubric"]): RequestSize(
                int(row["items"]),
                *(float(row[name]) for name in ("requests", "prompt_chars", "answer_chars", "criteria")),
            )
            for row in csv.DictReader(handle)
        }


class ResultFiles:
    """Files of the results that a run's jobs will read, as far as they exist already.

    An existing file that a planned job will write anew belongs to another run or to older code.
    """

    def __init__(self, jobs: Iterable[Job], made: Mapping[str, Path] | None = None) -> None:
        """jobs: planned jobs; made: files that were made for the count alone, by the path that the run will use."""
        self.rewritten, self.made = {str(file) for job in jobs for file in job.output}, dict(made or {})
        # Counts of requests to tutors without answers on file, by the settings that the requests depend on.
        self.counts_by_settings: dict[tuple[Any, ...], NewRequests] = {}

    def find(self, file: str) -> Path | None:
        """Return the path of a file that the run keeps, or that was made for the count; else None."""
        if file in self.made:
            return self.made[file]
        return Path(file) if file not in self.rewritten and Path(file).is_file() else None

    def folder(self, files: Sequence[str]) -> Path | None:
        """Return the folder of files that lie together; None if any of them does not exist yet."""
        known = [path for file in files if (path := self.find(file)) is not None]
        return known[0].parent if known and len(known) == len(files) else None


# tutors ---------------------------------------------------------------------------------------------------------------


def new_replies(
    plan: RulePlan, files: ResultFiles, benchmark: str, tutor: str, shard: str | None = None
) -> NewRequests:
    """Count a tutor's requests on a benchmark, or on one shard of it. The tutor is a hosted or served model."""
    model = plan.models[tutor]
    assert isinstance(model, VllmModel | HostedModel)
    identity = request_identity(model, replies_stage.tutor_weights(plan, tutor))
    loaded_cards = plan.cards_for(benchmark, tutor)
    names = {"benchmark": benchmark, "tutor": tutor}
    if shard:
        job = replies_stage.generate_shard_job(plan, **names, shard=shard)
        journal = Path(paths.SHARD_JOURNAL.of(**names, shard=shard))
    else:
        job = replies_stage.generate_replies_job(plan, **names)
        journal = Path(paths.REPLY_JOURNAL.of(**names))
    others = job.journals(journal)
    items = files.folder(inputs.item_files(benchmark, job.tasks))
    if identity is None or items is None:
        parts = [estimated_replies(plan, loaded, model.repeats) for loaded in loaded_cards]
        whole = shard_share(estimated_total("tutors", tutor, tutor, parts), job.shard)
        return with_answers(whole, parts, [journal, *others], job.shard.parts)
    on_file = AnswersOnFile(tutor, model, identity, journal, others)

    def counted() -> NewRequests:
        limits = RequestLimits(job.max_tokens, job.seed)
        later = asyncio.run(count_later_turns(job.work(items), on_file, limits))
        return unanswered_requests("tutors", tutor, tutor, on_file, later, mean_answer_tokens(on_file, loaded_cards))

    if on_file.has_answers:
        return counted()
    # Tutors without any answer on file get the same requests if their settings are the same: count them only once.
    alike = (
        benchmark, *job.tasks, job.protocol, job.shard, job.max_tokens, type(model), model.endpoint, model.prompt_role,
        model.user_last, model.max_tokens, model.thinking_tokens, model.repeats,
    )  # fmt: skip
    if alike not in files.counts_by_settings:
        files.counts_by_settings[alike] = counted()
    return files.counts_by_settings[alike]._replace(asker=tutor, model=tutor)


def shard_share(whole: NewRequests, shard: Shard) -> NewRequests:
    """Return one shard's share of the estimated requests of a whole benchmark."""
    return whole._replace(
        requests=None if whole.requests is None else len(range(shard.number - 1, whole.requests, shard.parts)),
        prompt_tokens=whole.prompt_tokens / shard.parts,
        answer_tokens=whole.answer_tokens.times(1 / shard.parts),
    )


def estimated_replies(plan: Plan, loaded: LoadedCard, repeats: int) -> EstimatedRequests:
    """Estimate the requests that a tutor gets for a task. repeats: number of answers to each item."""
    card = loaded.card
    size = measured_sizes().get((card.benchmark, card.task, ""))
    items = plan.item_count(card)
    if items is None:
        return EstimatedRequests(None)
    turns = size.requests if size else len(loaded.templates)
    prompt, answer = (size.prompt_chars, size.answer_chars) if size else (2000.0, ASSUMED_ANSWER_CHARS)
    requests = round(items * turns) * repeats
    tokens = answer_span(card.benchmark, card.task, answer).times(requests)
    return EstimatedRequests(requests, requests * tokens_of_chars(prompt), tokens, least_items(plan, card) * repeats)


def least_items(plan: Plan, card: Card) -> int:
    """Return the number of a task's items if it is exact, else 0."""
    known = plan.item_count(card)
    is_exact = known == plan.run.limit or (plan.edition == "published" and card.items is not None)
    return known if known is not None and is_exact else 0


# judges ---------------------------------------------------------------------------------------------------------------


def panel_of(plan: Plan, judge: str) -> JudgeSettings:
    """Return the settings of a judge's jobs: its entry, the model that answers for it, and the random seed."""
    entry, model = plan.judge_entry(judge), plan.models[plan.answering_entry(judge)]
    assert isinstance(model, VllmModel | HostedModel)
    return JudgeSettings(judge, entry, model, plan.run.seed)


def new_verdicts(plan: RulePlan, files: ResultFiles, judge: str, benchmark: str, batch: str) -> NewRequests:
    """Count a judge's requests about the replies of a batch of tutors; estimate them if replies are not on file."""
    settings, cards = panel_of(plan, judge), plan.judge_cards(benchmark, judge)
    identity = request_identity(settings.model, judges_stage.answering_weights(plan, judge))
    items = files.folder(inputs.item_files(benchmark, [card.task for card in cards]))
    journal = Path(paths.VERDICT_JOURNAL.of(judge=judge, benchmark=benchmark, batch=batch))
    on_disk: list[Path] = []
    unknown = []
    for tutor in plan.judge_batches(benchmark)[batch]:
        replies = files.find(paths.REPLIES.of(benchmark=benchmark, tutor=tutor))
        if replies is None or identity is None or items is None:
            unknown += [estimated_verdicts(plan, judge, card, tutor) for card in cards]
        else:
            on_disk.append(replies)
    model = plan.answering_entry(judge)
    parts = [part for part in unknown if part]
    guessed = with_answers(estimated_total("judges", judge, model, parts), parts, [journal])
    if not on_disk or identity is None or items is None:
        return guessed
    counted = count_verdict_requests(
        plan, settings, identity, work_on_replies(settings.judge, cards, items, on_disk), journal
    )
    return total_requests("judges", judge, model, [counted, guessed]) if unknown else counted


def estimated_verdicts(plan: Plan, judge: str, card: Card, tutor: str) -> EstimatedRequests | None:
    """Estimate a judge's requests about a tutor's replies to a task; None if the tutor does not answer the task."""
    if not plan.is_answered_by(card, tutor):
        return None
    [rubric, *_] = chosen_rubrics(plan.judge_entry(judge).rubrics, card.rubrics)
    size, items = measured_sizes().get((card.benchmark, card.task, rubric)), plan.item_count(card)
    if items is None:
        return EstimatedRequests(None)
    answers = max(getattr(plan.models.get(tutor), "repeats", 1), plan.judge_entry(judge).repeats)
    requests = items * answers * (size.requests if size else questions_per_reply(rubric))
    prompt = tokens_of_chars(size.prompt_chars if size else 4000.0)
    # A rubric with fewer requests than replies judges only some replies.
    least = least_items(plan, card) * answers if size and size.requests >= 1 else 0
    verdicts = verdict_span(size.criteria if size else 1.0, plan.judge_entry(judge).reasons)
    return EstimatedRequests(round(requests), requests * prompt, verdicts.times(requests), least)


def questions_per_reply(name: str) -> float:
    """Return the number of questions about a reply by a rubric whose requests were not measured."""
    rubric = read_rubric(name).rubric
    return (len(rubric.criteria) if rubric.separate else 1) * (2 if rubric.both_orders else 1)


def new_label_checks(plan: RulePlan, files: ResultFiles, judge: str) -> NewRequests:
    """Count a judge's requests about labelled replies and preference pairs."""
    settings = panel_of(plan, judge)
    identity = request_identity(settings.model, judges_stage.answering_weights(plan, judge))
    releases, sources = plan.judged_releases(judge), plan.preferences if settings.judge.pairs else []
    folders = [files.folder(inputs.label_files([release])) for release in releases]
    pairs = [files.find(paths.PAIRS.of(source=source)) for source in sources]
    journal = Path(paths.LABELLED_JOURNAL.of(judge=judge))
    if identity is None or None in folders or None in pairs:
        estimated = estimated_label_checks(plan, judge)
        whole = estimated_total("checks", judge, plan.answering_entry(judge), estimated)
        return with_answers(whole, estimated, [journal])
    limit, labelled = plan.label_limit(judge), [folder for folder in folders if folder is not None]
    work = work_on_labels(settings.judge, labelled, limit, plan.run.seed)
    for path in pairs:
        work += work_on_pairs(settings.judge, path, limit, plan.run.seed)
    probed = [folder for folder in labelled if folder.name in plan.validating_releases(judge)]
    work += work_on_probes(settings.judge, probed, plan.run.probes, limit, plan.run.seed)
    return count_verdict_requests(plan, settings, identity, work, journal)._replace(stage="checks")


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
        parts.append(EstimatedRequests(requests, prompt, verdict_span(size.criteria, entry.reasons).times(requests)))
    return parts


def count_verdict_requests(
    plan: Plan, settings: JudgeSettings, identity: Mapping[str, Any], work: JudgeWork, journal: Path
) -> NewRequests:
    """Count a judge's new requests for some work, including follow-up questions about verdicts on file."""
    on_file = AnswersOnFile(settings.name, settings.model, identity, journal)
    asyncio.run(verdicts_on_file(work, on_file, settings))
    criteria = [len(question.criteria) for loaded, case in work for question in questions_about(loaded.rubric, case)]
    verdicts = verdict_span(sum(criteria) / len(criteria) if criteria else 1.0, settings.judge.reasons)
    return unanswered_requests("judges", settings.name, plan.answering_entry(settings.name), on_file, 0, verdicts)


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


def new_readings(plan: RulePlan, files: ResultFiles, reader: str, benchmark: str, tutor: str) -> NewRequests:
    """Count the requests to the run's reader about one tutor's replies; at most all that it may read if not known."""
    model, tasks = plan.models[reader], plan.tasks_for(benchmark, tutor)
    assert isinstance(model, VllmModel | HostedModel)
    identity = request_identity(model, replies_stage.reader_weights(plan, reader))
    names = {"benchmark": benchmark, "tutor": tutor}
    items = files.folder(inputs.item_files(benchmark, tasks))
    replies, grades = (files.find(pattern.of(**names)) for pattern in (paths.REPLIES, paths.PARSED))
    if identity is None or items is None or replies is None or grades is None:
        cards = [plan.card(benchmark, task) for task in replies_stage.readable_tasks(plan, benchmark, tutor)]
        counts = [plan.item_count(card) for card in cards]
        total = None if None in counts else sum(filter(None, counts)) * getattr(plan.models[tutor], "repeats", 1)
        tokens = (total or 0) * tokens_of_chars(READING_CHARS), known((total or 0) * READING_TOKENS)
        return NewRequests(READINGS, reader, reader, total, *tokens, answered=True)
    journal = Path(paths.READER_JOURNAL.of(reader=reader, **names))
    on_file = AnswersOnFile(reader, model, identity, journal)
    doubts = doubts_of(read_records(grades, Grade), read_items(items, tasks), read_records(replies, Reply))
    asyncio.run(readings_on_file(doubts, on_file))
    return unanswered_requests(READINGS, reader, reader, on_file, 0, known(READING_TOKENS))


async def readings_on_file(doubts: Sequence[UnreadReply], on_file: AnswersOnFile) -> None:
    """Look up the reader's answers about replies that the rules did not understand."""
    for doubt in doubts:
        with suppress(NotOnFile):
            await on_file.ask(reader_request(doubt, on_file.model))


# totals ---------------------------------------------------------------------------------------------------------------


def tokens_of_chars(chars: float) -> float:
    """Return the estimated number of tokens in a text with the given number of characters."""
    return chars / CHARS_A_TOKEN


def mean_answer_tokens(on_file: AnswersOnFile, loaded_cards: Sequence[LoadedCard]) -> AmountRange:
    """Return the mean number of tokens per answer, from answers on file or else from the lengths of known replies."""
    journals = [on_file.journal.answers, *on_file.journal.answers.others]
    entries = (entry for answers in journals for entry in answers.values())
    written = [entry.completion_tokens for entry in entries if entry.completion_tokens]
    if written:
        return known(sum(written) / len(written))
    names = [(loaded.card.benchmark, loaded.card.task) for loaded in loaded_cards]
    sizes = {name: size for name in names if (size := measured_sizes().get((*name, "")))}
    spans = [answer_span(*name, sizes[name].answer_chars if name in sizes else ASSUMED_ANSWER_CHARS) for name in names]
    return total_of(spans).times(1 / len(spans)) if spans else known(tokens_of_chars(ASSUMED_ANSWER_CHARS))


def unanswered_requests(
    stage: str, asker: str, model: str, on_file: AnswersOnFile, later: int, answer: AmountRange
) -> NewRequests:
    """Count the requests without an answer on file, and estimate their tokens.

    later: number of requests that depend on missing answers, and may not be sent if a conversation ends early; answer:
    estimated number of tokens per answer.
    """
    lengths = list(on_file.unanswered_lengths.values())
    requests = len(lengths) + later
    similar = lengths or list(on_file.asked_in_batches.values())
    prompt = tokens_of_chars(sum(similar) / len(similar)) if similar else 0.0
    sent = len(on_file.asked_in_batches)
    tokens = (requests * prompt, answer.times(requests))
    return NewRequests(stage, asker, model, requests, *tokens, exact=not later, in_batches=sent)


def estimated_total(
    stage: str, asker: str, model: str, parts: Sequence[EstimatedRequests | NewRequests]
) -> NewRequests:
    """Add up the parts of one job as an estimate. The number of requests is None if that of any part is None."""
    counted = [part.requests for part in parts if part.requests is not None]
    return NewRequests(
        stage,
        asker,
        model,
        sum(counted) if len(counted) == len(parts) else None,
        sum(part.prompt_tokens for part in parts),
        total_of([part.answer_tokens for part in parts]),
    )


def with_answers(
    whole: NewRequests, parts: Iterable[EstimatedRequests], journals: Iterable[Path], shards: int = 1
) -> NewRequests:
    """Return an estimate with `answered` set: True if answers are on file, and as many as are needed in any case.

    With fewer answers, some of the requests are certainly new, whatever their prompts are. parts: parts of the
    estimate; shards: number of jobs that share the parts.
    """
    on_file = entries_on_file(journals)
    return whole._replace(answered=on_file > 0 and on_file >= sum(part.least for part in parts) // shards)


def total_requests(stage: str, asker: str, model: str, parts: Sequence[NewRequests]) -> NewRequests:
    """Add up the parts of one job; the sum is exact if every part is exact."""
    estimated = [part for part in parts if not part.exact]
    return estimated_total(stage, asker, model, parts)._replace(
        exact=not estimated,
        # A part that is looked up and has requests makes the job call the model in any case.
        answered=bool(estimated) and all(part.answered if not part.exact else not part.requests for part in parts),
        in_batches=sum(part.in_batches for part in parts),
    )


# jobs -----------------------------------------------------------------------------------------------------------------

REQUEST_COUNTERS: dict[str, Callable[..., NewRequests]] = {
    "generate_replies": new_replies,
    "generate_shard": new_replies,
    "judge_replies": new_verdicts,
    "judge_labelled": new_label_checks,
    "ask_reader": new_readings,
}
STAGES = ("tutors", READINGS, "judges", "checks")  # further stages follow in the order of their names


def new_requests(plan: RulePlan, jobs: Sequence[Job], made: Mapping[str, Path] | None = None) -> list[NewRequests]:
    """Count the new requests of planned jobs, by stage. A job whose requests cannot be counted has `requests` None.

    made: files that were made for the count alone, by the path that the run will use.
    """
    files, of_slices = ResultFiles(jobs, made), defaultdict[tuple[str, frozenset[Any]], list[PlannedRequests]](list)
    for part in (part for slice_plan in plan.slices for part in slice_plan.requests(plan)):
        of_slices[part.rule, frozenset(part.names.items())].append(part)
    counted: list[NewRequests] = []
    for job in (job for job in jobs if asks_model(job)):
        rule, names = str(job.rule.name).removesuffix(LOCAL_TWIN), dict(job.wildcards.items())
        models = plan.models_of(job.wildcards)
        if rule in REQUEST_COUNTERS:
            if not isinstance(plan.models[models[0]], BaselineModel):
                counted.append(REQUEST_COUNTERS[rule](plan, files, **names))
        elif parts := of_slices[rule, frozenset(names.items())]:
            counted += [
                NewRequests(
                    part.stage, part.model, part.model, part.requests, part.prompt_tokens, known(part.answer_tokens)
                )
                for part in parts
            ]
        else:
            counted.append(NewRequests("others", " + ".join(models), models[0], None))
    return in_order(plan, counted)


def in_order(plan: Plan, parts: Iterable[NewRequests]) -> list[NewRequests]:
    """Return counts by stage, then in the order of the run file's tutors and judges, then by name."""
    places = {name: place for place, name in enumerate([*plan.run.tutors, *plan.run.judges])}
    stages = {name: place for place, name in enumerate(STAGES)}

    def place(part: NewRequests) -> tuple[Any, ...]:
        stage = stages.get(part.stage, len(stages))
        return stage, part.stage, places.get(part.asker, len(places)), part.asker

    return sorted(parts, key=place)


def models_to_call(planned: Sequence[NewRequests]) -> set[str]:
    """Return the models to which planned jobs will send requests."""
    return {
        part.model for part in planned if part.in_batches or not ((part.exact and part.requests == 0) or part.answered)
    }


def models_perhaps_called(planned: Sequence[NewRequests]) -> set[str]:
    """Return the models that planned jobs call only if an answer is not on file, which is not known beforehand."""
    return {part.model for part in planned if part.answered} - models_to_call(planned)
