"""Replies that state an item's gold answer, and others that state a wrong one: what holds a grader against itself."""

from __future__ import annotations

from decimal import Decimal

from maieutic.core.records import Item
from maieutic.graders.grader import Told


def answer_line(value: object) -> str:
    """A line that states a number as its final answer. value: whatever `float` takes."""
    return f"Final Answer: {Decimal(str(float(str(value)))).normalize():f}"


def another(value: object) -> float:
    """A number that differs from the gold one, and reads like it."""
    return float(str(value)) + 1


def told_answer(item: Item) -> Told:
    """The final number, and one more than it."""
    gold = item.reference["answer"]
    return Told([answer_line(gold)], [[answer_line(another(gold))]])


def told_yes_no(item: Item) -> Told:
    """Yes of an incorrect solution, and the other word."""
    right, wrong = ("Yes", "No") if item.reference["incorrect"] else ("No", "Yes")
    return Told([right], [[wrong]])


def told_step(item: Item) -> Told:
    """The first wrong step, and the one after it."""
    step = int(item.reference["step"])
    return Told([str(step)], [[str(step + 1)]])


def told_questions(item: Item) -> Told:
    """The gold sub-questions, a line each, and a line that shares no word with them."""
    return Told(["\n".join(map(str, item.reference["questions"]))], [["zzz zzz?"]])


def told_rounds(item: Item) -> Told:
    """Every round's final number; one more than it in all of them."""
    golds = item.reference["answers"]
    return Told([answer_line(gold) for gold in golds], [[answer_line(another(gold)) for gold in golds]])


def told_detection(item: Item) -> Told:
    """Verdict and first wrong step in the fields that the prompt asks for; the other verdict, and the next step."""
    incorrect, step = bool(item.reference["incorrect"]), int(item.reference["step"])
    wrong = [[detected(not incorrect, 1)]]
    return Told([detected(incorrect, step)], [*wrong, [detected(True, step + 1)]] if incorrect else wrong)


def detected(incorrect: bool, step: int) -> str:
    """What KMP-Bench's prompt of error detection asks for. step: of a wrong solution."""
    return f"Correctness: {'Incorrect' if incorrect else 'Correct'}\nErrorStepNum: {step if incorrect else 'None'}"


def told_correction(item: Item) -> Told:
    """After a verdict, the final number of the corrected solution, and one more than it."""
    [right], [[wrong]] = told_answer(item)
    return Told(["", right], [["", wrong]])
