"""One judge's job: every question of every case at once against one server, none twice that the journal holds."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.models import HostedModel, JudgeModel, VllmModel
from maieutic.config.prompts import Messages
from maieutic.core.ending import run_to_the_end
from maieutic.core.errors import UserError
from maieutic.core.journal import REPEAT, Entry, Journal
from maieutic.core.progress import Progress
from maieutic.core.records import Judgement, Verdict, write_records
from maieutic.judges.answers import read_answer
from maieutic.judges.questions import (
    Case,
    Question,
    asks_further,
    form_of,
    in_own_terms,
    messages_of,
    questions_of,
)
from maieutic.judges.rubrics import LoadedRubric, read_rubric
from maieutic.replies.generate import UNDER_WAY, Asking, together, watched
from maieutic.serving.backends import JobFiles, backend_of
from maieutic.serving.pictures import with_pictures

log = logging.getLogger(__name__)
BLOCK = 256  # characters: some sixty tokens, a few blocks of a server's cache
LONGEST_RAW = 20_000  # characters of an answer that the results keep; the journal has all of it
Work = list[tuple[LoadedRubric, Case]]


FIRST_VERDICTS = 100  # by one rubric, after which a judge that cannot be read is stopped
STOP_ABOVE = 0.5  # share of unreadable verdicts: nothing that a further thousand would mend


class Panel(NamedTuple):
    """A judge as its jobs get it: its entry, the model that answers, the seed of drawn answers.

    stop_above: the share of unreadable verdicts by one rubric above which its job stops.
    """

    name: str
    judge: JudgeModel
    model: VllmModel | HostedModel
    seed: int
    stop_above: float = STOP_ABOVE


class Watch:
    """Counts what can be read of a judge by rubric, and stops a job whose answers cannot be."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.verdicts: Counter[str] = Counter()
        self.reasons: dict[str, Counter[str]] = defaultdict(Counter)

    def see(self, loaded: LoadedRubric, judgements: Sequence[Judgement]) -> None:
        """Count the answers to one question. Raises UserError where too many verdicts by its rubric were unreadable."""
        verdicts = [verdict for record in judgements for verdict in record.verdicts]
        self.verdicts[loaded.name] += len(verdicts)
        reasons = self.reasons[loaded.name]
        reasons.update(verdict.why_none or "" for verdict in verdicts if verdict.value is None)
        seen, unread = self.verdicts[loaded.name], reasons.total()
        if seen < FIRST_VERDICTS or unread <= self.panel.stop_above * seen:
            return
        [(why, times)] = reasons.most_common(1)
        raise UserError(
            self.panel.name,
            f"{unread} of the first {seen} verdicts by {loaded.name} cannot be read, {times} of them: {why}",
            f"{self.mend_of(loaded, why)}. What was answered is kept",
        )

    def mend_of(self, loaded: LoadedRubric, why: str) -> str:
        """What most likely helps."""
        if loaded.rubric.answer == "json" and not self.panel.model.structured:
            return (
                f"set structured: true on models.{self.panel.judge.model} if its server decodes by a JSON schema, or "
                "name a rubric with another form of answer"
            )
        if "cut" in why or "length" in why:
            return f"raise models.{self.panel.name}.max_tokens"
        return f"name another rubric or model, or set models.{self.panel.name}.max_unreadable above this share"


def merged_roles(messages: Messages) -> Messages:
    """One user message, for a raw completion."""
    return [{"role": "user", "content": "\n\n".join(message["content"] for message in messages)}]


def request_of(loaded: LoadedRubric, case: Case, question: Question, panel: Panel) -> dict[str, Any]:
    """Everything that is asked, in the SDK's own names."""
    rubric, model = loaded.rubric, panel.model
    endpoint = model.endpoint or "chat"
    pictures = bool(model.images) and endpoint != "completions"
    messages = messages_of(loaded, case, question, pictures)
    apart = endpoint != "completions" and model.prompt_role != "user"  # some chat templates take no system message
    prompt = messages if apart else merged_roles(messages)
    own = panel.judge.max_tokens
    bound = own + model.thinking_tokens if own else model.bound(rubric.max_tokens)
    return {
        "endpoint": endpoint,
        "messages": with_pictures(prompt, list(case.images)) if pictures else prompt,
        "temperature": rubric.temperature,
        "max_tokens": bound,
        "stop": [],
        **({REPEAT: case.repeat} if case.repeat else {}),  # in the journal's key, and not sent
        **({"seed": panel.seed} if rubric.temperature else {}),
        **(
            {"response_format": form_of(rubric, question, panel.judge.reasons)}
            if rubric.answer == "json" and model.structured
            else {}
        ),
    }


def verdicts_of(loaded: LoadedRubric, question: Question, entry: Entry) -> list[Verdict]:
    """What the answer says. A question that the server refused for good has no verdict."""
    if entry.error:
        why = f"refused: {entry.error}"
        return [Verdict(criterion=name, value=None, why_none=why) for name in question.criteria or [None]]
    read = read_answer(loaded.rubric, question.criteria, entry.text, entry.finish)
    return [
        verdict.model_copy(update={"value": in_own_terms(loaded.rubric, question, verdict.value)})
        if verdict.value is not None
        else verdict
        for verdict in read
    ]


