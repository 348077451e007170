"""Tests of multiple-choice problems: their options, the option that a reply chooses, and the tasks that accept them."""

from __future__ import annotations

import pytest
from maieutic.core.options import options_of
from maieutic.core.records import SCORINGS, Item, Scoring
from maieutic.datasets import word_problems
from maieutic.graders.answers import grade_answer
from maieutic.graders.choices import chosen_option
from maieutic.graders.gold import gold_answer

PROBLEM = "What is 3 x 4?\n(A) 7\n(B) 12\n(C) 34\n(D) a dozen and one"


@pytest.mark.parametrize(("problem", "options"), [
    (PROBLEM, {"A": "7", "B": "12", "C": "34", "D": "a dozen and one"}),
    ("Which one? A. red B. blue C. green", {"A": "red", "B": "blue", "C": "green"}),
    ("Which one?\nA) $5\nB) $6", {"A": "5", "B": "6"}),
    ("Point A. is here. Which?\n(A) left (B) right", {"A": "left", "B": "right"}),
    ("Plan A) costs 5.", {}),
    ("Train A leaves at 5 and train B at 6. Which is first?", {}),
    ("(B) 5 (C) 6", {}),
    ("", {}),
])  # fmt: skip
def test_options_are_lettered_from_a_on(problem: str, options: dict[str, str]) -> None:
    assert options_of(problem) == options


@pytest.mark.parametrize(("reply", "letter"), [
    (r"So \boxed{B}.", "B"),
    (r"\boxed{\text{(C)}}", "C"),
    (r"\boxed{12}", "B"),
    (r"\boxed{A) 7}", "A"),
    (r"\boxed{99}", None),
    (r"\boxed{A}, no: \boxed{B}", "B"),
    ("The answer is B.", "B"),
    ("the answer is (b)", "B"),
    ("**Answer: D**", "D"),
    ("Final Answer: $C$", "C"),
    (r"The answer is \(\text{B}\)", "B"),
    ("The correct choice is B", "B"),
    ("The answer is option C because 34 is even.", "C"),
    ("Option A is too small, so option B is right.", "B"),
    ("3 x 4 = 12.\nB", "B"),
    ("3 x 4 = 12.\n(B) 12", "B"),
    ("B. 12", "B"),
    ("The answer is E.", None),
    ("The answer is a number.", None),
    ("A train leaves.", None),
    ("What do you think?", None),
    ("", None),
])  # fmt: skip
def test_the_chosen_option_is_read(reply: str, letter: str | None) -> None:
    assert chosen_option(reply, options_of(PROBLEM)) == letter


def item(answer: str, question: str = PROBLEM) -> Item:
    [problem] = word_problems.word_problem_items([{"question": question, "answer": answer}], "problem_solving")
    return problem


@pytest.mark.parametrize("scoring", SCORINGS)
def test_a_users_task_may_contain_multiple_choice_problems(scoring: Scoring) -> None:
    problem = item("b")
    golds = gold_answer(problem)

    def is_correct(text: str) -> bool | None:
        [grade] = grade_answer(problem, text, scoring)
        return grade.correct

    [gold], [[wrong]] = golds
    assert is_correct(gold) is True and is_correct(wrong) is False
    assert is_correct("I cannot say.") is (False if scoring == "paper_compat" else None)


def test_answers_that_are_neither_a_number_nor_an_option_are_listed_at_once() -> None:
    records = [{"question": "?", "answer": answer} for answer in ("1/2", "B", "12", "nan")]
    problem = r"found record 2: 'B', record 4: 'nan'$"
    with pytest.raises(ValueError, match=problem):
        word_problems.word_problem_items(records, "problem_solving")
    assert len(word_problems.word_problem_items(records, word_problems.SEEDS)) == 4, (
        "a curation leaves out unusable answers later"
    )


@pytest.mark.parametrize(("answer", "digits"), [
    ("$8", "8"), ("3/4", "0.75"), ("50%", "50"), ("7 pens", "7"), ("2 1/2", "2.5"), ("25/2", "12.5"), ("-11/2", "-5.5"), ("2.5/2", None), ("1,200", "1200"), ("-3", "-3"),
    ("-2 1/2", "-2.5"), ("1,204.50", "1204.5"), ("\u20ac 5", "5"), ("5 \u20ac", "5"), ("0.5", "0.5"), (".5", "0.5"),
    ("12 square feet", "12"), ("-$4", "-4"), ("B", None), ("3:30", None), ("twelve", None), ("4-6", None), ("", None),
    ("1/0", None), ("1e5", None), ("5 or 6", None), ("3 of 4", None), ("12,34", None), ("x", None), ("inf", None), ("%", None),
])  # fmt: skip
def test_an_answer_in_a_users_task_is_a_number_or_refused(answer: str, digits: str | None) -> None:
    assert word_problems.single_number(answer) == digits
