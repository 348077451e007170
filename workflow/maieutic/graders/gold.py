"""Replies with an item's gold answer and with wrong ones, for the check of the graders (`maieutic check-graders`)."""

from __future__ import annotations

from decimal import Decimal

from maieutic.core.options import is_choice, options_of
from maieutic.core.records import Item
from maieutic.graders.grader import GoldReplies


def answer_line(value: object) -> str:
    """Return a line that states the final answer. value: a number or its text (without an exponent), or a letter.

    A letter stands for an option of a multiple-choice problem. Raises ValueError for anything else.
    """
    text = str(value)
    if is_choice(text):
        return f"Final Answer: {text}"
    try:
        number = Decimal(str(float(text)))
    except ValueError:
        number = Decimal("nan")
    if not number.is_finite():
        raise ValueError(f"the answer {text[:40]!r} is neither a number nor the letter of one of the problem's options")
    return f"Final Answer: {number.normalize():f}"


def wrong_line(value: object) -> str:
    """Return a line that states the number after the gold one, or another option, as the final answer."""
    if is_choice(str(value)):
        return answer_line("B" if value == "A" else "A")
    return answer_line(float(str(value)) + 1)


def gold_answer(item: Item) -> GoldReplies:
    """Return the final number; as the wrong answer a number that is larger by one."""
    gold = item.reference["answer"]
    if is_choice(str(gold)) and gold not in options_of(item.vars["question"]):
        raise ValueError(f"the answer {gold} is not one of the options in the problem's text")
    return GoldReplies([answer_line(gold)], [[wrong_line(gold)]])


def gold_yes_no(item: Item) -> GoldReplies:
    """Return "Yes" for an incorrect solution and "No" for a correct one; as the wrong answer the other word."""
    right, wrong = ("Yes", "No") if item.reference["incorrect"] else ("No", "Yes")
    return GoldReplies([right], [[wrong]])


def gold_step(item: Item) -> GoldReplies:
    """Return the number of the first wrong step; as the wrong answer that of the next step."""
    step = int(item.reference["step"])
    return GoldReplies([str(step)], [[str(step + 1)]])


def gold_questions(item: Item) -> GoldReplies:
    """Return the gold sub-questions, one per line; as the wrong answer a question without a word in common."""
    return GoldReplies(["\n".join(map(str, item.reference["questions"]))], [["zzz zzz?"]])


def gold_rounds(item: Item) -> GoldReplies:
    """Return the final number of each round; as the wrong answer numbers that are larger by one."""
    golds = item.reference["answers"]
    return GoldReplies([*map(answer_line, golds)], [[*map(wrong_line, golds)]])


def gold_detection(item: Item) -> GoldReplies:
    """Return verdict and first wrong step in the prompt's fields; as wrong answers the other verdict and the next step.

    The solution of an item without a mistake has no next step.
    """
    incorrect, step = bool(item.reference["incorrect"]), int(item.reference["step"])
    wrong = [[detection_fields(not incorrect, 1)]]
    return GoldReplies(
        [detection_fields(incorrect, step)], [*wrong, [detection_fields(True, step + 1)]] if incorrect else wrong
    )


def detection_fields(incorrect: bool, step: int) -> str:
    """Return the fields that KMP-Bench's prompt of error detection asks for. step: used for an incorrect solution."""
    return f"Correctness: {'Incorrect' if incorrect else 'Correct'}\nErrorStepNum: {step if incorrect else 'None'}"


def gold_correction(item: Item) -> GoldReplies:
    """Return, as the second turn, the final number of the corrected solution; wrong by one likewise."""
    [right], [[wrong]] = gold_answer(item)
    return GoldReplies(["", right], [["", wrong]])
