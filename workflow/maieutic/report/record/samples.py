"""Every item with one tutor's reply to it and the grade that its task's headline counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, HostedModel, VllmModel
from maieutic.core import paths
from maieutic.core.records import Grade, Item, Prompt, Reply, each_record, read_records
from maieutic.plan.plan import Plan
from maieutic.report.browser import all_grades, reference_of
from maieutic.report.record.opened import OpenRun
from maieutic.report.tables import items_of_task
from maieutic.serving.pictures import text_of


class Sample(NamedTuple):
    """An item, what was sent (role and text of each message of the last turn), the reply, its grades under robust.

    graded: the grade that the headline counts; None where there is none.
    """

    item: Item
    sent: list[dict[str, str]]
    reply: Reply
    graded: Grade | None
    grades: list[Grade]

    @property
    def reference(self) -> str:
        """What the reply is held against, as text."""
        return reference_of(self.item)

    @property
    def score(self) -> float | None:
        """The grade as a number: 1 right, 0 wrong, or its value; None where nothing could be read."""
        if self.graded is None:
            return None
        if self.graded.correct is not None:
            return float(self.graded.correct)
        value = self.graded.value
        return float(value) if isinstance(value, int | float) else None


@lru_cache(maxsize=64)
def items_by_id(results: Path, benchmark: str, task: str) -> dict[str, Item]:
    """The items of a task; they are the same for every tutor."""
    return {item.id: item for item in items_of_task(results, benchmark, task)}


def samples(run: OpenRun, card: Card, tutor: str) -> Iterator[Sample]:
    """The samples of one task in the order of the replies."""
    plan, results, benchmark = run.plan, run.results, card.benchmark
    items = items_by_id(results, benchmark, card.task)
    metric = card.metrics[card.headline]
    kind = metric.grader or card.graders[0]
    grades: dict[str, list[Grade]] = {}
    for grade in all_grades(plan, results, benchmark, tutor):
        if grade.task == card.task and grade.scoring == "robust":
            grades.setdefault(grade.id, []).append(grade)
    sent: dict[str, list[dict[str, str]]] = {}
    prompts = paths.PROMPTS.within(results, benchmark=benchmark, tutor=tutor)
    if prompts.exists() and not isinstance(plan.models[tutor], BaselineModel):
        for prompt in read_records(prompts, Prompt):
            sent[prompt.messages] = [
                {"role": message["role"], "content": text_of(message["content"])} for message in prompt.content
            ]
    for reply in each_record(paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor), Reply):
        if reply.task != card.task or reply.id not in items:
            continue
        own = grades.get(reply.id, [])
        counted = next((grade for grade in own if grade.kind == kind and grade.criterion == metric.criterion), None)
        counted = counted or next((grade for grade in own if grade.kind == kind), None)
        messages = sent.get(reply.turns[-1].messages, []) if reply.turns else []
        yield Sample(items[reply.id], messages, reply, counted, own)


def hub_name(plan: Plan, name: str) -> str:
    """A model as others know it: its hub name, its name at the endpoint, else that of the registry."""
    model = plan.models[name]
    if isinstance(model, VllmModel):
        return getattr(model.weights, "repo", None) or name
    return model.model if isinstance(model, HostedModel) else name


def settings_of(plan: Plan, card: Card, tutor: str) -> dict[str, Any]:
    """How a tutor is asked a task: what exports of other harnesses have a place for."""
    return {
        "temperature": card.temperature,
        "max_tokens": card.max_tokens,
        "protocol": plan.protocol_of(tutor),
        "seed": plan.run.seed,
    }
