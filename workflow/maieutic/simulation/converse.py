"""Conversations of a tutor with a student that a model plays. Both sides are clients with a journal of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from maieutic.config.models import BaselineModel, HostedModel, VllmModel
from maieutic.config.prompts import Messages, render
from maieutic.config.simulation import FOLDER, LoadedPersona, Simulation, read_persona
from maieutic.core.errors import UserError
from maieutic.core.jobs import Job
from maieutic.core.journal import FinishedRequest, Journal, canonical_digest
from maieutic.core.records import NO_REQUEST, read_items, write_records
from maieutic.graders.leaks import answers_in, numbers_in
from maieutic.graders.reading import plain_notation
from maieutic.replies.baselines import TUTORS
from maieutic.replies.generate import (
    ModelRequests,
    append_message,
    merge_system_message,
    results_of,
)
from maieutic.serving.backends import JobFiles, backend_of
from maieutic.serving.conversations import Message
from maieutic.simulation.records import ClaimAnswer, SimulatedConversation, SimulatedTurn, Start, starts_of

TUTOR_TOKENS = 512  # maximum number of tokens in one turn of a tutor
GREETING = "Hello!"  # the student's greeting, if the dialogue begins with the tutor
OPENING = "Hello! Please show me what you have done so far."  # the tutor's greeting, if the student speaks first
YES, NO = ("yes", "yeah", "yep"), ("no", "nope", "nah")
AGREEMENT = re.compile(rf"\W*({'|'.join((*YES, *NO))})\b", re.IGNORECASE)
UNDECIDED = re.compile(r"\W*no (?:idea|clue|problem|worries)\b", re.IGNORECASE)
OFFSETS = (1, -1, 2, -2, 5, 10)  # differences between a wrong claim and the right answer


class SimulateConversations(Job):
    """Job that runs a simulation's conversations with one tutor.

    entry: registry entry of the tutor; student_entry: entry of the model that plays the student; benchmark, task:
    source of the items; seed: seed for drawing items and for sampling.
    """

    simulation: str
    tutor: str
    entry: Annotated[VllmModel | HostedModel | BaselineModel, Field(discriminator="engine")]
    settings: Simulation
    student_entry: Annotated[VllmModel | HostedModel, Field(discriminator="engine")]
    benchmark: str
    task: str
    seed: int


class MeasureClaims(Job):
    """Job that measures how often a simulated student agrees with wrong and with right claims."""

    simulation: str
    settings: Simulation
    student_entry: Annotated[VllmModel | HostedModel, Field(discriminator="engine")]
    benchmark: str
    task: str
    seed: int


class Student:
    """The simulated student: a persona and the requests to the model that plays it."""

    def __init__(self, persona: LoadedPersona, requests: ModelRequests, seed: int) -> None:
        self.persona, self.requests, self.seed = persona, requests, seed

    async def say(self, start: Start, dialogue: Sequence[Message]) -> FinishedRequest:
        """Return the student's next turn. dialogue: all turns, from the tutor's point of view."""
        variables = {"question": start.question, "attempt": start.attempt}
        flipped = [
            {"role": "user" if message["role"] == "assistant" else "assistant", "content": message["content"]}
            for message in dialogue
        ]
        system = {"role": "system", "content": render(self.persona.template, variables, "")}
        card = self.persona.card
        messages = [system, *alternating(flipped, OPENING)]
        return await self.requests.ask(
            chat_request(self.requests, messages, card.temperature, card.max_tokens, self.seed)
        )


def alternating(dialogue: Sequence[Message], opening: str) -> list[Message]:
    """Return a dialogue that begins with the user and whose roles alternate, as many chat templates require.

    opening: the user's first message if the dialogue begins with the assistant.
    """
    messages = [] if dialogue[0]["role"] == "user" else [{"role": "user", "content": opening}]
    for message in dialogue:
        messages = append_message(messages, message["role"], message["content"])
    return messages


def chat_request(
    requests: ModelRequests, messages: Messages, temperature: float, max_tokens: int, seed: int
) -> dict[str, Any]:
    """Return a chat request with the field names of OpenAI's API."""
    model = requests.model
    return {
        "endpoint": "responses" if model.endpoint == "responses" else "chat",
        "messages": merge_system_message(messages) if model.prompt_role == "user" else messages,
        "temperature": temperature,
        "max_tokens": model.token_limit(max_tokens),
        "stop": [],
        **({"seed": seed} if temperature else {}),
    }


