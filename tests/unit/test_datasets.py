"""Tests of loaders: published counts on the real files, the same shapes on the demo's files."""

from __future__ import annotations

from pathlib import Path

import pytest
from maieutic.config.cards import CARDS, read_card
from maieutic.config.datasets import Dataset
from maieutic.core.errors import UserError
from maieutic.core.records import Item
from maieutic.datasets import word_problems
from maieutic.datasets.registry import LOADERS
from maieutic.datasets.sampling import sample_items
from maieutic.datasets.sources import read_checked_source, read_source
from maieutic.preparation.items import MakeItems, make_items
from task_items import REGISTRY, items_of_card

TASKS = sorted(path.stem for path in (CARDS / "mathtutorbench").glob("*.yaml"))
PUBLISHED = {
    "problem_solving": 1319, "socratic_questioning": 1319, "solution_correctness": 2004, "mistake_location": 2004,
    "mistake_correction": 1002, "scaffolding_generation": 1150, "scaffolding_generation_hard": 327,
    "pedagogy_following": 1150, "pedagogy_following_hard": 327,
}  # fmt: skip

SOLVING_JOB = MakeItems(benchmark="mathtutorbench", task="problem_solving", form="jsonl", seed=1)


def items_of(task: str, folder: Path, edition: str) -> list[Item]:
    return items_of_card(read_card(CARDS / "mathtutorbench" / f"{task}.yaml").card, folder, edition)


@pytest.mark.parametrize("task", TASKS)
def test_published_counts(task: str, data: Path) -> None:
    items = items_of(task, data, "published")
    card = read_card(CARDS / "mathtutorbench" / f"{task}.yaml").card
    assert len(items) == PUBLISHED[task] == card.items
    assert len({item.id for item in items}) == len(items)
    assert all(set(item.vars) == LOADERS[card.loader].variables for item in items)


def test_average_turns_are_the_papers(data: Path) -> None:
    """Table 1: 3.08 and 5.78 turns, including the reference turn."""
    for task, printed in (("scaffolding_generation", 3.08), ("scaffolding_generation_hard", 5.78)):
        turns = [item.reference["turns"] for item in items_of(task, data, "published")]
        assert round(sum(turns) / len(turns), 2) == printed


def test_mathdial_bridge_holds_210_bridge_items_without_a_problem(data: Path) -> None:
    """M5: 148 + 62 Bridge items have no problem text."""
    counts = [
        sum(item.tags["source"] == "bridge" and not item.vars["question"] for item in items_of(task, data, "published"))
        for task in ("scaffolding_generation", "scaffolding_generation_hard")
    ]
    assert counts == [148, 62]


def test_location_joins_steps_by_a_backslash_and_an_n_and_loses_the_last_line(data: Path) -> None:
    item = items_of("mistake_location", data, "published")[0]
    assert item.vars["student_solution"].startswith("Step 1 - Since Ignatius owns 4 bicycles")
    assert "\\nStep 2 - " in item.vars["student_solution"] and "\n" not in item.vars["student_solution"]
    assert "Step 5" not in item.vars["student_solution"], "the final answer is not a step"
    assert item.vars["student_solution_lines"].count("\n") == 3


def test_sixteen_errors_sit_in_the_line_that_the_prompt_does_not_show(data: Path) -> None:
    items = [item for item in items_of("mistake_location", data, "published") if item.reference["step"]]
    hidden = [item for item in items if f"Step {item.reference['step']} - " not in item.vars["student_solution"]]
    assert len(hidden) == 16
    assert all(f"\nStep {item.reference['step']} - " in f"\n{item.vars['student_solution_whole']}" for item in items)


def test_the_history_ends_before_the_student_first_speaks(data: Path) -> None:
    """M4: the released loader keeps only the teacher's turns before the student's first."""
    items = items_of("mistake_correction", data, "published")
    assert not any("Student:" in item.vars["dialog_history"] for item in items)
    assert items[0].vars["dialog_history"] == "Teacher: Tell me your solution"


