"""Passages from which parsers read their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from built_replies import build
from maieutic.core.records import Item, Reply, Turn
from maieutic.graders.answers import read_final
from maieutic.graders.steps import read_step
from maieutic.graders.yes_no import read_yes_no
from maieutic.replies.parsing import grades_of, shortest_passage
from test_built_replies import TABLES, parse

READERS: dict[str, Callable[[str], object]] = {
    "number": lambda text: read_final(text).value,
    "step": lambda text: read_step(text).value,
    "yes_no": lambda text: read_yes_no(text).value,
}


@pytest.mark.parametrize(("task", "text", "passage"), [
    # the last of two equal statements, not the first occurrence of its number
    ("number", "There are 12 boxes.\nThe answer is 12.", "The answer is 12."),
    ("number", "12 + 3 = 15\n**Final answer: 12**\n\nLet me know if you have questions.", "**Final answer: 12**"),
    ("number", "So it is \\boxed{7}. Great job!", "So it is \\boxed{7}."),
    # a note that repeats the number, and a check after the answer
    ("number", "The final answer is **5**.\n\nNote: a common mistake is to count only 5 of them.", "The final answer is **5**."),
    # a verdict before steps that are called right
    ("step", "Step 3 is wrong. The other steps are right.", "Step 3 is wrong."),
    ("step", "Step 1 is fine.\nThe first error is in step 2.\nStep 3 follows from it.", "The first error is in step 2."),
    ("yes_no", "I checked it.\nYes, the solution is incorrect.\nWell tried!", "Yes, the solution is incorrect."),
    # letters outside the basic plane count as one
    ("number", "\U0001f600 \U0001f600\nAnswer: 5", "Answer: 5"),
])  # fmt: skip
def test_a_passage_is_the_last_statement_of_the_value(task: str, text: str, passage: str) -> None:
    reader = READERS[task]
    value = reader(text)
    assert value is not None
    span = shortest_passage(lambda part: reader(part) == value, text)
    assert span is not None and text[slice(*span)] == passage


@pytest.mark.parametrize("text", ["5 " * 30_000, "", " \n "])
def test_overlong_and_blank_texts_have_no_passage(text: str) -> None:
    assert shortest_passage(lambda part: True, text) is None


def test_a_value_that_needs_the_whole_text_has_the_whole_text_as_its_passage() -> None:
    text = "one\ntwo\nthree"
    assert shortest_passage(lambda part: part == text, text) == (0, len(text))


def test_a_value_that_no_passage_decides_has_no_passage() -> None:
    assert shortest_passage(lambda part: True, "1 one\n2 two") is None


def test_a_refused_turn_leaves_the_grades_of_earlier_turns() -> None:
    names = ("question", "followup_1", "followup_2")
    reference = {"answers": ["4", "5", "6"], "replies": ["", "", ""], "text": ""}
    item = Item(id="i", task="t", cluster="c", vars=dict.fromkeys(names, "How many?"), reference=reference)
    reply = Reply(id="i", task="t", tutor="x", key="k", turns=[Turn(messages="m", text="It is 4.")], error="400: no")
    grades = [grade for grade in grades_of("round_answers", item, reply) if grade.scoring == "robust"]
    assert [(grade.value, grade.refused) for grade in grades] == [(4.0, False), (None, True), (None, True)]


@pytest.mark.slow
def test_a_reader_gets_the_same_value_from_the_passage_alone(data: Path) -> None:
    values = lines = 0
    for reply in build(TABLES / "last_lines_second.yaml", data, 5, 1):
        task, text = reply["task"], reply["text"]
        value = parse(task, text)
        if value is None:
            continue
        span = shortest_passage(lambda part, task=task, value=value: parse(task, part) == value, text)
        values += 1
        if span is not None:
            assert parse(task, text[slice(*span)]) == value
            lines += "\n" not in text[slice(*span)]
    assert values > 300 and lines / values > 0.85


def grade_of(grader: str, reference: dict[str, object], *texts: str) -> list[tuple[object, str | None]]:
    """Return each robust grade's value and the text of its span."""
    turns = [Turn(messages="m", text=text) for text in texts]
    names = ("question", "followup_1", "followup_2")
    item = Item(id="i", task="t", cluster="c", vars=dict.fromkeys(names, "How many?"), reference=reference)
    reply = Reply(id="i", task="t", tutor="x", key="k", turns=turns)
    passages = []
    for grade in grades_of(grader, item, reply):
        if grade.scoring == "robust":
            turn, start, end = grade.span or (0, 0, 0)
            passages.append((grade.value, texts[turn][start:end] if grade.span else None))
    return passages


def test_a_grade_has_the_turn_of_its_passage() -> None:
    texts = ("It is 4.\nThe answer is 4.", "Now 5.", "I do not know.")
    grades = grade_of("round_answers", {"answers": ["4", "5", "6"], "replies": [], "text": ""}, *texts)
    assert grades == [(4.0, "The answer is 4."), (5.0, "Now 5."), (None, None)]


def test_graders_of_whole_replies_have_no_passage() -> None:
    assert grade_of("question", {"text": "What?"}, "What is 4 + 4?")[0][1] is None
