"""Word problems of your own: one record a problem, with its answer."""

from __future__ import annotations

import math

from maieutic.config.datasets import Source
from maieutic.core.options import options_of
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of

VARIABLES = {"question"}
SEEDS = "seeds"  # the task of a curation, which leaves out and counts the answers that it cannot use
SHOWN = 20  # faults that a message lists


def solving(records: list[Source], task: str) -> list[Item]:
    """One item a record.

    Fields: `question`, text; `answer`, a number, or the letter of one of the question's options ("(A) 5 (B) 6");
    `solution`, text, and `id`, both optional. The solution is what the human reference says. Raises ValueError naming
    the record and the field that is not as said.
    """
    items, faults = [], []
    for number, record in enumerate(records):
        question = text_of(record, "question", number)
        answer = final_answer(text_of(record, "answer", number), question)
        if answer not in options_of(question) and not is_number(answer):
            faults.append(f"record {number}: {answer[:40]!r}")
        solution = str(record.get("solution") or "").strip()
        items.append(
            Item(
                id=str(record.get("id") or f"problem-{number:04d}"),
                task=task,
                cluster=cluster_of(question),
                vars={"question": question},
                reference={"answer": answer, "text": f"{solution}\nFinal answer: {answer}".strip()},
            )
        )
    if faults and task != SEEDS:
        listed = ", ".join(faults[:SHOWN]) + (f" and {len(faults) - SHOWN} more" if len(faults) > SHOWN else "")
        raise ValueError(f"answer is a number or the letter of one of the question's options, found {listed}")
    return items


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def final_answer(text: str, question: str) -> str:
    """Return an answer as the letter of one of the question's options, or without the commas of a number."""
    letter = text.strip("() .").upper()
    return letter if letter in options_of(question) else text.replace(",", "")


def text_of(record: Source, field: str, number: int) -> str:
    """A field's text; a number is its digits. Raises ValueError where there is none."""
    value = record.get(field)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise ValueError(f"record {number}: {field} is a text or a number, found {value!r}")
    return str(value).strip()
