"""Part of the plan that covers tutors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from maieutic.config import cards
from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, HostedModel, RecordedModel, VllmModel
from maieutic.config.registry import check_entry, unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.journal import failed_path
from maieutic.datasets.registry import LOADERS
from maieutic.graders.lexicon import ENGLISH
from maieutic.graders.registry import GRADERS
from maieutic.plan.inputs import card_files, entry_for_asking, source_files, tutor_items
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, Replacements, SlicePlan, WildcardValues, unused_tables, used_on_benchmark
from maieutic.plan.syntax import Name
from maieutic.replies.baselines import TUTORS
from maieutic.replies.generate import GenerateReplies, Shard
from maieutic.replies.parsing import ParseReplies
from maieutic.replies.reader import AskReader, GradeReadings
from maieutic.replies.recorded import FORMS, ReadReplies, WriteQuestions


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


def generate_replies_job(plan: Plan, benchmark: str, tutor: str) -> GenerateReplies:
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
        asks_failed=has_failed(paths.REPLY_JOURNAL.of(benchmark=benchmark, tutor=tutor)),
    )


def has_failed(journal: str) -> bool:
    """Return True if requests of a journal failed in an earlier run. A job whose parameter changes so runs again."""
    return failed_path(Path(journal)).is_file()


def generate_shard_job(plan: Plan, benchmark: str, tutor: str, shard: str) -> GenerateReplies:
    number, total = map(int, shard.split("-of-"))
    failed = has_failed(paths.SHARD_JOURNAL.of(benchmark=benchmark, tutor=tutor, shard=shard))
    job = generate_replies_job(plan, benchmark, tutor)
    return job.model_copy(update={"shard": Shard(number, total), "asks_failed": failed})


def read_replies_job(plan: Plan, benchmark: str, tutor: str) -> ReadReplies:
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


def write_questions_job(plan: Plan, benchmark: str, task: str) -> WriteQuestions:
    return WriteQuestions(benchmark=benchmark, task=task, protocol=plan.run.protocol)


def parse_replies_job(plan: Plan, benchmark: str, tutor: str) -> ParseReplies:
    languages = {
        loaded.card.task: plan.run.language or loaded.card.language for loaded in plan.cards_for(benchmark, tutor)
    }
    return ParseReplies(
        tutor=tutor,
        benchmark=benchmark,
        tasks=list(languages),
        languages={task: language for task, language in languages.items() if language != ENGLISH},
    )


def readers(plan: Plan, *engines: str) -> list[str]:
    """Return the run's reader, if it has one that is run by any of the given engines."""
    return [name for name in plan.with_engine(*engines) if name == plan.run.reader]


def is_readable(card: Card) -> bool:
    """Return True if a reader may read replies to a task: a parser of the card has a question for it."""
    return any(grader in GRADERS and GRADERS[grader].question is not None for grader in card.graders)


