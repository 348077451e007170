"""Right and wrong replies made from an item's gold answer, which test the graders (`maieutic check-graders`)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from maieutic.core.options import is_option_letter, options_of
from maieutic.core.records import Item
from maieutic.graders.grader import GoldReplies


def right_verdicts(item: Item) -> Mapping[str, str]:
    """Return the verdicts that are right on any good reply to an item, by criterion; empty for most items."""
    verdicts: Mapping[str, str] = item.reference.get("verdicts", {})
    return verdicts


def final_answer_line(value: object) -> str:
    """Return a line that states the final answer, which is an option's letter or a number without an exponent.

    value: number, its text, or a letter. Raises ValueError for any other value.
    """
    text = str(value)
    if is_option_letter(text):
        return f"Final Answer: {text}"
    try:
        number = Decimal(str(float(text)))
    except ValueError:
        number = Decimal("nan")
    if not number.is_finite():
        raise ValueError(f"the answer {text[:40]!r} is neither a number nor the letter of one of the problem's options")
    return f"Final Answer: {number.normalize():f}"


def wrong_answer_line(value: object) -> str:
    """Return a line that states a wrong final answer: the gold number plus one, or another option."""
    if is_option_letter(str(value)):
        return final_answer_line("B" if value == "A" else "A")
    return final_answer_line(float(str(value)) + 1)


def gold_answer(item: Item) -> GoldReplies:
    """Return a right reply with the gold number or option, and a wrong reply with another number or option."""
    gold = item.reference["answer"]
    if is_option_letter(str(gold)) and gold not in options_of(item.vars["question"]):
        raise ValueError(f"the answer {gold} is not one of the options in the problem's text")
    return GoldReplies([final_answer_line(gold)], [[wrong_answer_line(gold)]])


def gold_yes_no(item: Item) -> GoldReplies:
    """Return "Yes" for an incorrect solution and "No" for a correct one, with the other word as the wrong reply."""
    right, wrong = ("Yes", "No") if item.reference["incorrect"] else ("No", "Yes")
    return GoldReplies([right], [[wrong]])


def gold_step(item: Item) -> GoldReplies:
    """Return the number of the first wrong step as the right reply, and the next number as the wrong reply."""
    step = int(item.reference["step"])
    return GoldReplies([str(step)], [[str(step + 1)]])


def gold_questions(item: Item) -> GoldReplies:
    """Return the gold sub-questions, one per line, and as the wrong reply a question that shares no word with them."""
    return GoldReplies(["\n".join(map(str, item.reference["questions"]))], [["zzz zzz?"]])


def gold_rounds(item: Item) -> GoldReplies:
    """Return turns that state the final number of each round, and wrong turns with numbers that are larger by one."""
    golds = item.reference["answers"]
    return GoldReplies([*map(final_answer_line, golds)], [[*map(wrong_answer_line, golds)]])


def gold_detection(item: Item) -> GoldReplies:
    """Return answer fields with the gold verdict and first wrong step as the right reply, and wrong replies.

    Wrong replies state the other verdict or, for an incorrect solution, the next step.
    """
    incorrect, step = bool(item.reference["incorrect"]), int(item.reference["step"])
    wrong = [[detection_fields(not incorrect, 1)]]
    return GoldReplies(
        [detection_fields(incorrect, step)], [*wrong, [detection_fields(True, step + 1)]] if incorrect else wrong
    )


def detection_fields(incorrect: bool, step: int) -> str:
    """Return the answer fields of KMP-Bench's error-detection prompt. step: ignored if `incorrect` is False."""
    return f"Correctness: {'Incorrect' if incorrect else 'Correct'}\nErrorStepNum: {step if incorrect else 'None'}"


def gold_correction(item: Item) -> GoldReplies:
    """Return a conversation whose second turn states the final answer, and one whose second turn states a wrong one."""
    [right], [[wrong]] = gold_answer(item)
    return GoldReplies(["", right], [["", wrong]])