def test_a_larger_limit_contains_a_smaller_one(data: Path) -> None:
    items = items_of("problem_solving", data, "published")
    small, large = (sample_items(items, limit, seed=1) for limit in (40, 60))
    assert len(small) == 40 and {item.id for item in small} < {item.id for item in large}
    assert small == [item for item in items if item in small], "source order is kept"
    assert sample_items(items, 40, seed=2) != small
    assert sample_items(items, 5000, seed=1) == items


@pytest.mark.parametrize(("damage", "expected"), [
    (lambda text: text[:-40], r":12: expected a JSON record"),
    (lambda text: text + text.splitlines()[0] + "\n", "expected 12 records, found 13"),
    (lambda text: text.replace('"answer"', '"solution"', 1), "record 0: field answer is missing"),
    (lambda text: text.replace("greenhouse", "glasshouse", 1), "expected sha256 [0-9a-f]{64}, found"),
    (lambda text: "", "expected 12 records, found 0"),
    (lambda text: text.replace("{", "[1] {", 1), r":1: expected a JSON record"),
], ids=["truncated", "one too many", "missing field", "altered", "empty", "invalid JSON"])  # fmt: skip
def test_a_damaged_source_is_refused_by_name(damage: object, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text(damage(Path("resources/demo/gsm8k/test.jsonl").read_text(encoding="utf-8")), encoding="utf-8")
    dataset = REGISTRY["gsm8k"]
    with pytest.raises(UserError, match=expected) as refusal:
        read_checked_source(path, dataset, dataset.file_of("gsm8k", "demo"), "test.jsonl")
    assert "\n" not in str(refusal.value) and "Fix:" in str(refusal.value)


def test_a_truncated_json_list_and_bad_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "dataset.json"
    path.write_bytes(Path("resources/demo/stepverify/dataset.json").read_bytes()[:-10])
    with pytest.raises(UserError, match="expected a JSON list"):
        read_source(path, "json")
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(UserError, match="found invalid UTF-8 at byte 7"):
        read_source(path, "jsonl")


def test_an_unpinned_dataset_refuses_to_run() -> None:
    entry = REGISTRY["gsm8k"].model_dump()
    entry["published"]["sha256"] = None
    with pytest.raises(UserError, match=r"datasets.gsm8k.published: sha256 or records is null.*Fix: run `maieutic pin"):
        Dataset.model_validate(entry).file_of("gsm8k", "published")
    entry["published"]["url"] = None
    with pytest.raises(
        UserError, match=r"datasets.gsm8k.published: .* is null.*Fix: set sha256 \(`sha256sum FILE`\) and records"
    ):
        Dataset.model_validate(entry).file_of("gsm8k", "published")


def test_a_source_that_the_loader_cannot_read_is_one_clear_error(tmp_path: Path) -> None:
    source = tmp_path / "gsm8k.source"
    source.write_text('{"question": 5, "answer": "#### 5"}\n', encoding="utf-8")
    with pytest.raises(UserError, match="loader gsm8k_solving cannot read the file"):
        make_items(job=SOLVING_JOB, source=source, pictures=[], out=tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_word_problems_of_users() -> None:
    """An answer is a number or its text; an invalid value is refused with its record and field."""
    items = word_problems.word_problem_items(
        [{"question": "a?", "answer": 12}, {"id": "x", "question": "b?", "answer": "1,200 ", "solution": "So."}], "t"
    )
    assert [item.reference["answer"] for item in items] == ["12", "1200"] and items[1].id == "x"
    assert items[1].reference["text"] == "So.\nFinal answer: 1200"
    choice = {"question": "What is 3 x 4? (A) 7 (B) 12", "answer": "(b)"}
    assert word_problems.word_problem_items([choice], "t")[0].reference["answer"] == "B"
    for record, problem in (({"answer": 1}, "record 1: question"), ({"question": "?", "answer": None}, "record 1: answer"),
                        ({"question": "?", "answer": True}, "found True"), ({"question": " ", "answer": 1}, "question: expected a text or a number")):  # fmt: skip
        with pytest.raises(ValueError, match=problem):
            word_problems.word_problem_items([record], "t")
