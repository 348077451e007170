"""Readers of published replies to MathTutorBench's tasks.

`generations-MODEL-TASK.json` contains the replies of one tutor to one task on MathDialBridge. Source:
eth-lre/mathtutorbench, `results/`. `example_model_solutions.jsonl` contains four models' solutions of GSM8K's test
problems. Source: openai/grade-school-math; Cobbe et al., Training Verifiers to Solve Math Word Problems, 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maieutic.config.cards import CARDS
from maieutic.core.errors import UserError
from maieutic.core.records import Item
from maieutic.replies.foreign_formats import RecordedForm

UTTERANCE_FIELD = "generated_teacher_utterance"


def task_of_file(path: Path) -> str:
    """Return the task at the end of a file's name. Raises UserError if the name does not end with a known task."""
    tasks = sorted((card.stem for card in (CARDS / "mathtutorbench").glob("*.yaml")), key=len, reverse=True)
    for task in tasks:
        if path.stem.endswith(task):
            return task
    raise UserError(
        str(path),
        "expected a file name that ends with the name of a task, as in generations-MODEL-TASK.json",
        "rename the file so that its name ends with the name of its task",
    )


def tutor_reply(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the reply in a record as a mapping, with the placeholder `tutor` as the tutor's name."""
    return {"tutor": str(record[UTTERANCE_FIELD])}


def bridge_item_of(record: Mapping[str, Any]) -> Item:
    """Return a placeholder item with a record's problem and turns, which identify the item of the run."""
    variables = {"question": record["problem"], "dialog_history": record["dialog_formatted"]}
    return Item(id="recorded", task="recorded", cluster="recorded", vars=variables, reference={})


def solutions_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return each model's solution in a record of GSM8K's published solutions."""
    return {name: str(field["solution"]) for name, field in record.items() if isinstance(field, dict)}


def gsm8k_item_of(record: Mapping[str, Any]) -> Item:
    """Return a placeholder item with a record's problem, which identifies the item of the run."""
    variables = {"question": record["question"]}
    return Item(id="recorded", task="recorded", cluster="recorded", vars=variables, reference={})


RECORDED = {
    "mathtutorbench": RecordedForm("mathtutorbench", task_of_file, tutor_reply, bridge_item_of, several=False),
    "gsm8k_solutions": RecordedForm("mathtutorbench", lambda path: "problem_solving", solutions_of, gsm8k_item_of),
}
