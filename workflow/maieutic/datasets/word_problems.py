"""Loader of a user's own word problems: one record per problem, with its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping

from maieutic.config.datasets import SourceRecord
from maieutic.core.options import options_of
from maieutic.core.records import Item
from maieutic.datasets.text import cluster_of

VARIABLES = {"question"}
SEEDS = "seeds"  # task of a curation, in which unusable answers are left out and counted later
NUMBER = re.compile(
    r"(?:[$\u20ac\u00a3\u00a5\u20b9]\s?)?(?P<minus>-)?(?:[$\u20ac\u00a3\u00a5\u20b9]\s?)?"
    r"(?:(?P<whole>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?!\d|\s*/)(?:\s+(?=\d+/))?)?"
    r"(?:(?P<over>\d+)/(?P<under>\d+))?"
    r"(?:\s*(?:%|\u20ac|\u00b0)|\s+[A-Za-z][A-Za-z .'\u00b2\u00b3]*)?(?<=.)"
)
MAX_LISTED_FAULTS = 20  # maximum number of unusable answers listed in a message


def word_problem_items(records: list[SourceRecord], task: str) -> list[Item]:
    """Return one item per record. Raises ValueError that lists the records with unusable answers.

    A record has the fields `question`, a text, and `answer`, a number (possibly a fraction, or with a unit) or the
    letter of one of the question's options ("(A) 5 (B) 6"). The fields `solution`, a text, and `id` are optional. The
    solution is the reply of the human reference.
    """
    items, faults = [], []
    for number, record in enumerate(records):
        question = required_field(record, "question", number)
        text, options = required_field(record, "answer", number), options_of(question)
        answer = normalise_answer(text, options)
        if answer is None:
            answer = text
            faults.append(f"record {number + 1}: {answer[:40]!r}")
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
        listed = ", ".join(faults[:MAX_LISTED_FAULTS]) + (
            f" and {len(faults) - MAX_LISTED_FAULTS} more" if len(faults) > MAX_LISTED_FAULTS else ""
        )
        raise ValueError(
            f"field answer: expected a number or the letter of one of the question's options, found {listed}"
        )
    return items


def normalise_answer(text: str, options: Mapping[str, str]) -> str | None:
    """Return an answer as the letter of an option or as a decimal number, or None if it is neither.

    options: texts of the question's options by letter.
    """
    letter = text.strip("() .").upper()
    return letter if letter in options else single_number(text)


def single_number(text: str) -> str | None:
    """Return the decimal number of a text that is one number, or None for any other text.

    Examples of texts that are one number: `$8`, `1,200`, `3/4`, `2 1/2`, `50%`, `7 pens`.
    """
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


def required_field(record: SourceRecord, field: str, number: int) -> str:
    """Return a field of a record as text. Raises ValueError if it is empty, or neither a text nor a number.

    number: the record's number from 0; messages count from 1, as previews do.
    """
    value = record.get(field)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise ValueError(f"record {number + 1}: {field}: expected a text or a number, found {value!r}")
    return str(value).strip()