def readable_tasks(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the tasks of a benchmark on which the run's reader may read a tutor's replies; empty without a reader."""
    if plan.run.reader is None:
        return []
    return [loaded.card.task for loaded in plan.cards_for(benchmark, tutor) if is_readable(loaded.card)]


def reader_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the file of a tutor's grades by the run's reader; empty without one, and for trivial tutors."""
    if isinstance(plan.models[tutor], BaselineModel) or not readable_tasks(plan, benchmark, tutor):
        return []
    return [paths.READER_GRADES.of(benchmark=benchmark, reader=str(plan.run.reader), tutor=tutor)]


def reader_weights(plan: Plan, reader: str) -> list[str]:
    """Return the weights manifest of a reader; empty unless this run serves the model."""
    return tutor_weights(plan, reader)


def ask_reader_job(plan: Plan, reader: str, benchmark: str, tutor: str) -> AskReader:
    entry = plan.models[reader]
    assert isinstance(entry, VllmModel | HostedModel)
    failed = has_failed(paths.READER_JOURNAL.of(reader=reader, benchmark=benchmark, tutor=tutor))
    tasks = plan.tasks_for(benchmark, tutor)
    return AskReader(reader=reader, entry=entry_for_asking(entry), tutor=tutor, tasks=tasks, asks_failed=failed)


def grade_readings_job(plan: Plan, reader: str, benchmark: str, tutor: str) -> GradeReadings:
    job = parse_replies_job(plan, benchmark, tutor)
    return GradeReadings(reader=reader, tutor=tutor, tasks=job.tasks, languages=job.languages)


def check_reader(plan: Plan) -> None:
    """Raise UserError if the run's reader is no model that can be asked, or is a tutor of the run."""
    name = plan.run.reader
    if name is None:
        return
    check_entry(plan.models, "run.reader", name, (VllmModel, HostedModel), "a served or hosted model")
    reader = plan.models[name]
    same = [tutor for tutor in plan.run.tutors if tutor == name or share_model(reader, plan.models.get(tutor))]
    if same and not plan.run.reader_same_model:
        problem = f"{name} is also the tutor {same[0]}, whose own replies it would read"
        raise UserError("run.reader", problem, "name another model, or set run.reader_same_model: true")


def share_model(first: Any, second: Any) -> bool:
    """Return True if two registry entries name the same model: at one endpoint, or with the same weights."""
    if isinstance(first, HostedModel) and isinstance(second, HostedModel):
        places = [urlsplit(entry.base_url.casefold().rstrip("/")) for entry in (first, second)]
        return first.model == second.model and places[0] == places[1]
    return isinstance(first, VllmModel) and isinstance(second, VllmModel) and first.weights == second.weights


def journals_of_reader(plan: Plan) -> Iterator[str]:
    """Yield the journals of the run's reader."""
    for benchmark in plan.benchmarks:
        for tutor in plan.tutors_on(benchmark):
            if reader_grades(plan, benchmark, tutor):
                yield paths.READER_JOURNAL.of(reader=str(plan.run.reader), benchmark=benchmark, tutor=tutor)


def reader_of_job(plan: Plan, names: WildcardValues) -> list[str] | None:
    """Return the reader that a job calls, from its wildcards; None for any other job."""
    return [names["reader"]] if "reader" in names else None


def check_tutor(plan: Plan, name: str) -> None:
    """Raise UserError if a tutor is an unknown baseline, or lacks its recorded replies."""
    model = plan.models[name]
    if isinstance(model, BaselineModel) and model.tutor not in TUTORS:
        raise unknown_name(f"models.{name}.tutor", model.tutor, list(TUTORS), "the list of baseline tutors")
    if isinstance(model, RecordedModel):
        for file in (file for file in model.files if not Path(file).is_file()):
            raise UserError(f"models.{name}.file", f"{file} does not exist", "set it to the file with the replies")
        for dataset in model.datasets:
            if dataset not in plan.datasets:
                raise unknown_name(f"models.{name}.dataset", dataset, list(plan.datasets), "the registry")


def check_own_protocol(plan: Plan, name: str) -> None:
    """If a tutor has its own protocol, check that the cards' loaders provide all variables in its prompts."""
    if plan.protocol_of(name) == plan.run.protocol:
        return
    for loaded in (loaded_card for benchmark in plan.benchmarks for loaded_card in plan.cards_for(benchmark, name)):
        path = cards.card_path(loaded.card.benchmark, loaded.card.task)
        cards.check_variables(path, loaded, LOADERS[loaded.card.loader].variables)


def check_pictures(plan: Plan, name: str) -> None:
    """Raise UserError if a tutor can answer none of the selected tasks, for example because all have pictures."""
    if any(plan.can_answer(loaded.card, name) for loaded in plan.cards.values()):
        return
    if isinstance(plan.models[name], BaselineModel):
        raise UserError(
            f"models.{name}.tutor", "no task in run.tasks has human replies", f"remove {name} from run.tutors"
        )
    if isinstance(entry := plan.models[name], RecordedModel) and entry.tasks:
        problem = f"none of {', '.join(entry.tasks)} is in run.tasks"
        raise UserError(f"models.{name}.tasks", problem, f"add one to run.tasks, or remove {name} from run.tutors")
    raise UserError(
        f"models.{name}.images",
        "every task in run.tasks has pictures, but this tutor does not accept pictures",
        "set images: true if the model accepts pictures, or remove the tutor from run.tutors",
    )


def check_completions(plan: Plan, name: str) -> None:
    """Raise UserError if a tutor uses the completions endpoint, which takes a single prompt, for a conversation."""
    if getattr(plan.models[name], "endpoint", None) != "completions":
        return
    for loaded in (loaded_card for benchmark in plan.benchmarks for loaded_card in plan.cards_for(benchmark, name)):
        if len(loaded.card.turns) > 1 or loaded.card.system or LOADERS[loaded.card.loader].scripted:
            raise UserError(
                f"models.{name}.endpoint",
                f"{loaded.card.benchmark}/{loaded.card.task} is a conversation, but a completion takes a single prompt",
                "set endpoint: chat, remove the key (the default is chat), or remove the task from run.tasks",
            )


def check_replies_format(plan: Plan, name: str) -> None:
    """Raise UserError if a file of replies has an unknown format, or has several tutors and `speaker` is not set."""
    model = plan.models[name]
    if not isinstance(model, RecordedModel) or model.form is None:
        return
    if model.form not in FORMS:
        raise unknown_name(f"models.{name}.form", model.form, list(FORMS), "the list of formats for files of replies")
    if FORMS[model.form].several and model.speaker is None:
        problem = f"a file of the form {model.form} contains replies by several tutors"
        raise UserError(f"models.{name}.speaker", problem, "set it to the name of one tutor in that file")


def check_shards(plan: Plan, name: str) -> None:
    """Raise UserError if a tutor's items are split into shards although they have copies, which share requests."""
    if plan.repeats > 1 and plan.shards_of(name):
        problem = "the run has repeats, and an item and its copies must be answered in one job"
        raise UserError(f"models.{name}.shards", problem, "set shards: 1, or remove repeats")


TUTOR_CHECKS = (check_shards, check_replies_format, check_tutor, check_own_protocol, check_completions, check_pictures)


def tutor_checks(plan: Plan) -> list[Callable[[], None]]:
    """Return the checks of all tutors of a run."""
    return [partial(check, plan, name) for name in plan.tutors for check in TUTOR_CHECKS]


# All kinds of tutors share one command. These are the definitions that one kind of tutor never uses.
UNUSED_BY_SERVED: Replacements = {Name("replies.baselines", "baseline_reply"): ()}
UNUSED_BY_BASELINES: Replacements = {
    Name("serving.backends", "backend_of"): (),
    Name("replies.generate", "run_conversations"): (),
}


def used_by_generate_replies(plan: Plan, tutor: str, **others: str) -> Replacements:
    """Return replacements that leave out code of other kinds of tutors, and other benchmarks' baselines."""
    entry = plan.models[tutor]
    if not isinstance(entry, BaselineModel):
        return UNUSED_BY_SERVED
    return {**UNUSED_BY_BASELINES, **unused_tables("baselines", "TUTORS", {entry.tutor})}


def used_by_read_replies(plan: Plan, tutor: str, **others: str) -> Replacements:
    """Return replacements that leave out the formats and loaders that the job for a recorded tutor does not use."""
    entry = plan.models[tutor]
    assert isinstance(entry, RecordedModel)
    loaders = {loaded.card.loader for loaded in plan.cards.values()}
    return {
        **unused_tables("recorded", "RECORDED", {entry.form} if entry.form else set()),
        **unused_tables("loaders", "LOADERS", loaders),
    }


STAGE = SlicePlan(
    module=__name__,
    checks=Checks(names=lambda plan: [partial(check_reader, plan)], entries=tutor_checks),
    journals=journals_of_reader,
    models_of=reader_of_job,
    used_code={
        "ask_reader": used_on_benchmark,
        "grade_readings": used_on_benchmark,
        "generate_replies": used_by_generate_replies,
        "read_replies": used_by_read_replies,
        "parse_replies": used_on_benchmark,
    },
)
