"""Samples for exports: each item with one tutor's reply and its grades."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from maieutic.config.models import BaselineModel, HostedModel, VllmModel
from maieutic.core import paths
from maieutic.core.records import Grade, Item, Prompt, Reply, iter_records, read_records
from maieutic.plan.plan import Plan
from maieutic.record.finished_run import FinishedRun
from maieutic.report.browser import grades_of_run, reference_text
from maieutic.report.tables import items_of_task
from maieutic.serving.pictures import readable_content


class Sample(NamedTuple):
    """One item with one tutor's reply and its grades.

    sent: role and text of each message of the last turn's prompt; grades: all grades under the `robust` scoring.
    """

    item: Item
    sent: list[dict[str, str]]
    reply: Reply
    grades: list[Grade]

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


@lru_cache(maxsize=64)
def items_by_id(results: Path, benchmark: str, task: str) -> dict[str, Item]:
    """Return the items of a task by id. Cached, since all tutors share them."""
    return {item.id: item for item in items_of_task(results, benchmark, task)}


def read_samples(run: FinishedRun, benchmark: str, tutor: str) -> dict[str, list[Sample]]:
    """Return one tutor's samples on a benchmark by task, in the order of the replies. Every file is read once."""
    plan, results = run.plan, run.results
    path = paths.REPLIES.within(results, benchmark=benchmark, tutor=tutor)
    if not path.exists():
        return {}
    cards = {loaded.card.task: loaded.card for loaded in plan.benchmarks[benchmark]}
    items = {task: items_by_id(results, benchmark, task) for task in cards}
    grades: dict[tuple[str, str], list[Grade]] = defaultdict(list)
    for grade in grades_of_run(plan, results, benchmark, tutor):
        if grade.scoring == "robust":
            grades[grade.task, grade.id].append(grade)
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
        messages = sent.get(reply.turns[-1].messages, []) if reply.turns else []
        samples[reply.task].append(Sample(item, messages, reply, grades.get((reply.task, reply.id), [])))
    return samples


def public_model_name(plan: Plan, name: str) -> str:
    """Return a model's public name: its repository on the hub, its name at the endpoint or, without both, `name`."""
    model = plan.models[name]
    if isinstance(model, VllmModel):
        return getattr(model.weights, "repo", None) or name
    return model.model if isinstance(model, HostedModel) else name
