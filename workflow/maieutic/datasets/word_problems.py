"""Word problems of your own: one record a problem, with its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping

from maieutic.config.datasets import Source
from maieutic.core.options import options_of
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of

VARIABLES = {"question"}
SEEDS = "seeds"  # the task of a curation, which leaves out and counts the answers that it cannot use
NUMBER = re.compile(
    r"(?:[$\u20ac\u00a3\u00a5\u20b9]\s?)?(?P<minus>-)?(?:[$\u20ac\u00a3\u00a5\u20b9]\s?)?"
    r"(?:(?P<whole>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?!\s*/)(?:\s+(?=\d+/))?)?"
    r"(?:(?P<over>\d+)/(?P<under>\d+))?"
    r"(?:\s*(?:%|\u20ac|\u00b0)|\s+[A-Za-z][A-Za-z .'\u00b2\u00b3]*)?(?<=.)"
)
SHOWN = 20  # faults that a message lists


def solving(records: list[Source], task: str) -> list[Item]:
    """Make one item of each record.

    Fields: `question`, text; `answer`, a number, also with a unit or as a fraction, or the letter of one of the
    question's options ("(A) 5 (B) 6"); `solution`, text, and `id`, both optional. The solution is the reply of the
    human reference. Raises ValueError naming the records and the field at fault.
    """
    items, faults = [], []
    for number, record in enumerate(records):
        question = text_of(record, "question", number)
        written, options = text_of(record, "answer", number), options_of(question)
        answer = final_answer(written, options)
        if answer is None:
            answer = written
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


def final_answer(text: str, options: Mapping[str, str]) -> str | None:
    """Return an answer as the letter of one of the question's options, or as digits; None for any other."""
    letter = text.strip("() .").upper()
    return letter if letter in options else number_in(text)


def number_in(text: str) -> str | None:
    """Return the single number of a text as digits (`$8`, `1,200`, `3/4`, `2 1/2`, `50%`, `7 pens`), or None."""
    match = NUMBER.fullmatch(text.strip())
    if match is None or not re.search(r"\d", text):
        return None
    whole, over, under = (match[name] for name in ("whole", "over", "under"))
    value = float((whole or "0").replace(",", ""))
    if under:
        if not float(under):
            return None
        part = float(over) / float(under)
        value += -part if (whole or "").startswith("-") else part
    return f"{-value if match['minus'] else value:.15g}"


def text_of(record: Source, field: str, number: int) -> str:
    """A field's text; a number is its digits. Raises ValueError where there is none."""
    value = record.get(field)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise ValueError(f"record {number}: {field} is a text or a number, found {value!r}")
    return str(value).strip()
