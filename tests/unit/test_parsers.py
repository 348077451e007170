"""Tests of every parser against its table of cases, and of hostile inputs."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hostile_texts import item_for
from maieutic.core.records import SCORINGS, Grade, Item
from maieutic.core.thinking import cut_at_stop, has_unknown_mark, split_thinking
from maieutic.graders.answers import RELEASED_AMOUNT
from maieutic.graders.registry import GRADERS
from maieutic.graders.short_answers import released_step
from maieutic.graders.solution_numbers import quotient
from maieutic.graders.steps import read_step
from maieutic.scores.metrics import RELEASED, GradedItem
from maieutic.scores.registry import METRICS

CASES = Path(__file__).parents[1] / "tables"
SCORING_KEYS = {"paper": "paper_compat", "robust": "robust"}


def load_cases(name: str) -> list[Any]:
    """Return the cases of one table, with their names as ids."""
    cases = yaml.safe_load((CASES / f"{name}.yaml").read_text(encoding="utf-8"))
    return [pytest.param(case, id=case["name"]) for case in cases]


def by_scoring(name: str) -> list[Any]:
    """Return the cases of one table with each scoring for which they have an expectation."""
    cases = [case.values[0] for case in load_cases(name)]
    return [
        pytest.param(case, scoring, id=f"{case['name']}-{scoring}")
        for case in cases
        for scoring in SCORING_KEYS
        if scoring in case
    ]


def item(**reference: Any) -> Item:
    """Return an item with a reference and nothing else."""
    return Item(
        id="i", task="t", cluster="c", vars={"question": "q"}, reference={"text": "", "solution": "", **reference}
    )


@pytest.mark.parametrize("case", load_cases("answers"))
@pytest.mark.parametrize("scoring", SCORING_KEYS)
def test_answer(case: dict, scoring: str) -> None:
    check_number("answer", case, scoring)


@pytest.mark.parametrize("case", load_cases("corrected_answers"))
@pytest.mark.parametrize("scoring", SCORING_KEYS)
def test_corrected_answer(case: dict, scoring: str) -> None:
    check_number("corrected_answer", case, scoring)


def check_number(grader: str, case: dict, scoring: str) -> None:
    [reading] = GRADERS[grader].read(item(answer=case["gold"]), case["text"], SCORING_KEYS[scoring])
    value, correct = case[scoring]
    assert (reading.value, reading.correct) == (value, correct)
    assert (reading.why_none is not None) == (value is None)


@pytest.mark.parametrize(("case", "scoring"), by_scoring("yes_no"))
@pytest.mark.parametrize("gold", [True, False])
def test_yes_no(case: dict, scoring: str, gold: bool) -> None:
    [reading] = GRADERS["yes_no"].read(item(incorrect=gold), case["text"], SCORING_KEYS[scoring])
    assert reading.value is case[scoring]
    assert reading.correct is (None if case[scoring] is None else case[scoring] == gold)


@pytest.mark.parametrize(("case", "scoring"), by_scoring("steps"))
def test_step(case: dict, scoring: str) -> None:
    [reading] = GRADERS["step"].read(item(step=2), case["text"], SCORING_KEYS[scoring])
    assert reading.value == case[scoring]
    assert reading.correct is (None if case[scoring] is None else case[scoring] == 2)


@pytest.mark.parametrize("case", load_cases("questions"))
@pytest.mark.parametrize("scoring", SCORING_KEYS)
def test_question(case: dict, scoring: str) -> None:
    [reading] = GRADERS["question"].read(item(), case["text"], SCORING_KEYS[scoring])
    assert reading.value is case[scoring]


@pytest.mark.parametrize("case", load_cases("thinking"))
def test_thinking_is_kept_and_not_scored(case: dict) -> None:
    assert split_thinking(case["text"]) == (case["answer"], case["reasoning"])


def test_an_unknown_mark_of_reasoning_is_seen() -> None:
    seen = ["<deep_thought>a</deep_thought>4", "[REASONING]a[/REASONING]4", " <|cot_start|>a"]
    assert all(map(has_unknown_mark, seen))
    assert not any(map(has_unknown_mark, ["Think of <b>4</b>", "[1] 4", "<answer>4"]))


def test_socratic_bleu_follows_the_released_rule() -> None:
    gold = item(questions=["How many eggs are left?", "How much does she earn?"])
    grade = GRADERS["socratic_bleu"].read
    single, lines = grade(gold, "How much does she earn?", "paper_compat")
    assert single.value == pytest.approx(1.0), "one gold question alone scores full marks"
    assert (lines.criterion, lines.value) == ("released_questions", 1)
    both, lines = grade(gold, "nothing alike\n1. How much does she earn?\n\n", "paper_compat")
    assert 0 < both.value < 1, "the best line counts, and its list mark counts against it"
    assert lines.value == 2, "four lines, blank ones among them, and two sub-questions: the released statistic"
    empty, lines = grade(gold, "", "paper_compat")
    assert (empty.value, lines.value) == (0, 1)


def test_socratic_bleu_robust_asks_for_every_question() -> None:
    gold = item(questions=["How many eggs are left?", "How much does she earn?"])
    grade = GRADERS["socratic_bleu"].read
    [half] = grade(gold, "How much does she earn?", "robust")
    assert 0.5 <= half.value < 0.8
    [all_] = grade(gold, "1. How many eggs are left? How much does she earn?", "robust")
    assert all_.value == pytest.approx(1.0), "list marks and line breaks do not matter"
    [empty] = grade(gold, " ", "robust")
    assert (empty.value, empty.why_none) == (None, "empty reply")


def test_statistics_of_a_reply() -> None:
    case = item(solution="2*9 = 18\n 18")
    statistics = {
        reading.criterion: reading.value
        for reading in GRADERS["statistics"].read(case, "It is 18. Why? How?", "robust")
    }
    assert statistics == {
        "empty": False, "words": 5, "questions": 2, "counter_question": True, "reveals_answer": True,
    }  # fmt: skip
    assert GRADERS["statistics"].read(case, "It is 18.", "paper_compat") == []
    product = {
        reading.criterion: reading.value for reading in GRADERS["statistics"].read(case, "What is 1*8?", "robust")
    }
    assert product["reveals_answer"] is False, "a product is not its digits"


@pytest.mark.parametrize(("text", "ends"), [
    ("Before we move on, do you want me to walk you through it?", True),
    ('Then I asked: "What is 2 + 2?"', True),
    ("**What is the next step?** \U0001f642", True),
    ("\u0645\u0627 \u0627\u0644\u062e\u0637\u0648\u0629\u061f", True),  # Arabic question mark
    ("What is it? It is 4.", False),
    ("Is it 4? Yes", False),
    ("", False),
])  # fmt: skip
def test_a_reply_ends_with_a_question(text: str, ends: bool) -> None:
    """TutorBench, section 3.6: study mode often ends with a counter-question."""
    readings = GRADERS["statistics"].read(item(), text, "robust")
    assert next(reading.value for reading in readings if reading.criterion == "counter_question") is ends


@pytest.mark.parametrize(
    ("solution", "text", "expected"),
    [("9*2 = 18", "Try 9 times 2", False), ("9*2 = 18", "18!", True), ("N/A", "18", None), ("x = 5", "5", None)],
    ids=["hidden", "revealed", "no solution", "already in the dialogue"],
)
def test_reveals_answer(solution: str, text: str, expected: bool | None) -> None:
    case = Item(id="i", task="t", cluster="c", vars={"dialog_history": "Student: 5"}, reference={"solution": solution})
    statistics = {reading.criterion: reading for reading in GRADERS["statistics"].read(case, text, "robust")}
    assert statistics["reveals_answer"].value is expected


HOSTILE = {
    "a million digits": "9" * 1_000_000, "a million brackets": "(" * 1_000_000, "a million new lines": "\n" * 1_000_000,
    "a million commas": "1," * 500_000, "a million words": "step 1 no yes " * 80_000, "boxes": "\\boxed{" * 150_000,
    "NUL": "\x00" * 1000, "markup": "<script>alert(1)</script>[[A]] GRADE: C",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize(
    "grader",
    [
        pytest.param(name, marks=[pytest.mark.slow] if "bleu" in name else [])  # a megabyte takes it seconds
        for name, grader in GRADERS.items()
        if grader.read
    ],
)
def test_hostile_replies_neither_crash_nor_hang(grader: str, text: str) -> None:
    case = item_for(grader)
    began = time.process_time()
    for scoring in SCORINGS:
        for reading in GRADERS[grader].read(case, text, scoring):
            assert reading.value is None or isinstance(reading.value, bool | int | float | str)
    # Not a speed test: a quadratic pattern would take hours here.
    assert time.process_time() - began < 60


def test_a_step_of_many_digits_is_what_python_reads() -> None:
    assert released_step("1" * 4000) == int("1" * 4000)
    [long] = GRADERS["step"].read(item(step=2), "0" * 4298 + "2", "paper_compat")
    assert (long.value, long.correct) == (2, True), "leading zeros count for nothing"
    [crash] = GRADERS["step"].read(item(step=2), "1" * 5000, "paper_compat")
    assert crash.value is None and "the released code fails" in str(crash.why_none)
    assert read_step("1" * 5000).value is None
    huge = Grade(id="i", task="t", kind="step", scoring="paper_compat", value=10**40, correct=False, raw="")
    assert Grade.model_validate_json(huge.model_dump_json()).value == 10**40
    graded = [GradedItem(10**40, False, 2), GradedItem(2, True, 2), GradedItem(0, True, 0)]
    for name, metric in {**METRICS, **RELEASED}.items():
        if name.endswith("_f1") and name != "detection_f1":
            assert 0 < metric.value(graded) < 1


def test_stop_strings_are_applied_where_the_server_did_not() -> None:
    assert cut_at_stop("18\nQuestion: what", ["Question:", "\n"]) == "18"
    assert cut_at_stop("18 Q: what Q: how", ["Q:"]) == "18 ", "the first of them"
    assert cut_at_stop("\n18", ["\n"]) == "", "Q3: an answer that begins with the stop is empty"
    assert cut_at_stop("18", []) == "18"


@pytest.mark.parametrize(("over", "under", "text"), [
    ("1.5", "2", " 0.75"), ("3,000", "1.5", " 2000"), ("3", "1,000", " 0.003"), ("1", "0", " "), ("1.2.3", "2", " "),
    ("1", "-.", " "),
])  # fmt: skip
def test_a_fraction_is_its_value_or_nothing(over: str, under: str, text: str) -> None:
    assert quotient(over, under) == text


RELEASED_PATTERN = re.compile(r"\$?([-,\d]*\.?\d+)")  # verbatim from eth-lre/mathtutorbench


def test_the_linear_form_of_a_released_pattern_finds_the_same() -> None:
    """Compared on random texts of the pattern's characters: the released one takes 71 s for 32,000 dashes."""
    rng = random.Random(1)
    for _ in range(20_000):
        text = "".join(rng.choice("$-,,.12 a") for _ in range(rng.randint(0, 16)))
        assert [number for number in RELEASED_AMOUNT.findall(text) if number] == RELEASED_PATTERN.findall(text), text
