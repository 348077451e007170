"""Options of multiple-choice problems in a user's file, and answers that are their numbers instead of their texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from maieutic.core.errors import UserError

OPTION_NAME = re.compile(r"(?:options?|choices?|alternatives?|opt)[ _-]*[a-h\d]|[a-h]", re.IGNORECASE)
OPTION_MARK = re.compile(r"(?:^|\s)\(?([A-Ha-h])[).:]\s+")
PLACES = re.compile(r"\s*\d(?:\s*[,;]\s*\d)*\s*")


def options_of(record: Mapping[str, Any]) -> list[str]:
    """Return the texts of a problem's options, in columns of their own or in its question; [] without any."""
    named = {
        str(name): str(value).strip() for name, value in record.items() if OPTION_NAME.fullmatch(str(name).strip())
    }
    if len(options := [text for text in named.values() if text not in ("", "None")]) > 1:
        return options
    question = str(record.get("question") or "")
    marks = list(OPTION_MARK.finditer(question))
    if [mark[1].upper() for mark in marks] != list("ABCDEFGH"[: len(marks)]) or len(marks) < 2:
        return []
    ends = [*(mark.start() for mark in marks[1:]), len(question)]
    return [question[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]


def is_place(record: Mapping[str, Any], answer: str) -> bool:
    """Return True for an answer that is the number of one of the record's options, and no option's own text."""
    options = options_of(record)
    if not options or not PLACES.fullmatch(answer) or answer.strip() in options:
        return False
    return all(1 <= int(number) <= len(options) for number in re.findall(r"\d", answer))


def check_places(path: str, answers: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    """Raise UserError for answers that are numbers of options. answers: each record with its answer."""
    if places := [answer for record, answer in answers if is_place(record, answer)]:
        problem = f"{len(places):,} answers are numbers of options, such as {places[0]!r}"
        raise UserError(path, problem, "write the text of the right option, or its letter as (A), in each record")
