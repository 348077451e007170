"""The two products of a curation, each with a datasheet: an evaluation set in KMP-Bench's formats, a training set."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from maieutic.config.curation import Roles
from maieutic.core.errors import UserError
from maieutic.core.files import read_lines, sha256_of, whole_file, write_json, write_lines
from maieutic.core.jobs import Job
from maieutic.core.records import Item, read_records
from maieutic.curation.leakage import item_texts, set_texts, without_leaks
from maieutic.curation.records import Components, Dialogue, Level, Seed
from maieutic.curation.seeds import for_evaluation
from maieutic.serving.weights import begin, link_folder, write_manifest

log = logging.getLogger(__name__)
ROLES = {"student": "user", "tutor": "assistant"}
CRAFTED: tuple[Level, ...] = ("medium", "hard")  # the levels of the two similar problems of KMP-Skills


class AssembleSets(Job):
    """A curation's split, and what its datasheets say of how it was made.

    answering: by model what answers for it; prompts: the SHA-256 of every stage card and prompt.
    """

    curation: str
    roles: Roles
    answering: dict[str, str]
    prompts: dict[str, str]
    evaluation_share: float
    seed: int


class CleanTrainingSet(Job):
    """A training set without the problems of evaluation sets. near_duplicate: Jaccard similarity."""

    curation: str
    near_duplicate: float
    roles: Roles
    answering: dict[str, str]
    prompts: dict[str, str]


def assemble_sets(
    *, job: AssembleSets, seeds: Path, components: Path, dialogues: Path, out: Path, tests: Path, raw: Path, sheet: Path
) -> None:
    """Write KMP-Skills and KMP-Dialogue of the seeds for evaluation, the dialogues of the others, the datasheet.

    out: KMP-Skills; tests: the dialogues with test cases; raw: chats, before leaks are looked for.
    """
    seed_records = read_records(seeds, Seed)
    tested = for_evaluation(seed_records, job.evaluation_share, job.seed)
    made = [record for record in read_records(components, Components) if record.id in tested]
    dialogue_records = read_records(dialogues, Dialogue)
    write_lines(out, map(skills_record, made))
    for_tests = [dialogue for dialogue in dialogue_records if dialogue.id in tested]
    write_lines(tests, (dialogue.model_dump(exclude_none=True) for dialogue in for_tests))
    texts = {record.id: [record.problem, *problems_in(record)] for record in read_records(components, Components)}
    write_lines(
        raw, (chat_record(dialogue, texts[dialogue.id]) for dialogue in dialogue_records if dialogue.id not in tested)
    )
    licences = {seed.id: seed.licence for seed in seed_records}
    used = sorted(
        {licences[name] for name in (*(record.id for record in made), *(dialogue.id for dialogue in for_tests))}
    )
    content = {
        **made_by(job.curation, job.roles, job.answering, job.prompts),
        "licences": used,
        "sources": dict(Counter(record.source for record in made)),
        "skills": {"file": out.name, **file_facts(out, len(made)), **skill_facts(made)},
        "dialogues": {"file": tests.name, **file_facts(tests, len(for_tests)), **dialogue_facts(for_tests)},
    }
    write_json(sheet, content)


def skills_record(made: Components) -> dict[str, Any]:
    """A line of `kmp_skills` (benchmarks/kmpbench/items.py)."""
    solutions = []
    for solution in made.solutions:
        wrong = (
            {"error_step": solution.feedback.step, "error_reason": solution.feedback.reason}
            if solution.feedback.step
            else {}
        )
        solutions.append({"steps": solution.steps, **wrong})
    return {
        "id": made.id,
        "problem": made.problem,
        "solution": made.solution,
        "answer": made.answer,
        "followups": [as_question(followup.model_dump()) for followup in made.followups],
        "similar": [as_question(made.similar[level].model_dump()) for level in CRAFTED],
        "solutions": solutions,
        "domain": made.domain,
        "grade": made.grade,
        "source": made.source,
    }


def as_question(problem: dict[str, Any]) -> dict[str, Any]:
    """A problem in the words of `kmp_skills`."""
    return {"question": problem["problem"], "solution": problem["solution"], "answer": problem["answer"]}


def problems_in(made: Components) -> list[str]:
    """The problems that were made of a seed."""
    return [problem.problem for problem in (*made.followups, *made.similar.values())]


def chat_record(dialogue: Dialogue, problems: Sequence[str]) -> dict[str, Any]:
    """A training example in chat format. problems: what it is about, for the look for leaks."""
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
    """Write the training set without examples that hold a problem of an evaluation set, as JSON lines and Parquet.

    items: of every selected task of every benchmark; tests: the evaluation sets of every curation.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = {record["id"]: record for record in read_lines(raw)}
    kept, leaked = clean(records, items, tests, job.near_duplicate)
    examples = [records[name] for name in kept]
    write_lines(out, examples)
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    schema = pa.schema([("id", pa.string()), ("messages", pa.list_(message))])
    rows = [{"id": record["id"], "messages": record["messages"]} for record in examples]
    with whole_file(parquet, "wb") as handle:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), handle)
    licences = {seed.id: seed.licence for seed in read_records(seeds, Seed)}
    content = {
        **made_by(job.curation, job.roles, job.answering, job.prompts),
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


def clean(
    records: Mapping[str, Mapping[str, Any]], items: Sequence[Path], tests: Sequence[Path], threshold: float
) -> tuple[list[str], list[Any]]:
    """The names of the examples without a leak, and the leaks. items: of tasks; tests: evaluation sets of curations."""
    texts = {name: example_texts(record) for name, record in records.items()}

    of_tasks = [pair for path in items for pair in item_texts(read_records(path, Item))]
    of_sets = [pair for path in tests for pair in set_texts(str(path), read_lines(path))]
    return without_leaks(texts, [*of_tasks, *of_sets], threshold)


def fetch_curated(*, made: Path, sheet: Path, out: Path) -> None:
    """Bring an evaluation set to where datasets lie. Raises UserError where it is not what its sheet pins."""
    content = json.loads(sheet.read_text(encoding="utf-8"))
    [pin] = [section for section in content.values() if isinstance(section, dict) and section.get("file") == made.name]
    if (digest := sha256_of(made)) != pin["sha256"]:
        raise UserError(str(made), f"expected sha256 {pin['sha256']}, found {digest}", "delete it: it is made anew")
    if not pin["records"]:
        raise UserError(
            str(made),
            "no seed got so far: the set is empty",
            "see the yields in the report of curations (results/curation/NAME/figures.json), give more seeds or better "
            "models, or leave its tasks out of run.tasks",
        )
    with whole_file(out, "wb") as handle:
        handle.write(made.read_bytes())


def serve_tuned(*, tuned: Path, out: Path) -> None:
    """Put tuned weights where those of every tutor lie: links, and a manifest. tuned: their own manifest."""
    folder = out.parent
    begin(folder, str(tuned), False)
    link_folder(folder.name, tuned.parent, folder)
    write_manifest(folder.name, folder)


def example_texts(record: Mapping[str, Any]) -> list[str]:
    """What of a training example may hold a problem: those that it names, and what anybody says in it."""
    return [*record.get("problems", ()), *(message["content"] for message in record["messages"])]


def made_by(curation: str, roles: Roles, answering: Mapping[str, str], prompts: Mapping[str, str]) -> dict[str, Any]:
    """The models of a set by their roles, what answered for them, and the SHA-256 of every stage card and prompt."""
    return {"curation": curation, "roles": roles.model_dump(), "models": dict(answering), "prompts": dict(prompts)}


def file_facts(path: Path, records: int) -> dict[str, Any]:
    """What pins a file."""
    return {"records": records, "sha256": sha256_of(path)}


class Lengths(NamedTuple):
    """Mean, least and most of some numbers; None of none."""

    mean: float | None
    least: int | None
    most: int | None


def lengths(values: Sequence[int]) -> dict[str, Any]:
    """Mean, least and most."""
    if not values:
        return Lengths(None, None, None)._asdict()
    return Lengths(round(mean(values), 2), min(values), max(values))._asdict()


def words(text: str) -> int:
    """Words between blanks."""
    return len(text.split())


def skill_facts(made: Sequence[Components]) -> dict[str, Any]:
    """Counts and distributions of a set of components."""
    return {
        "wrong_solutions": sum(bool(solution.feedback.step) for record in made for solution in record.solutions),
        "right_solutions": sum(not solution.feedback.step for record in made for solution in record.solutions),
        "domains": dict(Counter(record.domain for record in made)),
        "grades": dict(Counter(record.grade for record in made)),
        "words_of_problems": lengths([words(record.problem) for record in made]),
    }


def dialogue_facts(dialogues: Sequence[Dialogue]) -> dict[str, Any]:
    """Exchanges, lengths of turns, principles and test cases (Figure 2)."""
    turns = [turn for dialogue in dialogues for turn in dialogue.turns]
    return {
        "exchanges": lengths([len(dialogue.turns) // 2 for dialogue in dialogues]),
        "words_of_turns": lengths([words(turn.text) for turn in turns]),
        "principles": dict(Counter(name for turn in turns for name in turn.principles or ())),
        "test_cases": sum(bool(turn.evaluate) for turn in turns),
    }


def chat_facts(examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Exchanges, lengths of turns and principles of chats."""
    messages = [message for example in examples for message in example["messages"] if message["role"] != "system"]
    return {
        "exchanges": lengths(
            [sum(message["role"] == "assistant" for message in example["messages"]) for example in examples]
        ),
        "words_of_turns": lengths([words(message["content"]) for message in messages]),
        "principles": dict(Counter(name for example in examples for of in example["principles"] for name in of)),
    }
