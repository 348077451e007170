"""`maieutic live`: the page of a run while its jobs work, with the latest replies and what the parsers read in them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from maieutic.config.models import HostedModel, VllmModel
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.journal import FinishedRequest, request_key
from maieutic.core.parent_process import tie_to_parent
from maieutic.core.progress import LONGEST_ANSWER, MOST_ANSWERS, LatestAnswer, LiveRun, read_progress, write_unsynced
from maieutic.core.records import Grade, Item, Reply, Turn
from maieutic.core.secrets import redact
from maieutic.core.visible import visible_text
from maieutic.graders.lexicon import ENGLISH
from maieutic.graders.registry import GRADERS
from maieutic.launch.answers_on_file import AnswersOnFile, NotOnFile, discard_prompt, request_identity
from maieutic.plan.rules import RulePlan
from maieutic.replies import stage as replies_stage
from maieutic.replies.generate import RequestLimits, TutorWork, converse, turn_count
from maieutic.replies.parsing import grades_of
from maieutic.run_plan import unchecked_plan

SECONDS = 2.0  # time between two versions of the page, in seconds
POLL_SECONDS = 0.2  # time between two looks whether the run has ended, in seconds
LOW_PRIORITY = 19
REPLY_RULE = "generate_replies"  # folder of the progress files of tutors that answer a whole benchmark
LONGEST_QUESTION = 600  # characters of an item that the page shows
SAME_CHARS = 40  # letters and digits by whose equality two variables of an item are the same text
NOT_PARSED = "graded later by a reward model or judge"
NOT_LOOKED_UP = "not parsed here: a turn of a conversation, or a request whose item is not known"
CUT = "not parsed here: only the beginning of the reply is shown"


class LatestQuestion(NamedTuple):
    """Item of a request, and the parsers and the language of its task."""

    item: Item
    graders: list[str]
    language: str

    @property
    def text(self) -> str:
        """The variables of the prompt, each text once, up to LONGEST_QUESTION characters."""
        texts: dict[str, str] = {}
        for text in self.item.vars.values():
            texts.setdefault("".join(filter(str.isalnum, text))[:SAME_CHARS], text)
        return "\n".join(filter(None, texts.values()))[:LONGEST_QUESTION]


class ShownAnswer(NamedTuple):
    """An answer as the page shows it. reading: what the task's parsers read in it; is_unread: True if nothing."""

    seconds: float
    model: str
    place: str
    question: str
    text: str
    reading: str
    is_unread: bool

    @property
    def time(self) -> str:
        """Time of day."""
        return time.strftime("%H:%M:%S", time.localtime(self.seconds))


class FirstRequests(AnswersOnFile):
    """A model that is never called. Its requests end with their key."""

    def __init__(self, name: str, model: VllmModel | HostedModel, identity: dict[str, Any]) -> None:
        super().__init__(name, model, identity, Path(os.devnull))

    async def ask(self, request: dict[str, Any]) -> FinishedRequest:
        """Raise NotOnFile with the key of a request."""
        raise NotOnFile(request_key(request, self.identity))


async def items_by_key(
    work: TutorWork, model: FirstRequests, limits: RequestLimits, languages: Mapping[str, str]
) -> dict[str, LatestQuestion]:
    """Map the request key of each item of a task with one turn to its question.

    languages: languages of the tasks other than English.
    """
    questions = {}
    for loaded, item in work:
        if turn_count(loaded, item) > 1:
            continue
        try:
            await converse(loaded, item, model, limits, discard_prompt)
        except NotOnFile as error:
            graders = [name for name in loaded.card.graders if name in GRADERS]
            questions[error.key] = LatestQuestion(item, graders, languages.get(item.task, ENGLISH))
    return questions


