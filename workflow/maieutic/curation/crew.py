"""The models of a curation at work: a stage asks each model of its role, reads the answers, keeps or rejects.

All requests go through one journal, and entries that several roles name are asked by one client and one server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from maieutic.config.curation import STAGES as FOLDER
from maieutic.config.curation import LoadedStage, Role, Roles
from maieutic.config.models import HostedModel, VllmModel
from maieutic.config.prompts import render
from maieutic.core.errors import UserError
from maieutic.core.journal import Entry, Journal
from maieutic.curation.parsers import PARSERS, READ_TO_THE_END, About, Unread
from maieutic.curation.records import Outcome, Rejection
from maieutic.curation.rules import RULES, Answered, Kept, Rejected
from maieutic.replies.generate import Asking
from maieutic.serving.backends import JobFiles, backend_of

log = logging.getLogger(__name__)
LONGEST_PRODUCT = 100_000  # characters of a rejected answer that the results keep; the journal has all of it
CUT_OFF = "cut off"  # by the limit of tokens
NEXT_ATTEMPT = 1000  # between the seeds of two attempts, so that no sample of one is one of the other


async def together(*work: Awaitable[Any]) -> list[Any]:
    """The results of all. Where some fail, the first failure, after the others are done: what they pay for is kept."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


class Crew:
    """The models of a curation by their roles, and what has become of everything that they made."""

    def __init__(
        self,
        roles: Roles,
        models: Mapping[str, VllmModel | HostedModel],
        weights: Mapping[str, Path],
        stages: Mapping[str, LoadedStage],
        journal: Journal[Entry],
        server_logs: Path,
        seed: int,
    ) -> None:
        """models: the entries that answer; weights: manifests of those that we serve; stages: the cards, by name."""
        self.roles, self.models, self.stages, self.seed = roles, models, stages, seed
        self.outcomes: dict[str, list[Outcome]] = defaultdict(list)
        self.asking: dict[str, Asking] = {}
        for name in sorted({name for card in stages.values() for name in roles.of(card.card.role)}):
            files = JobFiles(weights.get(name), journal.path, server_logs / f"{name}.log")
            backend, identity = backend_of(name, models[name], files)
            self.asking[name] = Asking(name, models[name], identity, journal, backend)

    @property
    def asked(self) -> int:
        """Requests that were sent."""
        return sum(asking.asked for asking in self.asking.values())

    @property
    def grace(self) -> float:
        """Seconds that answers are waited for once the job is told to end."""
        return max(asking.model.grace for asking in self.asking.values())

    def check_spent(self) -> None:
        """Raise UserError where the run's budget is spent."""
        for asking in self.asking.values():
            if asking.spent is not None:
                raise asking.spent

    def check(self) -> None:
        """Raise UserError where a server has ended."""
        for asking in self.asking.values():
            asking.backend.check()

    async def end(self) -> None:
        """Close the clients and end the servers."""
        for asking in self.asking.values():
            await asking.end()

    def instances(self, role: Role) -> list[tuple[str, int]]:
        """The models of a role, each with how often it was named before: a second time is a further sample."""
        named = self.roles.of(role)
        return [(name, named[:place].count(name)) for place, name in enumerate(named)]

    async def run(self, stage: str, seed: str, about: About, part: str = "", judged: Any = None) -> Any:
        """One product of one stage: what is kept, or None; either is put down as an outcome.

        about: the variables of the prompt, and what parser and rule compare with; part: which product of the seed;
        judged: the product that the stage decides on, kept where it is rejected.
        Raises Unanswered where a server does not answer, UserError for a prompt that asks for what there is not.
        """
        loaded = self.stages[stage]
        card = loaded.card
        fields: dict[str, Any] = {"seed": seed, "stage": stage, "part": part}
        answers: list[Answered] = []
        rejections: list[Rejection] = []
        for attempt in range(card.attempts):
            answers = await self.answers(loaded, about, attempt)
            fields |= {"attempts": attempt + 1, "by": list(dict.fromkeys(answer.by for answer in answers))}
            try:
                kept: Kept = RULES[card.accept](answers, about, card.limits)
            except Rejected as rejected:
                texts = [{"by": answer.by, "text": answer.text[:LONGEST_PRODUCT]} for answer in answers]
                rejections.append(Rejection(reason=str(rejected), answers=texts))
                continue
            self.put(Outcome(**fields, refined=kept.refined, truncated=kept.truncated, earlier=rejections))
            return kept.value
        *earlier, last = rejections
        self.put(Outcome(**fields, reason=last.reason, product=last.answers, judged=judged, earlier=earlier))
        return None

    def put(self, outcome: Outcome) -> None:
        """Put down what has become of a product."""
        self.outcomes[outcome.seed].append(outcome)

    async def answers(self, loaded: LoadedStage, about: About, attempt: int) -> list[Answered]:
        """What every model of the stage's role answers, each as often as the card says; all are in flight at once."""
        card = loaded.card
        try:
            prompt = render(loaded.template, about, loaded.shots)
        except UndefinedError as error:
            problem, mend = f"the template asks for what there is not: {error}", f"use {', '.join(sorted(about))}"
            raise UserError(str(FOLDER / card.prompt), problem, mend) from None
        calls = [
            self.answer(name, prompt, loaded, about, attempt, sample + card.samples * instance)
            for name, instance in self.instances(card.role)
            for sample in range(card.samples)
        ]
        return await together(*calls)

    async def answer(
        self, name: str, prompt: str, loaded: LoadedStage, about: About, attempt: int, sample: int
    ) -> Answered:
        """One answer of one model, as the stage's parser reads it."""
        card, model = loaded.card, self.models[name]
        again = attempt > 0 or (sample > 0 and not card.temperature)
        temperature = card.retry_temperature if again else card.temperature
        request = {
            "endpoint": model.endpoint or "chat",
            "messages": [{"role": "user", "content": prompt}],
            "temperature": temperature,
            "max_tokens": min(filter(None, (card.max_tokens, model.max_tokens))),
            "stop": [],
            **({"seed": self.seed + attempt * NEXT_ATTEMPT + sample} if temperature else {}),
        }
        entry = await self.asking[name].ask(request)
        if entry.error:
            return Answered(name, entry.error, None, "refused by the server")
        if entry.finish == "length" and card.parser in READ_TO_THE_END:
            return Answered(name, entry.text, None, CUT_OFF)
        try:
            return Answered(name, entry.text, PARSERS[card.parser](entry.text, about, card.limits))
        except Unread as error:
            why = CUT_OFF if entry.finish == "length" else str(error)
            return Answered(name, entry.text, None, why)
