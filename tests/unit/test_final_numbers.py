"""Tests of the robust parser of final numbers: a table of cases as a person reads them, with math-verify as an oracle."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from maieutic.core.records import Item
from maieutic.graders.answers import (
    FinalAnswer,
    calculation_result,
    grade_answer,
    marks_in,
    read_final,
    without_brackets,
)
from maieutic.graders.numerals import numerals, parse_digits
from maieutic.graders.reading import plain_notation

TABLE: dict[str, list[Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "tables/final_numbers.yaml").read_text(encoding="utf-8")
)
RULES = TABLE.pop("ambiguous")
CASES = [(text, value) for group in TABLE.values() for text, value in group]
CASES += [(text, value) for rule in RULES for text, value in rule["cases"]]


def same(read: float | None, value: float | None) -> bool:
    return read == value if None in (read, value) else math.isclose(float(read or 0), float(value or 0), rel_tol=1e-9)


@pytest.mark.parametrize(("text", "value"), CASES)
def test_a_reply_is_read_as_a_person_reads_it(text: str, value: float | None) -> None:
    read = read_final(text)
    assert same(read.value, value), read
    assert (read.why_none is None) == (value is not None)


def test_every_rule_for_what_is_ambiguous_has_cases_and_the_docs_name_their_file() -> None:
    page = Path("docs/reading-answers.md").read_text(encoding="utf-8")
    assert "`tests/tables/final_numbers.yaml`" in page and "`ambiguous`" in page
    assert len(RULES) >= 35 and all(rule["rule"] and rule["cases"] for rule in RULES)


@pytest.mark.parametrize(("text", "right"), [
    ("4.0000004", True), ("3.9999996", True), ("4.00001", False), ("3.99999", False), ("4.0001", False),
])  # fmt: skip
def test_a_number_is_right_within_a_millionth(text: str, right: bool) -> None:
    """The noise of a float is tolerated, a rounded or truncated result is not."""
    item = Item(id="i", task="t", cluster="c", vars={}, reference={"answer": "4"})
    for scoring in ("robust", "paper_compat"):
        [read] = grade_answer(item, f"Final answer: {text}", scoring)
        assert (read.value, read.correct) == (float(text), right), scoring
    large = Item(id="i", task="t", cluster="c", vars={}, reference={"answer": "4000000000"})
    [read] = grade_answer(large, "Final answer: 4000000001", "robust")
    assert read.correct is True, "a billionth of a large number"
    [read] = grade_answer(large, "Final answer: 4000000005", "robust")
    assert read.correct is False


def test_numbers_have_a_position_and_a_circumstance() -> None:
    text = "The 3 friends pay $5 each for 2 days: 30"
    assert [(numeral.text, numeral.circumstance) for numeral in numerals(text)] == [
        ("3", True), ("$5", True), ("2", True), ("30", False),
    ]  # fmt: skip
    assert [text[numeral.start : numeral.end].strip() for numeral in numerals(text)] == ["3", "$5", "2", "30"]


@pytest.mark.parametrize(("content", "value", "why"), [
    ("12", 12, None),
    ("x = 3 = 4", 4, None),  # the end of the equation
    ("n = 2 + 3", None, "a calculation without its result"),
    ("3, 4", None, "several numbers in one box"),
    ("3, 4 in 5 days", None, "several numbers in one box"),
    ("total=5 items=7", 7, None),
    ("5 and 5", 5, None),
    (r"\frac{1,250.5}{2,501}", 0.5, None),
    (r"\frac{1.5}{0}", None, "no number"),
])  # fmt: skip
def test_a_box_is_read_by_itself(content: str, value: float | None, why: str | None) -> None:
    final = read_final(f"So \\boxed{{{content}}}")
    assert final.value == (None if value is None else pytest.approx(value)) and bool(final.why_none) is (value is None)
    if why and "no number" not in why:
        assert final.why_none == why and content.replace("n = ", "")[-1] in final.text


def test_a_box_with_one_number_in_two_spellings_gives_the_first() -> None:
    assert read_final("So \\boxed{5 and 5.0}").text == "5"


def test_a_number_of_more_than_300_digits_is_infinite() -> None:
    assert parse_digits("1,234.5", ",", ".") == 1234.5 and parse_digits("1.234,5", ".", ",") == 1234.5
    assert parse_digits("1" * 300, "", "") == float("1" * 300)
    assert parse_digits("0." + "0" * 299, "", ".") == math.inf


UNITS = "a quantity in two units"
NUMERALS: dict[str, list[tuple[float, str, bool, str | None]]] = {
    # numbers of each text: value, text, True for a circumstance, reason why it is not an answer
    "3 hundred thousand": [(300000, "3 hundred thousand", False, None)],
    "2 Thousands": [(2000, "2 Thousands", False, None)], "2 THOUSAND": [(2000, "2 THOUSAND", False, None)],
    "5-million": [(5000000, "5-million", False, None)], "$5m": [(5000000, "$5m", False, None)],
    "5 km": [(5, "5", False, None)], "1.5E3": [(1500, "1.5E3", False, None)],
    "12:30": [(12, "12", False, "a time or a ratio"), (30, "30", False, "a time or a ratio")],
    "7 and -3": [(7, "7", False, None), (-3, "-3", False, None)],
    "3-5 apples": [(3, "3", False, "a range"), (5, "5", False, "a range")],
    "5 to 5": [(5, "5", False, None), (5, "5", False, None)],
    "5-3": [(5, "5", False, None), (3, "3", False, None)],
    "between 4 and 6": [(4, "4", True, "a range"), (6, "6", False, "a range")],
    "from 3 to 5": [(3, "3", True, None), (5, "5", False, None)],
    "2 hours 1 minute": [(2, "2", False, UNITS), (1, "1", False, UNITS)],
    "1 hour 30 miles": [(1, "1", False, None), (30, "30", False, None)],
    "9 apples, 5 feet 3 inches": [(9, "9", False, None), (5, "5", False, UNITS), (3, "3", False, UNITS)],
    "2nd": [(2, "2", True, None)], "1. five apples": [(1, "1", True, None)], "step 2": [(2, "2", True, None)],
    "step # 2": [(2, "2", True, None)], "step. 2": [(2, "2", False, None)], "No. 5": [(5, "5", True, None)],
    "Step's 2": [(2, "2", False, None)], "1/0 and 5": [(5, "5", False, None)],
    "9e307 thousand, then 5": [(5, "5", False, None)],
    "3 dollars and 20 cents, 7 apples": [(3.2, "3", False, None), (7, "7", False, None)],
    "It ran for 5 m": [(5, "5 m", False, None)],
    "3 to 5 to 7": [(3, "3", False, "a range"), (5, "5", False, "a range"), (7, "7", False, "a range")],
    "all 3": [(3, "3", True, None)], "(step) 3": [(3, "3", False, None)], "the girls' 3": [(3, "3", False, None)],
    "step X 2": [(2, "2", False, None)], "when the girls' 3": [(3, "3", True, None)], "US$5": [(5, "$5", False, None)],
    "H2O and x-5": [(5, "5", False, None)],
}  # fmt: skip


@pytest.mark.parametrize(("text", "read"), [
    ("10\u00b2 and 10\u207b\u00b9\u00b2", "10^2 and 10^-12"),
    ("3\u00bd", "3 1/2"),
    ("25 cm\u00b2 or 4 m^2 wide", "25 cm or 4 m wide"),
    ("eggs\n  - 7 a day\n\u2022 5", "eggs\n   7 a day\n 5"),
    ("- 7 apples", "7 apples"),
    ("7 apples \u2013 5 pears", "7 apples 5 pears"),
    ("**5** `x_1`\u200b", "5 x1"),
    ("\uff15 \uff0b \uff13", "5 + 3"),
])  # fmt: skip
def test_signs_of_print_become_those_of_a_keyboard(text: str, read: str) -> None:
    assert plain_notation(text) == read


def test_a_calculation_gives_the_first_number_behind_it() -> None:
    assert calculation_result("1 + 2 = the 3 boxes hold 12") == FinalAnswer(3.0, "3")
    assert calculation_result("2 * 13 = 26 inches in 13 years") == FinalAnswer(26.0, "26")
    assert calculation_result("1 + 2 = 3 boxes, and 12 more") is None


def test_the_last_line_is_read_by_itself() -> None:
    assert read_final("2 + 3 = 5\n7 apples").value == 7
    assert read_final("It costs 5 dollars. Look at x2.").value == 5, "x2 is a name: the number before it is read"
    assert without_brackets("7 apples (half a dozen) here") == "7 apples   here"


def test_the_mark_of_a_list_behind_a_marker_is_no_answer() -> None:
    assert [mark.line for mark in marks_in("Final answer:\n1. 42 apples")] == ["42 apples"]
    assert [mark.line for mark in marks_in("Final answer: 7 apples\n1. 42 apples")] == [" 7 apples"]


@pytest.mark.parametrize("text", NUMERALS)
def test_each_number_of_a_text_has_its_circumstance_and_its_objection(text: str) -> None:
    assert [
        (numeral.value, numeral.text, numeral.circumstance, numeral.unsettled) for numeral in numerals(text)
    ] == NUMERALS[text]
