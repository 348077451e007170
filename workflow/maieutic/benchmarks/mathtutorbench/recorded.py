"""Replies in MathTutorBench's released files, `generations-MODEL-TASK.json`: one tutor's, to a task of MathDialBridge.

Source: eth-lre/mathtutorbench, `results/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maieutic.config.cards import CARDS
from maieutic.core.errors import UserError
from maieutic.core.records import Item
from maieutic.replies.forms import RecordedForm

SAID = "generated_teacher_utterance"


def task_of(path: Path) -> str:
    """Return the task that ends a file's name. Raises UserError for a name that ends in none."""
    tasks = sorted((card.stem for card in (CARDS / "mathtutorbench").glob("*.yaml")), key=len, reverse=True)
    for task in tasks:
        if path.stem.endswith(task):
            return task
    raise UserError(str(path), "expected a name that ends in a task, as generations-MODEL-TASK.json", "rename the file")


def tutors(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the one tutor's reply."""
    return {"tutor": str(record[SAID])}


def item(record: Mapping[str, Any]) -> Item:
    """Return the dialogue, by its problem and its turns."""
    variables = {"question": record["problem"], "dialog_history": record["dialog_formatted"]}
    return Item(id="recorded", task="recorded", cluster="recorded", vars=variables, reference={})


RECORDED = {"mathtutorbench": RecordedForm("mathtutorbench", task_of, tutors, item, several=False)}
