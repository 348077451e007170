"""Acceptance rules of the stages. Each rule returns the accepted product, or raises ProductRejected with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from maieutic.curation.parsers import (
    KNOWN_PRINCIPLES,
    Attempt,
    Decision,
    Limits,
    StageProduct,
    StageVariables,
    Steps,
    Validation,
    equal_answers,
)
from maieutic.curation.records import Feedback, Flow, folded_words

MOST_PRINCIPLES = 2  # maximum number of principles per tutor turn (KMP-Bench, section 2.3)


class StageAnswer(NamedTuple):
    """One model's answer to a stage.

    by: name of the model, or `people`; text: text of the answer; value: parsed answer, None if parsing failed;
    why_none: reason why parsing failed.
    """

    by: str
    text: str
    value: Any
    why_none: str | None = None


class ProductRejected(Exception):
    """Error for a rejected product. The message is the reason; rejections are counted by reason."""


class AcceptedProduct(NamedTuple):
    """An accepted product. refined: True if the model revised it; truncated: True if it is a shortened flow."""

    value: Any
    refined: bool = False
    truncated: bool = False


Rule = Callable[[Sequence[StageAnswer], StageVariables, Limits], AcceptedProduct]


def parsed_values(answers: Sequence[StageAnswer]) -> list[Any]:
    """Return the parsed values of all answers. Raises ProductRejected if an answer could not be parsed."""
    for answer in answers:
        if answer.value is None:
            raise ProductRejected(f"not parsed: {answer.why_none}")
    return [answer.value for answer in answers]


def without_case_and_breaks(text: str) -> str:
    """Return a text in one line and case-folded. Operators are kept, so that "12 - 4" differs from "12 + 4"."""
    return " ".join(text.casefold().split())


def subsequence_overlap(text: str, other: str) -> float:
    """Return the longest common subsequence of two texts as a share of the longer text (KMP-Bench, Appendix D.3)."""
    from rapidfuzz.distance import LCSseq

    return float(LCSseq.normalized_similarity(text.casefold(), other.casefold()))


def accept_always(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept any answer that can be parsed."""
    return AcceptedProduct(parsed_values(answers)[0])


