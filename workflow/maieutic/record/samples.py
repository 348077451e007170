"""Samples for exports: each item with one tutor's reply, its grades and its value in the task's headline metric."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, HostedModel, VllmModel
from maieutic.core import paths
from maieutic.core.records import Grade, Item, Prompt, Reply, iter_records, read_records
from maieutic.plan.plan import Plan
from maieutic.record.finished_run import FinishedRun
from maieutic.report.browser import all_grades, reference_text
from maieutic.report.tables import items_of_task
from maieutic.scores.score import GradeIndex, index_grades, measure_task
from maieutic.serving.pictures import readable_content


class Sample(NamedTuple):
    """One item with one tutor's reply and its grades.

    sent: role and text of each message of the last turn's prompt; headline_grade: grade that the task's headline metric
    counts, if any; grades: all grades under the `robust` scoring; score: value of the reply in the headline metric
    (1 right, 0 wrong or unreadable, or a number), None if the metric leaves the item out or combines several grades.
    """

    item: Item
    sent: list[dict[str, str]]
    reply: Reply
    headline_grade: Grade | None
    grades: list[Grade]
    score: float | None

    @property
    def reference(self) -> str:
        """Reference text of the item or, if it has none, the item's criteria with their weights."""
        return reference_text(self.item)

    @property
    def usage(self) -> dict[str, int]:
        """Number of prompt tokens, of completion tokens and of both together, summed over the reply's turns."""
        prompt = sum(turn.prompt_tokens or 0 for turn in self.reply.turns)
        completion = sum(turn.completion_tokens or 0 for turn in self.reply.turns)
        return {"input_tokens": prompt, "output_tokens": completion, "total_tokens": prompt + completion}

    @property
    def conversation(self) -> list[dict[str, str]]:
        """Messages of the last turn's prompt, followed by the reply."""
        return [*self.sent, {"role": "assistant", "content": self.reply.text}]


@lru_cache(maxsize=64)
def items_by_id(results: Path, benchmark: str, task: str) -> dict[str, Item]:
    """Return the items of a task by id. Cached, since all tutors share them."""
    return {item.id: item for item in items_of_task(results, benchmark, task)}


def headline_value_by_item(card: Card, items: list[Item], index: GradeIndex) -> dict[str, float]:
    """Return each item's `robust` value in the task's headline metric; empty if the metric combines several grades."""
    for measured in measure_task(card, items, index):
        if measured.metric.headline and measured.scoring == "robust" and not measured.metric.parts:
            known = {}
            for item, graded in measured.evidence.known:
                if graded.correct is not None:
                    known[item.id] = float(graded.correct)
                elif isinstance(graded.value, int | float):
                    known[item.id] = float(graded.value)
            return known
    return {}


def read_samples(run: FinishedRun, benchmark: str, tutor: str) -> dict[str, list[Sample]]:
    """Return one tutor's samples on a benchmark by task, in the order of the replies. Every file is read once."""
    plan, results = run.plan, run.results
    path = paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor)
    if not path.exists():
        return {}
    cards = {loaded.card.task: loaded.card for loaded in plan.benchmarks[benchmark]}
    items = {task: items_by_id(results, benchmark, task) for task in cards}
    grades: dict[tuple[str, str], list[Grade]] = defaultdict(list)
    tutor_grades = list(all_grades(plan, results, benchmark, tutor))
    for grade in tutor_grades:
        if grade.scoring == "robust":
            grades[grade.task, grade.id].append(grade)
    index = index_grades(tutor_grades)
    scores = {task: headline_value_by_item(card, list(items[task].values()), index) for task, card in cards.items()}
    sent: dict[str, list[dict[str, str]]] = {}
    prompts = paths.PROMPTS.within(results, benchmark=benchmark, tutor=tutor)
    if prompts.exists() and not isinstance(plan.models[tutor], BaselineModel):
        for prompt in read_records(prompts, Prompt):
            sent[prompt.messages] = [
                {"role": message["role"], "content": readable_content(message["content"])} for message in prompt.content
            ]
    samples: dict[str, list[Sample]] = defaultdict(list)
    for reply in iter_records(path, Reply):
        item = items.get(reply.task, {}).get(reply.id)
        if item is None or item.repeat >= plan.repeats_of(tutor) or not plan.is_answered_by(cards[reply.task], tutor):
            continue
        reply_grades = grades.get((reply.task, reply.id), [])
        messages = sent.get(reply.turns[-1].messages, []) if reply.turns else []
        counted = find_headline_grade(cards[reply.task], reply_grades)
        score = scores[reply.task].get(reply.id)
        samples[reply.task].append(Sample(item, messages, reply, counted, reply_grades, score))
    return samples


def find_headline_grade(card: Card, grades: list[Grade]) -> Grade | None:
    """Return the grade that the task's headline metric counts among one reply's grades; None if it is absent."""
    metric = card.headline_metric
    if metric is None:
        return None
    kind = metric.grader or card.graders[0]
    return next((grade for grade in grades if grade.kind == kind and grade.criterion == metric.criterion), None)


def public_model_name(plan: Plan, name: str) -> str:
    """Return a model's public name: its repository on the hub, its name at the endpoint or, without both, `name`."""
    model = plan.models[name]
    if isinstance(model, VllmModel):
        return getattr(model.weights, "repo", None) or name
    return model.model if isinstance(model, HostedModel) else name


def request_settings(plan: Plan, card: Card, tutor: str) -> dict[str, Any]:
    """Return the request settings that exports record for a tutor and task, such as protocol and temperature."""
    return {
        "temperature": card.temperature,
        "max_tokens": card.max_tokens,
        "protocol": plan.protocol_of(tutor),
        "seed": plan.run.seed,
    }