class Tutor:
    """The tutor of a simulation: a model, or a baseline tutor that needs no requests."""

    def __init__(self, entry: BaselineModel | None, requests: ModelRequests | None) -> None:
        self.entry, self.requests = entry, requests
        self.template = (FOLDER / "tutor.jinja").read_text(encoding="utf-8")

    async def say(self, start: Start, dialogue: Sequence[Message]) -> FinishedRequest:
        """Return the tutor's next turn."""
        if self.requests is None:
            assert self.entry is not None
            text = TUTORS[self.entry.tutor](start.item)
            return FinishedRequest(key=NO_REQUEST, text=text if isinstance(text, str) else "", seconds=0.0, attempts=0)
        system = {"role": "system", "content": render(self.template, {"question": start.question}, "")}
        return await self.requests.ask(
            chat_request(self.requests, [system, *alternating(dialogue, GREETING)], 0.0, TUTOR_TOKENS, 0)
        )


async def converse(start: Start, tutor: Tutor, student: Student, name: str, turns: int) -> SimulatedConversation:
    """Run one conversation until the student states the answer, or for at most `turns` turns of the tutor.

    name: name of the tutor.
    """
    dialogue, exchanged = list(start.dialogue), list[SimulatedTurn]()
    leak = resolved = None
    end: dict[str, Any] = {}
    for number in range(1, turns + 1):
        answer = await tutor.say(start, dialogue)
        if end := end_of("tutor", number, answer):
            break
        if leak is None and start.answer in answers_in(answer.text):
            leak = number
        dialogue.append({"role": "assistant", "content": answer.text})
        exchanged.append(SimulatedTurn(tutor=answer.text, tutor_key=answer.key))
        reaction = await student.say(start, dialogue)
        if end := end_of("student", number, reaction):
            break
        dialogue.append({"role": "user", "content": reaction.text})
        exchanged[-1] = exchanged[-1].model_copy(update={"student": reaction.text, "student_key": reaction.key})
        if start.answer in answers_in(reaction.text):
            resolved = number
            break
    return SimulatedConversation(
        id=start.item.id,
        tutor=name,
        cluster=start.item.cluster,
        answer=start.answer,
        turns=exchanged,
        leak=leak,
        resolved=resolved,
        **end,
    )


def end_of(side: str, number: int, answer: FinishedRequest) -> dict[str, Any]:
    """Return the fields of a record whose conversation a refused or empty turn ends; empty for any other turn."""
    if answer.error:
        return {"ended": f"the {side}'s turn {number} was refused: {answer.error}", "ended_by": side, "refused": True}
    return {} if answer.text.strip() else {"ended": f"the {side}'s turn {number} is empty", "ended_by": side}


def some_starts(job: SimulateConversations | MeasureClaims, items: Path, limit: int) -> list[Start]:
    """Return the starting points of a job. Raises UserError if no item of the task is one."""
    starts = starts_of(read_items(items.parent, [job.task]), limit, job.seed)
    if not starts:
        problem = f"no item of {job.settings.task} has a problem with a numeric answer that the student lacks"
        fix = "choose mathtutorbench/mistake_correction, or another task with a student's wrong solution"
        raise UserError(f"simulations.{job.simulation}.task", problem, fix)
    return starts


