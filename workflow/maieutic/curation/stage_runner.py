"""Runner of a curation's stages: it asks each model of a stage's role, and parses, accepts or rejects the answers.

All requests share one journal. A registry entry with several roles has one client and one server.
"""

from __future__ import annotations

import asyncio
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
from maieutic.core.journal import FinishedRequest, Journal
from maieutic.curation.parsers import NEEDS_WHOLE_TEXT, PARSERS, AnswerFormatError, StageVariables
from maieutic.curation.records import Outcome, Rejection
from maieutic.curation.rules import RULES, AcceptedProduct, ProductRejected, StageAnswer
from maieutic.replies.generate import ModelRequests
from maieutic.serving.backends import JobFiles, backend_of

# Maximum number of characters of a rejected answer in the results. The journal contains the whole answer.
LONGEST_PRODUCT = 100_000
TRUNCATED_ANSWER = "cut off"  # reason recorded for an unparsed answer that ends at the token limit
SEED_STEP_OF_ATTEMPTS = 1000  # difference between the random seeds of two attempts, so that their samples differ


async def gather_all(*work: Awaitable[Any]) -> list[Any]:
    """Return the results of all awaitables. An error is raised after all have ended, so that no paid answer is lost."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


class StageRunner:
    """Runner of a curation's stages. It has the models by role, and records the outcomes of all products."""

    def __init__(
        self,
        roles: Roles,
        models: Mapping[str, VllmModel | HostedModel],
        weights: Mapping[str, Path],
        stages: Mapping[str, LoadedStage],
        journal: Journal[FinishedRequest],
        server_logs: Path,
        seed: int,
    ) -> None:
        """models: registry entries; weights: manifests of served models; stages: stage cards; each is a map by name."""
        self.roles, self.models, self.stages, self.seed = roles, models, stages, seed
        self.outcomes: dict[str, list[Outcome]] = defaultdict(list)
        self.asking: dict[str, ModelRequests] = {}
        for name in sorted({name for card in stages.values() for name in roles.entries_with(card.card.role)}):
            files = JobFiles(weights.get(name), journal.path, server_logs / f"{name}.log")
            backend, identity = backend_of(name, models[name], files)
            self.asking[name] = ModelRequests(name, models[name], identity, journal, backend)

    @property
    def asked(self) -> int:
        """Number of requests that were sent."""
        return sum(asking.requests for asking in self.asking.values())

    @property
    def grace(self) -> float:
        """Seconds for which a graceful shutdown waits for pending answers."""
        return max(asking.model.grace for asking in self.asking.values())

    def check_spent(self) -> None:
        """Raise UserError if the run's budget is used up."""
        for asking in self.asking.values():
            if asking.budget_error is not None:
                raise asking.budget_error

    def check(self) -> None:
        """Raise UserError if a server has ended."""
        for asking in self.asking.values():
            asking.backend.check()

    async def end(self) -> None:
        """Close the clients and end the servers."""
        for asking in self.asking.values():
            await asking.record_and_close()

    def samples_of_role(self, role: Role) -> list[tuple[str, int]]:
        """Return (name, number of its earlier occurrences in the role) for each model of a role.

        A model that a role names twice is therefore asked for two samples.
        """
        named = self.roles.entries_with(role)
        return [(name, named[:place].count(name)) for place, name in enumerate(named)]

    async def run_stage(self, stage: str, seed: str, about: StageVariables, part: str = "", judged: Any = None) -> Any:
        """Run one stage for one product and record the outcome. Return the accepted product, None if it is rejected.

        about: variables of the prompt, and values that the parser and the rule need to check the answers; part: name of
        the product among the seed's products at this stage; judged: product of another stage that this stage judges; it
        is recorded with a rejection. Raises Unanswered if a server does not answer, UserError if the prompt uses an
        undefined variable.
        """
        loaded = self.stages[stage]
        card = loaded.card
        fields: dict[str, Any] = {"seed": seed, "stage": stage, "part": part}
        answers: list[StageAnswer] = []
        rejections: list[Rejection] = []
        for attempt in range(card.attempts):
            answers = await self.ask_role(loaded, about, attempt)
            fields |= {"attempts": attempt + 1, "by": list(dict.fromkeys(answer.by for answer in answers))}
            try:
                kept: AcceptedProduct = RULES[card.accept](answers, about, card.limits)
            except ProductRejected as rejected:
                texts = [{"by": answer.by, "text": answer.text[:LONGEST_PRODUCT]} for answer in answers]
                rejections.append(Rejection(reason=str(rejected), answers=texts))
                continue
            self.add_outcome(Outcome(**fields, refined=kept.refined, truncated=kept.truncated, earlier=rejections))
            return kept.value
        *earlier, last = rejections
        self.add_outcome(Outcome(**fields, reason=last.reason, product=last.answers, judged=judged, earlier=earlier))
        return None

    def add_outcome(self, outcome: Outcome) -> None:
        """Record the outcome of a product."""
        self.outcomes[outcome.seed].append(outcome)

    async def ask_role(self, loaded: LoadedStage, about: StageVariables, attempt: int) -> list[StageAnswer]:
        """Return the answers of all models in the stage's role. The stage card sets the number of samples per model."""
        card = loaded.card
        try:
            prompt = render(loaded.template, about, loaded.shots)
        except UndefinedError as error:
            problem, fix = f"the template uses an undefined variable: {error}", f"use {', '.join(sorted(about))}"
            raise UserError(str(FOLDER / card.prompt), problem, fix) from None
        calls = [
            self.ask_model(name, prompt, loaded, about, attempt, sample + card.samples * instance)
            for name, instance in self.samples_of_role(card.role)
            for sample in range(card.samples)
        ]
        return await gather_all(*calls)

    async def ask_model(
        self, name: str, prompt: str, loaded: LoadedStage, about: StageVariables, attempt: int, sample: int
    ) -> StageAnswer:
        """Return one answer of one model, parsed by the stage's parser.

        attempt, sample: indices of the attempt and of the sample, from 0; they determine the random seed.
        """
        card, model = loaded.card, self.models[name]
        again = attempt > 0 or (sample > 0 and not card.temperature)
        temperature = card.retry_temperature if again else card.temperature
        request = {
            "endpoint": model.endpoint or "chat",
            "messages": [{"role": "user", "content": prompt}],
            "temperature": temperature,
            "max_tokens": min(filter(None, (card.max_tokens, model.max_tokens))),
            "stop": [],
            **({"seed": self.seed + attempt * SEED_STEP_OF_ATTEMPTS + sample} if temperature else {}),
        }
        entry = await self.asking[name].ask(request)
        if entry.error:
            return StageAnswer(name, entry.error, None, "refused by the server")
        if entry.finish == "length" and card.parser in NEEDS_WHOLE_TEXT:
            return StageAnswer(name, entry.text, None, TRUNCATED_ANSWER)
        try:
            return StageAnswer(name, entry.text, PARSERS[card.parser](entry.text, about, card.limits))
        except AnswerFormatError as error:
            why = TRUNCATED_ANSWER if entry.finish == "length" else str(error)
            return StageAnswer(name, entry.text, None, why)
