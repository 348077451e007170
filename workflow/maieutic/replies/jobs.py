"""Jobs of the rules for tutors. The function named like a rule returns the rule's job."""

from __future__ import annotations

from maieutic.config.job_entries import entry_for_asking
from maieutic.config.models import BaselineModel, HostedModel, RecordedModel, VllmModel
from maieutic.graders.lexicon import ENGLISH
from maieutic.plan.plan import Plan
from maieutic.replies.generate import GenerateReplies, Shard
from maieutic.replies.inputs import sampled_tasks
from maieutic.replies.packed import GenerateAllReplies
from maieutic.replies.parsing import ParseReplies
from maieutic.replies.recorded import ReadReplies, WriteQuestions


def generate_replies(plan: Plan, benchmark: str, tutor: str) -> GenerateReplies:
    entry, run = plan.models[tutor], plan.run
    assert isinstance(entry, VllmModel | HostedModel | BaselineModel)
    return GenerateReplies(
        tutor=tutor,
        entry=entry_for_asking(entry),
        benchmark=benchmark,
        tasks=plan.tasks_for(benchmark, tutor),
        protocol=plan.protocol_of(tutor),
        max_tokens=run.max_tokens,
        seed=run.seed,
    )


def generate_shard(plan: Plan, benchmark: str, tutor: str, shard: str) -> GenerateReplies:
    number, total = map(int, shard.split("-of-"))
    return generate_replies(plan, benchmark, tutor).model_copy(update={"shard": Shard(number, total)})


def generate_all_replies(plan: Plan, tutor: str) -> GenerateAllReplies:
    return GenerateAllReplies(tutor=tutor, parts=[generate_replies(plan, name, tutor) for name in plan.benchmarks])


def read_replies(plan: Plan, benchmark: str, tutor: str) -> ReadReplies:
    entry = plan.models[tutor]
    assert isinstance(entry, RecordedModel)
    return ReadReplies(
        form=entry.form,
        file_format=plan.datasets[entry.datasets[0]].format_of(plan.edition) if entry.datasets else None,
        speaker=entry.speaker,
        tutor=tutor,
        benchmark=benchmark,
        tasks=plan.tasks_for(benchmark, tutor),
        protocol=plan.protocol_of(tutor),
        forms={
            f"{name}/{task}": plan.datasets[plan.card(name, task).dataset].format_of(plan.edition)
            for name, task in sampled_tasks(plan, tutor)
        },
    )


def write_questions(plan: Plan, benchmark: str, task: str) -> WriteQuestions:
    return WriteQuestions(benchmark=benchmark, task=task, protocol=plan.run.protocol)


def parse_replies(plan: Plan, benchmark: str, tutor: str) -> ParseReplies:
    languages = {
        loaded.card.task: plan.run.language or loaded.card.language for loaded in plan.cards_for(benchmark, tutor)
    }
    return ParseReplies(
        tutor=tutor,
        benchmark=benchmark,
        tasks=list(languages),
        languages={task: language for task, language in languages.items() if language != ENGLISH},
    )
