"""Input files of the rules for tutors that depend on the run's tasks and models."""

from __future__ import annotations

from maieutic.config.models import RecordedModel, VllmModel
from maieutic.core import paths
from maieutic.plan.inputs import card_files, source_files, tutor_items
from maieutic.plan.plan import Plan


def task_card_and_prompts(plan: Plan, benchmark: str, task: str) -> list[str]:
    """Return the files of a task's card, prompts and few-shot texts."""
    return card_files([loaded for loaded in plan.benchmarks[benchmark] if loaded.card.task == task])


def question_files(plan: Plan) -> list[str]:
    """Return the question files of a run, one per task. Each contains the task's items and prompts."""
    return [
        paths.QUESTIONS.of(benchmark=benchmark, task=loaded.card.task)
        for benchmark, cards in plan.benchmarks.items()
        for loaded in cards
    ]


def all_tutor_items(plan: Plan, tutor: str) -> list[str]:
    """Return the item files of all tasks that a tutor answers."""
    return [file for benchmark in plan.benchmarks for file in tutor_items(plan, benchmark, tutor)]


def tutor_prompts(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the card, prompt and few-shot files of a benchmark's tasks that a tutor answers."""
    return card_files(plan.cards_for(benchmark, tutor))


def all_tutor_prompts(plan: Plan, tutor: str) -> list[str]:
    """Return the card, prompt and few-shot files of all tasks that a tutor answers."""
    return [file for benchmark in plan.benchmarks for file in tutor_prompts(plan, benchmark, tutor)]


def tutor_weights(plan: Plan, tutor: str) -> list[str]:
    """Return the weights manifest of a tutor; empty unless this run serves the tutor's model."""
    return [paths.WEIGHTS.of(model=tutor)] if isinstance(plan.models.get(tutor), VllmModel) else []


def shard_replies(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the files of a tutor's replies to a benchmark, one per shard."""
    return [paths.SHARD_REPLIES.of(benchmark=benchmark, tutor=tutor, shard=shard) for shard in plan.shards_of(tutor)]


def shard_prompts(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the files of a tutor's prompts for a benchmark, one per shard."""
    return [paths.SHARD_PROMPTS.of(benchmark=benchmark, tutor=tutor, shard=shard) for shard in plan.shards_of(tutor)]


def recorded_files(plan: Plan, tutor: str) -> list[str]:
    """Return the files with the replies of a recorded tutor: the user's files, or the source of its dataset."""
    entry = plan.models[tutor]
    assert isinstance(entry, RecordedModel)
    return source_files(entry.datasets) if entry.datasets else entry.files


def sampled_tasks(plan: Plan, tutor: str) -> list[tuple[str, str]]:
    """Return benchmark and name of each task that a tutor answers on sampled items; empty without `run.limit`."""
    if plan.run.limit is None:
        return []
    return [(name, task) for name in plan.benchmarks for task in plan.tasks_for(name, tutor)]


def sampled_sources(plan: Plan, tutor: str) -> list[str]:
    """Return the source file of each task that a tutor answers on sampled items; empty without `run.limit`."""
    return source_files(plan.card(name, task).dataset for name, task in sampled_tasks(plan, tutor))
