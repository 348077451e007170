"""Products of a curation, with datasheets: evaluation sets in KMP-Bench's formats, and a training set."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from maieutic.config.curation import Roles
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, read_json_lines, sha256_of, write_json, write_json_lines
from maieutic.core.jobs import Job
from maieutic.core.records import Item, read_records
from maieutic.curation.leakage import item_texts, set_texts, without_leaks
from maieutic.curation.records import Components, Dialogue, Level, Seed
from maieutic.curation.seeds import evaluation_seeds
from maieutic.serving.weights import link_folder, prepare_weights_folder, write_manifest

ROLES = {"student": "user", "tutor": "assistant"}
SIMILAR_LEVELS: tuple[Level, ...] = ("medium", "hard")  # levels of the two similar problems in a record of KMP-Skills


class AssembleSets(Job):
    """Job that divides a curation's products into evaluation and training sets, and writes a datasheet.

    answering: model id or weights of each model; prompts: SHA-256 of every stage card and prompt.
    """

    curation: str
    roles: Roles
    answering: dict[str, str]
    prompts: dict[str, str]
    evaluation_share: float
    seed: int


class CleanTrainingSet(Job):
    """Job that removes evaluation problems from a training set.

    near_duplicate: minimum similarity at which a training problem counts as leaked.
    """

    curation: str
    near_duplicate: float
    roles: Roles
    answering: dict[str, str]
    prompts: dict[str, str]


def assemble_sets(
    *, job: AssembleSets, seeds: Path, components: Path, dialogues: Path, out: Path, tests: Path, raw: Path, sheet: Path
) -> None:
    """Write evaluation sets from the evaluation seeds, training chats from the other seeds, and a datasheet.

    out: evaluation set in the format of KMP-Skills; tests: evaluation set of dialogues with test cases; raw: training
    chats before the leakage check.
    """
    seed_records = read_records(seeds, Seed)
    tested = evaluation_seeds(seed_records, job.evaluation_share, job.seed)
    for_skills = [record for record in read_records(components, Components) if record.id in tested]
    dialogue_records = read_records(dialogues, Dialogue)
    write_json_lines(out, map(skills_record, for_skills))
    for_tests = [dialogue for dialogue in dialogue_records if dialogue.id in tested]
    write_json_lines(tests, (dialogue.model_dump(exclude_none=True) for dialogue in for_tests))
    texts = {record.id: [record.problem, *problems_in(record)] for record in read_records(components, Components)}
    write_json_lines(
        raw, (chat_record(dialogue, texts[dialogue.id]) for dialogue in dialogue_records if dialogue.id not in tested)
    )
    licences = {seed.id: seed.licence for seed in seed_records}
    used = sorted(
        {licences[name] for name in (*(record.id for record in for_skills), *(dialogue.id for dialogue in for_tests))}
    )
    content = {
        **provenance_fields(job.curation, job.roles, job.answering, job.prompts),
        "licences": used,
        "sources": dict(Counter(record.source for record in for_skills)),
        "skills": {"file": out.name, **file_facts(out, len(for_skills)), **skill_facts(for_skills)},
        "dialogues": {"file": tests.name, **file_facts(tests, len(for_tests)), **dialogue_facts(for_tests)},
    }
    write_json(sheet, content)


def skills_record(components: Components) -> dict[str, Any]:
    """Return a seed with its components as a record in the format of the loader `kmp_skills`."""
    solutions = []
    for solution in components.solutions:
        wrong = (
            {"error_step": solution.feedback.step, "error_reason": solution.feedback.reason}
            if solution.feedback.step
            else {}
        )
        solutions.append({"steps": solution.steps, **wrong})
    return {
        "id": components.id,
        "problem": components.problem,
        "solution": components.solution,
        "answer": components.answer,
        "followups": [as_question(followup.model_dump()) for followup in components.followups],
        "similar": [as_question(components.similar[level].model_dump()) for level in SIMILAR_LEVELS],
        "solutions": solutions,
        "domain": components.domain,
        "grade": components.grade,
        "source": components.source,
    }


def as_question(problem: dict[str, Any]) -> dict[str, Any]:
    """Return a problem with the keys that the loader `kmp_skills` expects."""
    return {"question": problem["problem"], "solution": problem["solution"], "answer": problem["answer"]}


def problems_in(components: Components) -> list[str]:
    """Return the texts of the problems that were generated from a seed."""
    return [problem.problem for problem in (*components.followups, *components.similar.values())]


def chat_record(dialogue: Dialogue, problems: Sequence[str]) -> dict[str, Any]:
    """Return a training example in chat format. problems: problems that the leakage check looks for in the chat."""
    system = (
        f"You are a K-8 mathematics tutor. {dialogue.persona}\nStudent profile: {dialogue.student_profile}\n"
        f"Problem: {dialogue.problem}\nLearning objectives:\n"
        + "\n".join(f"- {objective}" for objective in dialogue.objectives)
    )
    turns = [{"role": ROLES[turn.speaker], "content": turn.text} for turn in dialogue.turns]
    return {
        "id": dialogue.id,
        "problems": list(problems),
        "principles": [turn.principles for turn in dialogue.turns if turn.speaker == "tutor"],
        "messages": [{"role": "system", "content": system}, *turns],
    }


def clean_training_set(
    *,
    job: CleanTrainingSet,
    raw: Path,
    items: list[Path],
    tests: list[Path],
    seeds: Path,
    out: Path,
    parquet: Path,
    sheet: Path,
) -> None:
    """Write the training set, without examples that contain an evaluation problem, as JSON lines and as Parquet.

    items: item files of every selected task; tests: the evaluation sets of every curation.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = {record["id"]: record for record in read_json_lines(raw)}
    kept, leaked = drop_leaks(records, items, tests, job.near_duplicate)
    examples = [records[name] for name in kept]
    write_json_lines(out, examples)
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema([("id", pa.string()), ("messages", pa.list_(message))])
    rows = [{"id": record["id"], "messages": record["messages"]} for record in examples]
    with atomic_file(parquet, "wb") as handle:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), handle)
    licences = {seed.id: seed.licence for seed in read_records(seeds, Seed)}
    content = {
        **provenance_fields(job.curation, job.roles, job.answering, job.prompts),
        "licences": sorted({licences[name] for name in kept}),
        "training": {
            "file": out.name,
            **file_facts(out, len(examples)),
            "parquet_sha256": sha256_of(parquet),
            **chat_facts(examples),
        },
        "leakage": {
            "near_duplicate": job.near_duplicate,
            "compared_with": [str(path) for path in (*items, *tests)],
            "left_out": [leak._asdict() for leak in leaked],
        },
    }
    write_json(sheet, content)


