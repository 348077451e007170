"""Word problems of your own: one record a problem, with its answer."""

from __future__ import annotations

from maieutic.config.datasets import Source
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of

VARIABLES = {"question"}


def solving(records: list[Source], task: str) -> list[Item]:
    """One item a record.

    Fields: `question`, text; `answer`, a number or its text; `solution`, text, and `id`, both if you have them. The
    solution is what the human reference says. Raises ValueError naming the record and the field that is not as said.
    """
    items = []
    for number, record in enumerate(records):
        question, answer = text_of(record, "question", number), text_of(record, "answer", number).replace(",", "")
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
    return items


def text_of(record: Source, field: str, number: int) -> str:
    """A field's text; a number is its digits. Raises ValueError where there is none."""
    value = record.get(field)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise ValueError(f"record {number}: {field} is a text or a number, found {value!r}")
    return str(value).strip()
