"""Options of multiple-choice problems in a user's file, and answers that are their numbers instead of their texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from maieutic.core.errors import UserError, raise_all
from maieutic.datasets.word_problems import single_number

OPTION_NAME = re.compile(r"(?:options?|choices?|alternatives?|opt)[ _-]*[a-h\d]|[a-h]", re.IGNORECASE)
OPTION_MARK = re.compile(r"(?:^|\s)\(?([A-Ha-h])[).:]\s+")
NUMBERED = re.compile(r"(\D+)(\d)(\D.*|)")  # name of a column of a series
OPTION_WORD = re.compile(r"answer|option|choice|alternative|antwort|réponse|respuesta", re.IGNORECASE)
LONE_WORD = re.compile(r"[^\W\d_]+:?")  # a question of one word, without a sign or a number
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


def numbered_options(records: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the columns whose names differ in a number alone, such as `Answer 1` and `Answer 2`, by their rest."""
    names = dict.fromkeys(str(name) for record in records for name in record)
    groups: dict[str, list[re.Match[str]]] = {}
    for match in filter(None, map(NUMBERED.fullmatch, names)):
        groups.setdefault(f"{match[1]}{match[3]}", []).append(match)
    return {
        common: [match[0] for match in group]
        for common, group in groups.items()
        if len(group) > 1 and [int(match[2]) for match in group] == list(range(1, len(group) + 1))
        if OPTION_WORD.search(common)
    }


def is_place(record: Mapping[str, Any], answer: str) -> bool:
    """Return True for an answer that is the number of one of the record's options, and no option's own text."""
    options = options_of(record)
    if not options or not PLACES.fullmatch(answer) or answer.strip() in options:
        return False
    return all(1 <= int(number) <= len(options) for number in re.findall(r"\d", answer))


def check_places(path: str, answers: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    """Raise UserError for answers that are numbers of options. answers: each record with its answer."""
    places = [answer for record, answer in answers if is_place(record, answer)]
    answered = [(record, answer) for record, answer in answers if answer.strip()]
    for group in numbered_options([record for record, _ in answers]).values():
        # Any series of columns may be options if no answer is anything but one of their numbers.
        if not places and all(
            PLACES.fullmatch(answer)
            and all(1 <= int(number) <= len(group) for number in re.findall(r"\d", answer))
            and answer.strip() not in [str(record.get(name)).strip() for name in group]
            for record, answer in answered
        ):
            places = [answer for _, answer in answered]
    if places:
        problem = f"{len(places):,} answers are numbers of options, such as {places[0]!r}"
        raise UserError(path, problem, "write the text of the right option, or its letter as (A), in each record")


def check_questions(path: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError for one question with several answers, and for rows that may be totals.

    records: problems with the fields `question` and `answer`. A total has one word where other questions are sentences.
    """
    answers: dict[str, dict[str, str]] = {}  # texts of the answers to each question, by their value
    questions = [str(record.get("question") or "").strip() for record in records]
    for record, question in zip(records, questions, strict=True):
        if question:
            text = str(record.get("answer")).strip()
            answers.setdefault(" ".join(question.casefold().split()), {}).setdefault(single_number(text) or text, text)
    faults = []
    if apart := [(question, list(texts.values())) for question, texts in answers.items() if len(texts) > 1]:
        question, words = apart[0]
        problem = f"{len(apart):,} questions have several answers, such as {question[:60]!r}: {' and '.join(words)}"
        faults.append(UserError(path, problem, "keep the right answer of each question"))
    sentences = sum(len(question.split()) > 2 for question in questions)
    single = [question for question in questions if LONE_WORD.fullmatch(question)]
    if single and 2 * sentences > len(questions) and len(single) < 3:
        problem = f"{len(single):,} questions are one word, such as {single[0]!r}, as the name of a total"
        faults.append(
            UserError(path, problem, "delete the rows that hold totals, and write the other questions in full")
        )
    raise_all(faults)
