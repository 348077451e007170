"""Run a judge's jobs: send all questions concurrently to one server, unless the journal contains their answers."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import HostedModel, JudgeModel, VllmModel
from maieutic.config.prompts import Messages
from maieutic.config.rubrics import LoadedRubric, read_rubric
from maieutic.core.errors import UserError
from maieutic.core.journal import REPEAT, FinishedRequest, Journal, unparsed_path
from maieutic.core.progress import Progress
from maieutic.core.records import Judgement, Verdict, write_records
from maieutic.core.shutdown import run_with_grace
from maieutic.core.states import is_missing_answer, missing_reason
from maieutic.judges.answers import parse_verdicts
from maieutic.judges.questions import (
    Case,
    Question,
    leads_to_follow_up,
    question_messages,
    questions_about,
    resolve_verdict,
    response_format,
)
from maieutic.replies.generate import CONVERSATIONS_PER_REQUEST, ModelRequests, run_concurrently, run_watched
from maieutic.serving.backends import JobFiles, backend_of
from maieutic.serving.pictures import with_pictures

log = logging.getLogger(__name__)
PREFIX_BLOCK = 256  # characters in a block: about sixty tokens, or a few blocks of a server's prefix cache
MAX_RAW_CHARACTERS = 20_000  # maximum number of characters of an answer in the results; the journal keeps it whole
JudgeWork = list[tuple[LoadedRubric, Case]]


FIRST_VERDICTS = 100  # minimum number of verdicts by one rubric before missing verdicts can stop a job
STOP_ABOVE = 0.5  # default share of missing verdicts above which a job stops


class JudgeSettings(NamedTuple):
    """Settings of a judge's jobs: its name and configuration, the model that answers, and the sampling seed.

    stop_above: share of missing verdicts by one rubric above which a job stops; asks_failed: ask once more about
    requests that failed in an earlier run.
    """

    name: str
    judge: JudgeModel
    model: VllmModel | HostedModel
    seed: int
    stop_above: float = STOP_ABOVE
    asks_failed: bool = False


class MissingVerdictMonitor:
    """Counter of missing verdicts by rubric, which stops a job if too many answers cannot be parsed."""

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.verdicts: Counter[str] = Counter()
        self.reasons: dict[str, Counter[str]] = defaultdict(Counter)

    def count_verdicts(self, loaded: LoadedRubric, judgements: Sequence[Judgement]) -> None:
        """Count the verdicts on one question. Raises UserError if too many verdicts by its rubric are missing."""
        verdicts = [verdict for record in judgements for verdict in record.verdicts]
        self.verdicts[loaded.name] += len(verdicts)
        reasons = self.reasons[loaded.name]
        reasons.update(verdict.why_none or "" for verdict in verdicts if verdict.value is None)
        seen, missing = self.verdicts[loaded.name], reasons.total()
        if seen < FIRST_VERDICTS or missing <= self.settings.stop_above * seen:
            return
        [(why, times)] = reasons.most_common(1)
        raise UserError(
            self.settings.name,
            f"{missing} of the first {seen} verdicts by {loaded.name} cannot be parsed, and answers so far are kept; "
            f"the most frequent reason ({times} times) is: {why}",
            self.likely_fix(loaded, why),
        )

    def likely_fix(self, loaded: LoadedRubric, why: str) -> str:
        """Return the most likely fix for a frequent reason of missing verdicts."""
        if loaded.rubric.answer == "json" and not self.settings.model.structured:
            return (
                f"set structured: true on models.{self.settings.judge.model} if its server supports JSON schemas, or "
                "choose a rubric with another form of answer"
            )
        if "cut" in why or "length" in why:
            return f"raise models.{self.settings.name}.max_tokens"
        return (
            "ask these again (`maieutic forget --missing unparsed`), choose another rubric or model, or "
            f"set models.{self.settings.name}.max_unreadable above this share of missing verdicts"
        )


def as_single_message(messages: Messages) -> Messages:
    """Return the messages as a single user message, for a raw completion."""
    return [{"role": "user", "content": "\n\n".join(message["content"] for message in messages)}]


def judge_request(loaded: LoadedRubric, case: Case, question: Question, settings: JudgeSettings) -> dict[str, Any]:
    """Return the request for one question, with the field names of OpenAI's API."""
    rubric, model = loaded.rubric, settings.model
    # Without `repeats`, a repeated question is a probe of the judge's consistency, which keeps the seed.
    seed_offset = case.repeat if settings.judge.repeats > 1 else 0
    endpoint = model.endpoint or "chat"
    pictures = bool(model.images) and endpoint != "completions"
    messages = question_messages(loaded, case, question, pictures)
    apart = endpoint != "completions" and model.prompt_role != "user"  # some chat templates reject system messages
    prompt = messages if apart else as_single_message(messages)
    max_tokens = settings.judge.max_tokens
    bound = max_tokens + model.thinking_tokens if max_tokens else model.token_limit(rubric.max_tokens)
    return {
        "endpoint": endpoint,
        "messages": with_pictures(prompt, list(case.images)) if pictures else prompt,
        "temperature": rubric.temperature,
        "max_tokens": bound,
        "stop": [],
        **({REPEAT: case.repeat} if case.repeat else {}),  # REPEAT is part of the request key, but is not sent
        **({"seed": settings.seed + seed_offset} if rubric.temperature or seed_offset else {}),
        **(
            {"response_format": response_format(rubric, question, settings.judge.reasons)}
            if rubric.answer == "json" and model.structured
            else {}
        ),
    }