def drop_leaks(
    records: Mapping[str, Mapping[str, Any]], items: Sequence[Path], tests: Sequence[Path], threshold: float
) -> tuple[list[str], list[Any]]:
    """Return the names of the examples without a leak, and the leaks.

    items: item files of tasks; tests: evaluation sets of curations; threshold: minimum similarity of a leak.
    """
    texts = {name: example_texts(record) for name, record in records.items()}
    of_tasks = [pair for path in items for pair in item_texts(read_records(path, Item))]
    of_sets = [pair for path in tests for pair in set_texts(str(path), read_json_lines(path))]
    return without_leaks(texts, [*of_tasks, *of_sets], threshold)


def fetch_curated(*, made: Path, sheet: Path, out: Path) -> None:
    """Copy an evaluation set to a dataset's file. Raises UserError if it is empty or differs from its datasheet."""
    content = json.loads(sheet.read_text(encoding="utf-8"))
    [pin] = [section for section in content.values() if isinstance(section, dict) and section.get("file") == made.name]
    if (digest := sha256_of(made)) != pin["sha256"]:
        raise UserError(str(made), f"expected sha256 {pin['sha256']}, found {digest}", "delete the file and run again")
    if not pin["records"]:
        raise UserError(
            str(made),
            "the set is empty: no seed passed all stages",
            "find the stage that rejects most on the report's page Curation (results/curation/NAME/figures.json), then "
            "add seeds, choose better models, or remove the set's tasks from run.tasks",
        )
    with atomic_file(out, "wb") as handle:
        handle.write(made.read_bytes())


