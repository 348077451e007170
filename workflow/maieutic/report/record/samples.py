"""Every item with one tutor's reply to it and what its task's headline makes of it."""

from __future__ import annotations

from collections import defaultdict
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
from maieutic.scores.score import Index, index_of, measured_on
from maieutic.serving.pictures import text_of


class Sample(NamedTuple):
    """An item, what was sent (role and text of each message of the last turn), the reply, its grades under robust.

    graded: the grade that the headline counts, None where there is none; score: what the headline makes of the reply
    (1 right, 0 wrong or unreadable, or a value), None where it leaves the item out or is made of several grades.
    """

    item: Item
    sent: list[dict[str, str]]
    reply: Reply
    graded: Grade | None
    grades: list[Grade]
    score: float | None

    @property
    def reference(self) -> str:
        """What the reply is held against, as text."""
        return reference_of(self.item)

    @property
    def usage(self) -> dict[str, int]:
        """The tokens of the reply's turns."""
        prompt = sum(turn.prompt_tokens or 0 for turn in self.reply.turns)
        completion = sum(turn.completion_tokens or 0 for turn in self.reply.turns)
        return {"input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion}

    @property
    def spoken(self) -> list[dict[str, str]]:
        """The whole conversation, the reply at its end."""
        return [*self.sent, {"role": "assistant", "content": self.reply.text}]


@lru_cache(maxsize=64)
def items_by_id(results: Path, benchmark: str, task: str) -> dict[str, Item]:
    """The items of a task; they are the same for every tutor."""
    return {item.id: item for item in items_of_task(results, benchmark, task)}


def scores_of_items(card: Card, items: list[Item], index: Index) -> dict[str, float]:
    """What a task's headline, read by robust, makes of each item that it counts; none of one made of several grades."""
    for measured in measured_on(card, items, index):
        if measured.metric.headline and measured.scoring == "robust" and not measured.metric.parts:
            known = {}
            for item, graded in measured.found.known:
                if graded.correct is not None:
                    known[item.id] = float(graded.correct)
                elif isinstance(graded.value, int | float):
                    known[item.id] = float(graded.value)
            return known
    return {}


def read_samples(run: OpenRun, benchmark: str, tutor: str) -> dict[str, list[Sample]]:
    """The samples of one tutor on a benchmark by task, in the order of the replies; every file is read once."""
    plan, results = run.plan, run.results
    path = paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor)
    if not path.exists():
        return {}
    cards = {loaded.card.task: loaded.card for loaded in plan.benchmarks[benchmark]}
    items = {task: items_by_id(results, benchmark, task) for task in cards}
    grades: dict[tuple[str, str], list[Grade]] = defaultdict(list)
    everything = list(all_grades(plan, results, benchmark, tutor))
    for grade in everything:
        if grade.scoring == "robust":
            grades[grade.task, grade.id].append(grade)
    index = index_of(everything)
    scores = {task: scores_of_items(card, list(items[task].values()), index) for task, card in cards.items()}
    sent: dict[str, list[dict[str, str]]] = {}
    prompts = paths.PROMPTS.within(results, benchmark=benchmark, tutor=tutor)
    if prompts.exists() and not isinstance(plan.models[tutor], BaselineModel):
        for prompt in read_records(prompts, Prompt):
            sent[prompt.messages] = [
                {"role": message["role"], "content": text_of(message["content"])} for message in prompt.content
            ]
    samples: dict[str, list[Sample]] = defaultdict(list)
    for reply in each_record(path, Reply):
        item = items.get(reply.task, {}).get(reply.id)
        if item is None or not plan.belongs(cards[reply.task], tutor):
            continue
        own = grades.get((reply.task, reply.id), [])
        messages = sent.get(reply.turns[-1].messages, []) if reply.turns else []
        counted = counted_grade(cards[reply.task], own)
        samples[reply.task].append(Sample(item, messages, reply, counted, own, scores[reply.task].get(reply.id)))
    return samples


def counted_grade(card: Card, grades: list[Grade]) -> Grade | None:
    """Of the grades of one reply the one that the headline counts."""
    metric = card.headline_metric
    if metric is None:
        return None
    kind = metric.grader or card.graders[0]
    return next((grade for grade in grades if grade.kind == kind and grade.criterion == metric.criterion), None)


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