async def judge_case(
    loaded: LoadedRubric, case: Case, question: Question, job: Asking, panel: Panel
) -> list[Judgement]:
    """One question, and again for the criteria that its answer leaves out, as often as the rubric says."""
    judgements: list[Judgement] = []
    left = question
    for attempt in range(1, loaded.rubric.asks + 1):
        entry = await job.ask(request_of(loaded, case, left, panel))
        verdicts = verdicts_of(loaded, left, entry)
        missing = [
            verdict.criterion for verdict in verdicts if verdict.value is None and verdict.criterion in left.criteria
        ]
        # Where nothing could be read, the same question would have the same answer.
        again = attempt < loaded.rubric.asks and 0 < len(missing) < len(left.criteria)
        kept = [verdict for verdict in verdicts if not again or verdict.criterion not in missing]
        judgements.append(judgement(loaded, case, left, entry, kept))
        if not again:
            break
        left = Question({name: left.criteria[name] for name in missing if name}, left.order)
    return judgements


def judgement(loaded: LoadedRubric, case: Case, question: Question, entry: Entry, verdicts: list[Verdict]) -> Judgement:
    """The record of one question."""
    cut = entry.text if len(entry.text) <= LONGEST_RAW else f"[...] {entry.text[-LONGEST_RAW:]}"
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
    )


async def judge_all(work: Work, job: Asking, panel: Panel) -> list[Judgement]:
    """Every question, then what follows from the verdicts, in the order of the work; puts down what was asked."""
    try:
        judgements = await ask_all(work, job, panel)
        return [*judgements, *(await ask_all(more, job, panel) if (more := follow_ups(work, judgements)) else [])]
    finally:
        job.put_down()


def follow_ups(work: Work, judgements: Sequence[Judgement]) -> Work:
    """The cases whose verdict has a further question."""
    by_case: dict[tuple[str, ...], list[Judgement]] = defaultdict(list)
    for record in judgements:
        by_case[record.rubric, record.task, record.id, str(record.tutor)].append(record)
    cases: Work = []
    for loaded, case in work:
        more, own = loaded.rubric.follow_up, by_case[loaded.name, case.task, case.id, str(case.tutor)]
        if more and asks_further(loaded.rubric, own):
            cases.append((read_rubric(more.rubric), case._replace(criteria={})))
    return cases


def beginning(messages: Messages) -> bytes:
    """A key that sorts messages that begin alike next to each other: a short digest of each block of their text.

    So a server that caches what it has read meets a beginning again before it has to forget it.
    """
    text = "\0".join(f"{message['role']}\0{message['content']}" for message in messages)
    blocks = (text[place : place + BLOCK].encode("utf-8", "replace") for place in range(0, len(text), BLOCK))
    return b"".join(hashlib.blake2b(block, digest_size=4).digest() for block in blocks)


async def ask_all(work: Work, job: Asking, panel: Panel) -> list[Judgement]:
    """Every question at once, those that begin alike after each other; gives the judgements in the order of the work.

    Raises UserError when some stayed unanswered.
    """
    from maieutic.serving.client import Unanswered

    questions = [(loaded, case, question) for loaded, case in work for question in questions_of(loaded.rubric, case)]
    order = sorted(range(len(questions)), key=lambda number: beginning(messages_of(*questions[number])))
    progress, watch = Progress(panel.name, len(questions)), Watch(panel)
    by_number: dict[int, list[Judgement]] = {}

    async def one(number: int, loaded: LoadedRubric, case: Case, question: Question) -> None:
        asked = job.asked
        try:
            by_number[number] = await judge_case(loaded, case, question, job, panel)
        except Unanswered as error:
            progress.fail(str(error))
            return
        fresh = job.asked > asked
        tokens = sum(part.completion_tokens or 0 for part in by_number[number])
        progress.step(known=not fresh, tokens=tokens if fresh else 0)
        watch.see(loaded, by_number[number])

    coroutines = (one(number, *questions[number]) for number in order)
    await watched(coroutines, job.backend.check, UNDER_WAY * job.model.concurrency, job.model.grace)
    progress.say()
    job.check_unanswered(progress, "questions")
    return [part for number in range(len(questions)) for part in by_number[number]]


def unreadable(judgements: Sequence[Judgement]) -> Counter[str]:
    """Why verdicts could not be read, and how often."""
    verdicts = (verdict for record in judgements for verdict in record.verdicts)
    return Counter(verdict.why_none or "" for verdict in verdicts if verdict.value is None)


def run_judge(panel: Panel, work: Work, files: JobFiles, out: Path) -> None:
    """Write a Judgement for each question."""
    run_judges([(panel, work, files.journal, out)], files)


def run_judges(parts: Sequence[tuple[Panel, Work, Path, Path]], files: JobFiles) -> None:
    """Write the judgements of several pieces of work, all of them at once against one server.

    parts: the judge as a piece has it, its work, its journal, its output; files: the job's, but for the journal.
    """
    panel = parts[0][0]
    with ExitStack() as stack:
        backend, identity = backend_of(panel.name, panel.model, files)
        works = []
        for own_panel, work, path, _ in parts:
            journal = stack.enter_context(Journal(path, Entry))
            asking = Asking(panel.name, panel.model, identity, journal, backend, files.pictures, panel.judge.model)
            works.append(judge_all(work, asking, own_panel))
        outcomes = run_to_the_end(together(works, backend), panel.model.grace)
    for (_, _, _, out), judgements in zip(parts, outcomes, strict=True):
        for why, number in unreadable(judgements).most_common(5):
            log.warning("%s: %d verdict(s) without a value: %s", panel.name, number, why)
        if recovered := sum(judgement.recovered for judgement in judgements):
            log.warning("%s: %d verdict(s) from invalid JSON that was mended", panel.name, recovered)
        write_records(out, judgements)