def verdicts_of_entry(loaded: LoadedRubric, question: Question, entry: FinishedRequest) -> list[Verdict]:
    """Return the verdicts of an answer. They are missing if the server permanently refused the question."""
    if entry.error:
        why = missing_reason(entry.error)
        return [Verdict(criterion=name, value=None, why_none=why) for name in question.criteria or [None]]
    verdicts = parse_verdicts(loaded.rubric, question.criteria, entry.text, entry.finish)
    return [
        verdict.model_copy(update={"value": resolve_verdict(loaded.rubric, question, verdict.value)})
        if verdict.value is not None
        else verdict
        for verdict in verdicts
    ]


async def judge_case(
    loaded: LoadedRubric, case: Case, question: Question, job: ModelRequests, settings: JudgeSettings
) -> list[Judgement]:
    """Ask a question, then ask again about criteria that the answer omits. The rubric's `asks` limits the requests."""
    judgements: list[Judgement] = []
    left = question
    for attempt in range(1, loaded.rubric.asks + 1):
        entry = await job.ask(judge_request(loaded, case, left, settings))
        verdicts = verdicts_of_entry(loaded, left, entry)
        missing = [
            verdict.criterion for verdict in verdicts if verdict.value is None and verdict.criterion in left.criteria
        ]
        # If nothing could be parsed, do not ask again, since the same question would get the same answer.
        again = attempt < loaded.rubric.asks and 0 < len(missing) < len(left.criteria)
        kept = [verdict for verdict in verdicts if not again or verdict.criterion not in missing]
        judgements.append(judgement_record(loaded, case, left, entry, kept))
        if not again:
            break
        left = Question({name: left.criteria[name] for name in missing if name}, left.order)
    return judgements


def judgement_record(
    loaded: LoadedRubric, case: Case, question: Question, entry: FinishedRequest, verdicts: list[Verdict]
) -> Judgement:
    """Return the judgement of one question, with its answer and usage."""
    cut = entry.text if len(entry.text) <= MAX_RAW_CHARACTERS else f"[...] {entry.text[-MAX_RAW_CHARACTERS:]}"
    return Judgement(
        id=case.id,
        task=case.task,
        tutor=case.tutor,
        rubric=loaded.name,
        order=question.order,
        key=entry.key,
        verdicts=verdicts,
        raw=cut,
        prompt_tokens=entry.prompt_tokens,
        completion_tokens=entry.completion_tokens,
        cached_tokens=entry.cached_tokens,
        seconds=entry.seconds,
        batched=entry.batched,
    )


async def judge_all(work: JudgeWork, job: ModelRequests, settings: JudgeSettings) -> list[Judgement]:
    """Ask all questions, then follow-up questions; return judgements in the work's order, and record the usage."""
    unparsed_path(job.journal.path).unlink(missing_ok=True)
    try:
        judgements = await ask_questions(work, job, settings)
        return [
            *judgements,
            *(await ask_questions(more, job, settings) if (more := follow_up_work(work, judgements)) else []),
        ]
    finally:
        job.record_usage()


def follow_up_work(work: JudgeWork, judgements: Sequence[Judgement]) -> JudgeWork:
    """Return the cases whose verdicts lead to a follow-up question, each with the rubric of that question."""
    by_case: dict[tuple[str, ...], list[Judgement]] = defaultdict(list)
    for record in judgements:
        by_case[record.rubric, record.task, record.id, str(record.tutor)].append(record)
    cases: JudgeWork = []
    for loaded, case in work:
        more, records = loaded.rubric.follow_up, by_case[loaded.name, case.task, case.id, str(case.tutor)]
        if more and leads_to_follow_up(loaded.rubric, records):
            cases.append((read_rubric(more.rubric), case._replace(criteria={})))
    return cases


