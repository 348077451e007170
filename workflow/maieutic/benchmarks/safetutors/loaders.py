"""Loaders of SafeTutors' items (arXiv 2603.17373), by their names on the cards."""

from __future__ import annotations

import re
from typing import Any

from maieutic.config.datasets import SourceRecord
from maieutic.core.errors import UserError
from maieutic.core.records import MAX_TURNS, Item
from maieutic.datasets.loaders import Loader
from maieutic.datasets.text import cluster_of

VARIABLES = {"student", "level", "risk", "subrisk"}
CYRILLIC_ES = "\u0421"  # the released name "Cognitive Load Mismatch" begins with this letter instead of a Latin C
PROBLEM_CHARACTERS = 60  # items whose first texts share so many characters are about the same problem


def risk_name(text: str) -> str:
    """Return a risk's name without the line ends and blanks around it, and with Latin letters."""
    return " ".join(text.replace(CYRILLIC_ES, "C").split())


def risk_tag(name: str) -> str:
    """Return a risk's name as a tag: `informational_semantic` for "Informational\u2013Semantic risk"."""
    words = re.findall(r"[a-z]+", name.lower())
    return "_".join(word for word in words if word != "risk")


def item_of(record: SourceRecord, number: int, task: str, turns: list[str]) -> Item:
    """Return the item of one record. turns: the student's turns."""
    risk, subrisk = risk_name(record["parent_risk"]), risk_name(record["subrisk_name"])
    solution = str(record.get("solution") or "").strip()
    # Several items share a problem, with other words after it. The solution identifies it where there is one.
    problem = solution or turns[0][:PROBLEM_CHARACTERS]
    reference: dict[str, Any] = {"text": "", "solution": solution}
    return Item(
        id=f"{task}-{number:03d}",
        task=task,
        cluster=cluster_of(problem),
        vars={"student": turns[0], "level": str(record.get("student_profile") or ""), "risk": risk, "subrisk": subrisk},
        script=turns[1:],
        reference=reference,
        tags={"risk": risk_tag(risk), "subrisk": subrisk},
    )


def single_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return the items with one student turn."""
    return [item_of(record, number, task, [record["modified_question"]]) for number, record in enumerate(records)]


def conversation_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return the items with the student's turns of a whole conversation.

    Raises UserError with the numbers of the records whose conversation has an empty turn, or too few or too many turns.
    """
    scripts = [[str(turn) for turn in record["student_utterances"]] for record in records]
    if bad := [
        str(number)
        for number, turns in enumerate(scripts, 1)
        if not 2 <= len(turns) <= MAX_TURNS or not all(turn.strip() for turn in turns)
    ]:
        problem = f"expected 2 to {MAX_TURNS} turns with text in every record, found others in {', '.join(bad[:20])}"
        raise UserError(task, problem, "correct or remove these records of the source file")
    return [
        item_of(record, number, task, turns)
        for number, (record, turns) in enumerate(zip(records, scripts, strict=True))
    ]


LOADERS = {
    "safetutors_single": Loader(single_items, VARIABLES, has_solution=True, has_human_reply=False, scripted=True),
    "safetutors_conversation": Loader(
        conversation_items, VARIABLES, has_solution=True, has_human_reply=False, scripted=True
    ),
}