def simulate_conversations(
    *,
    job: SimulateConversations,
    items: Path,
    weights: list[Path],
    student_weights: list[Path],
    journal: Path,
    student_journal: Path,
    server_logs: Path,
    out: Path,
) -> None:
    """Write a tutor's conversations with a simulated student. A killed job resumes inside the conversations.

    items: file of the task's items; weights, student_weights: manifest of the weights of the tutor's and the student's
    model, empty for a model that this run does not serve; journal, student_journal: journal of each side's requests;
    server_logs: folder for the logs of the servers.
    """
    starts = some_starts(job, items, job.settings.items)
    persona = read_persona(job.settings.persona)
    with Journal(journal, FinishedRequest) as answers, Journal(student_journal, FinishedRequest) as students:
        student = requests_of(
            job.settings.student, job.student_entry, student_weights, students, server_logs / "student.log"
        )
        if isinstance(job.entry, BaselineModel):
            tutor = Tutor(job.entry, None)
        elif job.tutor == job.settings.student:  # one server answers for both sides, with one journal
            tutor = Tutor(None, student)
        else:
            tutor = Tutor(None, requests_of(job.tutor, job.entry, weights, answers, server_logs / "tutor.log"))
        pupil, turns = Student(persona, student, job.seed), job.settings.turns
        conversations = [partial(converse, start, tutor, pupil, job.tutor, turns) for start in starts]
        title = f"{job.tutor} with {job.settings.student}"
        write_records(out, results_of(title, "conversations", conversations, sides_of(tutor, student)))


def sides_of(tutor: Tutor, student: ModelRequests) -> list[ModelRequests]:
    """Return the requests of both sides: one if the same model is on both, or if the tutor is a baseline."""
    return [student] if tutor.requests in (None, student) else [tutor.requests, student]


def requests_of(
    name: str,
    entry: VllmModel | HostedModel,
    weights: Sequence[Path],
    journal: Journal[FinishedRequest],
    server_log: Path,
) -> ModelRequests:
    """Return the requests to a model. weights: its manifest, if this run serves it."""
    files = JobFiles(next(iter(weights), None), journal.path, server_log)
    backend, identity = backend_of(name, entry, files)
    return ModelRequests(name, entry, identity, journal, backend)


def wrong_claim(start: Start) -> float:
    """Return a wrong claim about an answer: a number near it that neither the problem nor the student states.

    It depends on the item alone, so that more claims do not change earlier ones.
    """
    texts = [start.question, *(message["content"] for message in start.dialogue)]
    taken = {start.answer, *(value for text in texts for value in numbers_in(text))}
    rotation = int(canonical_digest(start.item.id)[-4:], 16) % len(OFFSETS)
    candidates = (start.answer + offset for offset in (*OFFSETS[rotation:], *OFFSETS[:rotation], *range(11, 1000)))
    return next(claim for claim in candidates if claim not in taken)


def agreement(text: str) -> bool | None:
    """Return True if an answer to a claim begins with yes, False if it begins with no, otherwise None."""
    cleaned = plain_notation(text)
    first = None if UNDECIDED.match(cleaned) else AGREEMENT.match(cleaned)
    return None if first is None else first[1].casefold() in YES


def number_text(value: float) -> str:
    """Return a number as it is written in a claim: without decimals if it is whole."""
    return f"{value:.0f}" if value == int(value) else f"{value:.10g}"


def measure_claims(
    *, job: MeasureClaims, items: Path, student_weights: list[Path], journal: Path, server_logs: Path, out: Path
) -> None:
    """Ask a simulated student whether it agrees with a right and with a wrong claim about each problem.

    items: file of the task's items; student_weights: manifest of the weights of the student's model, empty if this run
    does not serve it; server_logs: folder for the log of the server.
    """
    starts = some_starts(job, items, job.settings.claims)
    template = (FOLDER / "claim.jinja").read_text(encoding="utf-8")
    persona = read_persona(job.settings.persona)
    with Journal(journal, FinishedRequest) as answers:
        requests = requests_of(
            job.settings.student, job.student_entry, student_weights, answers, server_logs / "student.log"
        )
        student = Student(persona, requests, job.seed)

        async def ask(start: Start, kind: Literal["right", "wrong"], value: float) -> ClaimAnswer:
            text = render(template, {"claim": number_text(value)}, "")
            answer = await student.say(start, [*start.dialogue, {"role": "assistant", "content": text}])
            return ClaimAnswer(
                id=start.item.id,
                cluster=start.item.cluster,
                kind=kind,
                claim=value,
                agrees=None if answer.error else agreement(answer.text),
                text=answer.error or answer.text,
                key=answer.key,
            )

        claims = [
            claim
            for start in starts
            for claim in (partial(ask, start, "right", start.answer), partial(ask, start, "wrong", wrong_claim(start)))
        ]
        write_records(out, results_of(f"claims to {job.settings.student}", "claims", claims, [requests]))