def serve_tuned(*, tuned: Path, out: Path) -> None:
    """Link a tuning's weights into the weights folder of a tutor, and write the manifest `out` there.

    tuned: manifest of the tuning's weights.
    """
    folder = out.parent
    prepare_weights_folder(folder, str(tuned), False)
    link_folder(folder.name, tuned.parent, folder)
    write_manifest(folder.name, folder)


def example_texts(record: Mapping[str, Any]) -> list[str]:
    """Return the texts of a training example that may contain a problem: its listed problems and all its messages."""
    return [*record.get("problems", ()), *(message["content"] for message in record["messages"])]


def provenance_fields(
    curation: str, roles: Roles, answering: Mapping[str, str], prompts: Mapping[str, str]
) -> dict[str, Any]:
    """Return a datasheet's fields for a curation's roles and models, and for the SHA-256 of stage cards and prompts."""
    return {"curation": curation, "roles": roles.model_dump(), "models": dict(answering), "prompts": dict(prompts)}


def file_facts(path: Path, records: int) -> dict[str, Any]:
    """Return a datasheet's facts about a file: its number of records and its SHA-256."""
    return {"records": records, "sha256": sha256_of(path)}


class Lengths(NamedTuple):
    """Mean, minimum and maximum of some numbers; all are None if there are no numbers."""

    mean: float | None
    least: int | None
    most: int | None


def lengths(values: Sequence[int]) -> dict[str, Any]:
    """Return the mean, minimum and maximum of some numbers as a dict; all are None if there are no numbers."""
    if not values:
        return Lengths(None, None, None)._asdict()
    return Lengths(round(mean(values), 2), min(values), max(values))._asdict()


def count_words(text: str) -> int:
    """Return the number of words in a text. Words are separated by whitespace."""
    return len(text.split())


def skill_facts(records: Sequence[Components]) -> dict[str, Any]:
    """Return a datasheet's facts about components: counts of solutions, domains and grades, and lengths of problems."""
    return {
        "wrong_solutions": sum(bool(solution.feedback.step) for record in records for solution in record.solutions),
        "right_solutions": sum(not solution.feedback.step for record in records for solution in record.solutions),
        "domains": dict(Counter(record.domain for record in records)),
        "grades": dict(Counter(record.grade for record in records)),
        "words_of_problems": lengths([count_words(record.problem) for record in records]),
    }


def dialogue_facts(dialogues: Sequence[Dialogue]) -> dict[str, Any]:
    """Return a datasheet's facts about dialogues (Figure 2): exchanges, words per turn, principles, test cases."""
    turns = [turn for dialogue in dialogues for turn in dialogue.turns]
    return {
        "exchanges": lengths([len(dialogue.turns) // 2 for dialogue in dialogues]),
        "words_of_turns": lengths([count_words(turn.text) for turn in turns]),
        "principles": dict(Counter(name for turn in turns for name in turn.principles or ())),
        "test_cases": sum(bool(turn.evaluate) for turn in turns),
    }


def chat_facts(examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a datasheet's facts about chats: numbers of exchanges, words per turn, and principles."""
    messages = [message for example in examples for message in example["messages"] if message["role"] != "system"]
    return {
        "exchanges": lengths(
            [sum(message["role"] == "assistant" for message in example["messages"]) for example in examples]
        ),
        "words_of_turns": lengths([count_words(message["content"]) for message in messages]),
        "principles": dict(
            Counter(name for example in examples for principles in example["principles"] for name in principles)
        ),
    }