def accept_some_chosen(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept a choice of at least one option."""
    [chosen] = parsed_values(answers)
    if not chosen:
        raise ProductRejected("none chosen")
    return AcceptedProduct(chosen)


def accept_all_approve(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept a product if every judge answers Y."""
    if not all(parsed_values(answers)):
        raise ProductRejected("a judge answered N")
    return AcceptedProduct(True)


def accept_all_validate(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept a seed if every validator answers Y and no validator's boxed answer differs from the seed's answer.

    The returned product is the first solution with a boxed answer.
    """
    validations: list[Validation] = parsed_values(answers)
    if not all(validation.approved for validation in validations):
        raise ProductRejected("a validator answered N")
    boxed = [(validation, validation.answer) for validation in validations if validation.answer]
    if not boxed:
        raise ProductRejected("no validator's solution has one box")
    if not all(equal_answers(answer, about["answer"]) for _, answer in boxed):
        raise ProductRejected("a validator's own solution has another answer")
    return AcceptedProduct(boxed[0][0].solution)


def accept_well_posed(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept a question whose text differs from those of all earlier questions."""
    [made] = parsed_values(answers)
    if without_case_and_breaks(made.product.problem) in [
        without_case_and_breaks(problem["problem"]) for problem in about["problems"]
    ]:
        raise ProductRejected("the question repeats an earlier one")
    return AcceptedProduct(*made)


def accept_new_problem(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept a problem if its text overlaps the seed's text by at most `limits["overlap"]`."""
    [made] = parsed_values(answers)
    if subsequence_overlap(made.product.problem, about["problem"]) > limits["overlap"]:
        raise ProductRejected(f"overlaps the seed by more than {limits['overlap']:.0%}")
    return AcceptedProduct(*made)


def accept_majority(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept a problem if more than half of the solvers find its answer. An answer that cannot be parsed is wrong."""
    right = sum(answer.value is not None and equal_answers(answer.value, about["answer"]) for answer in answers)
    if 2 * right <= len(answers):
        raise ProductRejected("no majority for the answer")
    return AcceptedProduct(right)


def accept_two_distinct_wrong(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept two or more wrong solutions with different texts, and return the best pair first.

    The second solution of the best pair preferably has a different answer than the first and is by another model. The
    solutions after the pair replace any that a later stage rejects.
    """
    wrong: dict[str, StageAnswer] = {}
    for answer in answers:
        if answer.value and not equal_answers(answer.value.answer, about["answer"]):
            wrong.setdefault(" ".join(folded_words(answer.value.text)), answer)
    if len(wrong) < 2:
        raise ProductRejected("only one wrong solution" if wrong else "no wrong solution")
    first, *others = wrong.values()

    def likeness(answer: StageAnswer) -> tuple[bool, bool]:
        return equal_answers(answer.value.answer, first.value.answer), answer.by == first.by

    return AcceptedProduct([first, *sorted(others, key=likeness)])


def accept_same_answer(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept a rephrased solution if it has the same answer as the original."""
    solution: Steps
    [solution] = parsed_values(answers)
    original: Attempt = about["attempt"]
    if not equal_answers(solution.answer, original.answer):
        raise ProductRejected("the answer changed")
    return AcceptedProduct(solution)


def accept_right_feedback(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept feedback that confirms a right solution, or that corrects a wrong one from its first wrong step on."""
    [correction] = parsed_values(answers)
    steps: list[str] = about["steps"]
    feedback: Feedback = correction.feedback
    if about["is_right"]:
        if feedback.step:
            raise ProductRejected("a right solution is called wrong")
        return AcceptedProduct(feedback)
    if not feedback.step:
        raise ProductRejected("a wrong solution is called right")
    if feedback.step > len(steps):
        raise ProductRejected("a step that the solution does not have")
    if not equal_answers(correction.answer, about["answer"]):
        raise ProductRejected("the corrected answer is wrong")
    before = [folded_words(step) for step in steps[: feedback.step - 1]]
    if [folded_words(step) for step in correction.corrected[: feedback.step - 1]] != before:
        raise ProductRejected("steps before the mistake were rewritten")
    return AcceptedProduct(feedback)


def accept_what_how_why(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept clarifications if their number is within the limits and every kind (What, How, Why) occurs."""
    made: StageProduct
    [made] = parsed_values(answers)
    if not limits["fewest"] <= len(made.product) <= limits["most"]:
        raise ProductRejected("too few or too many turns")
    if missing := [kind for kind in ("What", "How", "Why") if kind not in {turn.kind for turn in made.product}]:
        raise ProductRejected(f"no {' and no '.join(missing)}")
    return AcceptedProduct(*made)


def accept_sound_flow(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept a flow if its number of exchanges is within the limits and all its materials and principles are known.

    Each tutor turn must have one or two principles.
    """
    plan: Flow
    [plan] = parsed_values(answers)
    if not limits["fewest"] <= len(plan.exchanges) <= limits["most"]:
        raise ProductRejected("too few or too many exchanges")
    known = {material["name"] for material in about["materials"]}
    for exchange in plan.exchanges:
        if not {*exchange.student_materials, *exchange.tutor_materials} <= known:
            raise ProductRejected("an unknown material")
        if not 1 <= len(exchange.principles) <= MOST_PRINCIPLES:
            raise ProductRejected("not one or two principles")
        if not KNOWN_PRINCIPLES.issuperset(exchange.principles):
            raise ProductRejected("an unknown principle")
    return AcceptedProduct(plan)


def accept_kept_flow(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept the flow in `about["plan"]` unless the decision is to discard it. A truncated flow is shortened."""
    decision: Decision
    [decision] = parsed_values(answers)
    plan: Flow = about["plan"]
    if decision.decision == "discard":
        raise ProductRejected("discarded")
    if decision.decision == "keep":
        return AcceptedProduct(plan)
    last = decision.last or 0
    if not 1 <= last <= len(plan.exchanges):
        raise ProductRejected("truncated after an exchange that does not exist")
    cut = plan.model_copy(update={"exchanges": plan.exchanges[:last]})
    return AcceptedProduct(cut, truncated=last < len(plan.exchanges))


def accept_as_planned(answers: Sequence[StageAnswer], about: StageVariables, limits: Limits) -> AcceptedProduct:
    """Accept a conversation if it has as many exchanges as its flow plans."""
    made: StageProduct
    [made] = parsed_values(answers)
    plan: Flow = about["plan"]
    if len(made.product) != len(plan.exchanges):
        raise ProductRejected("not as many exchanges as planned")
    return AcceptedProduct(*made)


RULES: dict[str, Rule] = {
    function.__name__.removeprefix("accept_"): function
    for function in (
        accept_always,
        accept_some_chosen,
        accept_all_approve,
        accept_all_validate,
        accept_well_posed,
        accept_new_problem,
        accept_majority,
        accept_two_distinct_wrong,
        accept_same_answer,
        accept_right_feedback,
        accept_what_how_why,
        accept_sound_flow,
        accept_kept_flow,
        accept_as_planned,
    )
}

# Names of the limits in a stage card that each rule needs.
RULE_LIMITS: Mapping[str, frozenset[str]] = {
    "new_problem": frozenset({"overlap"}),
    "what_how_why": frozenset({"fewest", "most"}),
    "sound_flow": frozenset({"fewest", "most"}),
}
# Rules that need more than one answer, from several models or several samples.
RULES_OF_SEVERAL_ANSWERS = frozenset({"all_approve", "all_validate", "majority", "two_distinct_wrong"})