class LatestAnswers:
    """The latest answers of a run's jobs, with what is asked and what the parsers read."""

    def __init__(self, plan: RulePlan) -> None:
        self.plan = plan
        self.questions: dict[tuple[str, str], dict[str, LatestQuestion]] = {}

    def questions_of(self, benchmark: str, tutor: str) -> dict[str, LatestQuestion]:
        """Map the request keys of a tutor's job on a benchmark to their questions. They are computed once."""
        if (benchmark, tutor) not in self.questions:
            self.questions[benchmark, tutor] = self.compute_keys(benchmark, tutor)
        return self.questions[benchmark, tutor]

    def compute_keys(self, benchmark: str, tutor: str) -> dict[str, LatestQuestion]:
        """Compute the questions of a tutor's job by request key; empty if the model's weights are not prepared."""
        model = self.plan.models[tutor]
        if not isinstance(model, VllmModel | HostedModel):
            return {}
        identity = request_identity(model, replies_stage.tutor_weights(self.plan, tutor))
        job = replies_stage.generate_replies_job(self.plan, benchmark, tutor)
        items = Path(paths.ITEMS.of(benchmark=benchmark, task="any")).parent
        if identity is None:
            return {}
        limits = RequestLimits(job.max_tokens, job.seed)
        languages = replies_stage.parse_replies_job(self.plan, benchmark, tutor).languages
        return asyncio.run(items_by_key(job.work(items), FirstRequests(tutor, model, identity), limits, languages))

    def read(self) -> tuple[list[ShownAnswer], list[ShownAnswer]]:
        """Return the latest replies and the latest answers of all other models, newest first."""
        replies, others = list[ShownAnswer](), list[ShownAnswer]()
        for path in Path(paths.PROGRESS).rglob("*.json"):
            if (progress := read_progress(path)) is None:
                continue
            rule, *names = path.relative_to(paths.PROGRESS).with_suffix("").parts
            model = progress.work[-1].title if progress.work else names[-1]
            if rule == REPLY_RULE and len(names) == 2:
                replies += [self.reply(answer, *names) for answer in progress.latest]
            else:
                place = " ".join([rule, *names])
                others += [as_shown(answer, model, place, "", "", False) for answer in progress.latest]
        return newest(replies), newest(others)

    def reply(self, answer: LatestAnswer, benchmark: str, tutor: str) -> ShownAnswer:
        """Return a tutor's answer with its item and reading, or without them if its key is not among the questions."""
        if (question := self.questions_of(benchmark, tutor).get(answer.key)) is None:
            return as_shown(answer, tutor, benchmark, "", NOT_LOOKED_UP, False)
        place = f"{benchmark} {question.item.task} {question.item.id}"
        reading, is_unread = reading_of(question, answer, tutor)
        return as_shown(answer, tutor, place, question.text, reading, is_unread)


def newest(answers: list[ShownAnswer]) -> list[ShownAnswer]:
    """Return the MOST_ANSWERS latest answers, newest first."""
    return sorted(answers, key=lambda answer: -answer.seconds)[:MOST_ANSWERS]


def as_shown(answer: LatestAnswer, model: str, place: str, question: str, reading: str, is_unread: bool) -> ShownAnswer:
    """Return an answer as the page shows it. One without a text shows the error."""
    text = f"no answer: {answer.error}" if answer.error is not None else answer.text
    return ShownAnswer(answer.time, model, place, question, redact(text), reading, is_unread)


def reading_of(question: LatestQuestion, answer: LatestAnswer, tutor: str) -> tuple[str, bool]:
    """Return what the parsers of a task read in a reply under `robust`, and True if that is nothing."""
    if answer.error is not None:
        return "missing", False
    if len(answer.text) >= LONGEST_ANSWER:  # the end, where a final answer stands, may be missing
        return CUT, False
    turn = Turn.model_construct(text=answer.text, messages="")
    item = question.item
    reply = Reply.model_construct(id=item.id, task=item.task, tutor=tutor, key=answer.key, turns=[turn], error=None)
    grades = [
        grade
        for name in question.graders
        for grade in grades_of(name, item, reply, question.language)
        if grade.scoring == "robust"
    ]
    if not grades:
        return NOT_PARSED, False
    return "; ".join(map(grade_text, grades)), all(grade.value is None for grade in grades)


def grade_text(grade: Grade) -> str:
    """Return a grade as text, such as `answer: 12, right`."""
    title = grade.criterion or grade.kind
    if grade.value is None:
        return f"{title}: not read ({grade.why_none})"
    verdict = "" if grade.correct is None else ", right" if grade.correct else ", wrong"
    return f"{title}: {grade.value}{verdict}"


def read_state() -> LiveRun | None:
    """Return the state of the run; None before the run has written it."""
    try:
        return LiveRun.model_validate_json(Path(paths.LIVE_STATE).read_bytes())
    except (OSError, ValidationError):
        return None


def wait_for_news(seconds: float) -> None:
    """Wait for `seconds`, or until the run has ended: its process waits for the last version of the page."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not ((state := read_state()) and state.ended):
        time.sleep(POLL_SECONDS)


def live(
    *,
    config: Path = Path(paths.RUN_CONFIG),
    out: Path = Path(paths.LIVE_PAGE),
) -> None:
    """Write the live page of the run in progress until the run ends. A run with new requests starts this by itself.

    Args:
        config: configuration of the run in progress
        out: page to write

    Raises UserError if no run has written its configuration.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    if not config.is_file():
        raise UserError(str(config), "expected the configuration of a run in progress, found no file", "start a run")
    tie_to_parent()
    os.nice(LOW_PRIORITY)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible_text(value) if isinstance(value, str) else value,
    )
    template = environment.get_template("live.html.jinja")
    latest = LatestAnswers(unchecked_plan(yaml.safe_load(config.read_text(encoding="utf-8"))))
    before = ""
    while True:
        state = read_state()
        replies, verdicts = latest.read()
        page = os.path.relpath(state.page, out.parent) if state and state.page else None
        at = time.strftime("%H:%M:%S", time.localtime(state.time)) if state else ""
        text = template.render(state=state, at=at, replies=replies, verdicts=verdicts, page=page, seconds=SECONDS)
        if text != before:
            write_unsynced(out, text)
            before = text
        if state is not None and state.ended:
            return
        wait_for_news(SECONDS)