def prefix_sort_key(messages: Messages) -> bytes:
    """Return a sort key by which messages with a common beginning are neighbours: a digest of each block of text.

    Requests with a common beginning then reach a server's prefix cache before the beginning is evicted.
    """
    text = "\0".join(f"{message['role']}\0{message['content']}" for message in messages)
    blocks = (
        text[place : place + PREFIX_BLOCK].encode("utf-8", "replace") for place in range(0, len(text), PREFIX_BLOCK)
    )
    return b"".join(hashlib.blake2b(block, digest_size=4).digest() for block in blocks)


async def ask_questions(work: JudgeWork, job: ModelRequests, settings: JudgeSettings) -> list[Judgement]:
    """Ask all questions concurrently, sorted by their prompts; return the judgements in the order of the work.

    Raises UserError if some questions remain unanswered.
    """
    from maieutic.serving.client import Unanswered

    questions = [(loaded, case, question) for loaded, case in work for question in questions_about(loaded.rubric, case)]
    order = sorted(range(len(questions)), key=lambda number: prefix_sort_key(question_messages(*questions[number])))
    progress, watch = Progress(settings.name, len(questions)), MissingVerdictMonitor(settings)
    by_number: dict[int, list[Judgement]] = {}

    async def ask_one(number: int, loaded: LoadedRubric, case: Case, question: Question) -> None:
        requests = job.requests
        try:
            by_number[number] = await judge_case(loaded, case, question, job, settings)
        except Unanswered as error:
            progress.fail(str(error), error.later, error.sent)
            return
        fresh = job.requests > requests
        note_unparsed(job.journal.path, by_number[number])
        tokens = sum(part.completion_tokens or 0 for part in by_number[number])
        progress.step(known=not fresh, tokens=tokens if fresh else 0)
        watch.count_verdicts(loaded, by_number[number])

    coroutines = (ask_one(number, *questions[number]) for number in order)
    under_way = min(CONVERSATIONS_PER_REQUEST * job.backend.most_in_flight, len(questions))
    await run_watched(coroutines, job.backend.check, under_way, job.model.grace)
    progress.log_line()
    job.check_unanswered(progress, "questions")
    return [part for number in range(len(questions)) for part in by_number[number]]


def note_unparsed(journal: Path, judgements: Iterable[Judgement]) -> None:
    """List the answers that could not be read beside the journal, so that `maieutic forget` finds them at any time."""
    keys = [
        record.key
        for record in judgements
        if any(verdict.value is None and not is_missing_answer(verdict.why_none) for verdict in record.verdicts)
    ]
    if keys:
        with open(unparsed_path(journal), "a", encoding="utf-8") as handle:
            handle.write("".join(f"{key}\n" for key in keys))


def missing_reasons(judgements: Sequence[Judgement]) -> Counter[str]:
    """Count the reasons for missing verdicts."""
    verdicts = (verdict for record in judgements for verdict in record.verdicts)
    return Counter(verdict.why_none or "" for verdict in verdicts if verdict.value is None)


def run_judge(settings: JudgeSettings, work: JudgeWork, files: JobFiles, out: Path) -> None:
    """Run one judge's job, and write a Judgement for each question to `out`."""
    run_judges([(settings, work, files.journal, out)], files)


def run_judges(parts: Sequence[tuple[JudgeSettings, JudgeWork, Path, Path]], files: JobFiles) -> None:
    """Write the judgements of several pieces of work, which run concurrently against one server.

    parts: judge, work, journal and output of each piece; files: the job's other files.
    """
    settings = parts[0][0]
    with ExitStack() as stack:
        backend, identity = backend_of(settings.name, settings.model, files)
        works = []
        for part_panel, work, path, _ in parts:
            journal = stack.enter_context(Journal(path, FinishedRequest))
            asking = ModelRequests(
                settings.name, settings.model, identity, journal, backend, files.pictures, settings.judge.model,
                settings.asks_failed,
            )  # fmt: skip
            works.append(judge_all(work, asking, part_panel))
        outcomes = run_with_grace(run_concurrently(works, backend), settings.model.grace)
    for (_, _, _, out), judgements in zip(parts, outcomes, strict=True):
        for why, number in missing_reasons(judgements).most_common(5):
            log.warning("%s: %d missing verdict(s): %s", settings.name, number, why)
        if recovered := sum(judgement.recovered for judgement in judgements):
            log.warning("%s: %d verdict(s) were parsed from repaired JSON", settings.name, recovered)
        write_records(out, judgements)
