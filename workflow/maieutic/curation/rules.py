"""What a curation's stages accept of what was answered: each rule gives the product, or says why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from maieutic.curation.parsers import (
    KNOWN_PRINCIPLES,
    About,
    Attempt,
    Decision,
    Limits,
    Made,
    Steps,
    Validation,
    equal_answers,
)
from maieutic.curation.records import Feedback, Flow
from maieutic.curation.texts import words_of

MOST_PRINCIPLES = 2  # of one turn (section 2.3)


class Answered(NamedTuple):
    """One model's answer to a stage, as it was read; value None: it could not be, why_none says why."""

    by: str
    text: str
    value: Any
    why_none: str | None = None


class Rejected(Exception):
    """Nothing is kept; the message says why, in words that are counted."""


class Kept(NamedTuple):
    """What is kept."""

    value: Any
    refined: bool = False
    truncated: bool = False


Rule = Callable[[Sequence[Answered], About, Limits], Kept]


def read(answers: Sequence[Answered]) -> list[Any]:
    """All values. Raises Rejected where an answer could not be read."""
    for answer in answers:
        if answer.value is None:
            raise Rejected(f"unreadable: {answer.why_none}")
    return [answer.value for answer in answers]


def in_one_line(text: str) -> str:
    """A text without case and line breaks; its signs stay: "12 - 4" is not "12 + 4"."""
    return " ".join(text.casefold().split())


def overlap(text: str, other: str) -> float:
    """The longest common subsequence of two texts, over the longer one's length (Appendix D.3)."""
    from rapidfuzz.distance import LCSseq

    return float(LCSseq.normalized_similarity(text.casefold(), other.casefold()))


def always(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """Whatever can be read."""
    return Kept(read(answers)[0])


def some_chosen(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """At least one of the options."""
    [chosen] = read(answers)
    if not chosen:
        raise Rejected("none chosen")
    return Kept(chosen)


def all_approve(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """Every judge says Y."""
    if not all(read(answers)):
        raise Rejected("a judge says N")
    return Kept(True)


def all_validate(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """Every validator says Y, and no solution of theirs has another answer in its box. The first one with a box."""
    validations: list[Validation] = read(answers)
    if not all(validation.approved for validation in validations):
        raise Rejected("a validator says N")
    boxed = [(validation, validation.answer) for validation in validations if validation.answer]
    if not boxed:
        raise Rejected("no validator's solution has one box")
    if not all(equal_answers(answer, about["answer"]) for _, answer in boxed):
        raise Rejected("a validator's own solution has another answer")
    return Kept(boxed[0][0].solution)


def well_posed(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """A question that is none of those before it."""
    [made] = read(answers)
    if in_one_line(made.product.problem) in [in_one_line(problem["problem"]) for problem in about["problems"]]:
        raise Rejected("a question that was there before")
    return Kept(*made)


def new_problem(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """A problem that is not the seed in other numbers."""
    [made] = read(answers)
    if overlap(made.product.problem, about["problem"]) > limits["overlap"]:
        raise Rejected(f"more than {limits['overlap']:.0%} of the seed")
    return Kept(*made)


def majority(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """More than half of the solvers give the answer; an answer that cannot be read is not it."""
    right = sum(answer.value is not None and equal_answers(answer.value, about["answer"]) for answer in answers)
    if 2 * right <= len(answers):
        raise Rejected("no majority for the answer")
    return Kept(right)


def two_distinct_wrong(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """Two wrong solutions or more, of different texts, the best first.

    The second has another answer than the first where there is such a one, and is another model's; the further ones
    are for where one of the two is lost at a later stage.
    """
    wrong: dict[str, Answered] = {}
    for answer in answers:
        if answer.value and not equal_answers(answer.value.answer, about["answer"]):
            wrong.setdefault(" ".join(words_of(answer.value.text)), answer)
    if len(wrong) < 2:
        raise Rejected("one wrong solution only" if wrong else "no wrong solution")
    first, *others = wrong.values()

    def likeness(answer: Answered) -> tuple[bool, bool]:
        return equal_answers(answer.value.answer, first.value.answer), answer.by == first.by

    return Kept([first, *sorted(others, key=likeness)])


def same_answer(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """The rephrased solution ends as the original does."""
    solution: Steps
    [solution] = read(answers)
    original: Attempt = about["attempt"]
    if not equal_answers(solution.answer, original.answer):
        raise Rejected("the answer changed")
    return Kept(solution)


def right_feedback(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """Right on a right solution; on a wrong one a step of it, the same steps before, the right answer after."""
    [correction] = read(answers)
    steps: list[str] = about["steps"]
    feedback: Feedback = correction.feedback
    if about["is_right"]:
        if feedback.step:
            raise Rejected("a right solution is called wrong")
        return Kept(feedback)
    if not feedback.step:
        raise Rejected("a wrong solution is called right")
    if feedback.step > len(steps):
        raise Rejected("a step that the solution does not have")
    if not equal_answers(correction.answer, about["answer"]):
        raise Rejected("the corrected answer is wrong")
    before = [words_of(step) for step in steps[: feedback.step - 1]]
    if [words_of(step) for step in correction.corrected[: feedback.step - 1]] != before:
        raise Rejected("steps before the mistake were rewritten")
    return Kept(feedback)


def what_how_why(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """So many turns, each kind among them."""
    made: Made
    [made] = read(answers)
    if not limits["fewest"] <= len(made.product) <= limits["most"]:
        raise Rejected("too few or too many turns")
    if missing := [kind for kind in ("What", "How", "Why") if kind not in {turn.kind for turn in made.product}]:
        raise Rejected(f"no {' and no '.join(missing)}")
    return Kept(*made)


def sound_flow(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """Materials that there are, one or two principles a tutor's turn, so many exchanges."""
    plan: Flow
    [plan] = read(answers)
    if not limits["fewest"] <= len(plan.exchanges) <= limits["most"]:
        raise Rejected("too few or too many exchanges")
    known = {material["name"] for material in about["materials"]}
    for exchange in plan.exchanges:
        if not {*exchange.student_materials, *exchange.tutor_materials} <= known:
            raise Rejected("a material that is not there")
        if not 1 <= len(exchange.principles) <= MOST_PRINCIPLES:
            raise Rejected("not one or two principles")
        if not KNOWN_PRINCIPLES.issuperset(exchange.principles):
            raise Rejected("a principle that is none of the six")
    return Kept(plan)


def kept_flow(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """A flow, with its end cut off where that is said. about: the `plan`."""
    decision: Decision
    [decision] = read(answers)
    plan: Flow = about["plan"]
    if decision.decision == "discard":
        raise Rejected("discarded")
    if decision.decision == "keep":
        return Kept(plan)
    last = decision.last or 0
    if not 1 <= last <= len(plan.exchanges):
        raise Rejected("truncated after an exchange that it does not have")
    cut = plan.model_copy(update={"exchanges": plan.exchanges[:last]})
    return Kept(cut, truncated=last < len(plan.exchanges))


def as_planned(answers: Sequence[Answered], about: About, limits: Limits) -> Kept:
    """An exchange for each that is planned."""
    made: Made
    [made] = read(answers)
    plan: Flow = about["plan"]
    if len(made.product) != len(plan.exchanges):
        raise Rejected("not as many exchanges as planned")
    return Kept(*made)


RULES: dict[str, Rule] = {
    function.__name__: function
    for function in (
        always,
        some_chosen,
        all_approve,
        all_validate,
        well_posed,
        new_problem,
        majority,
        two_distinct_wrong,
        same_answer,
        right_feedback,
        what_how_why,
        sound_flow,
        kept_flow,
        as_planned,
    )
}

# Of a stage card's limits those that a rule needs; rules that take the answers of several models or samples.
LIMITS: Mapping[str, frozenset[str]] = {
    "new_problem": frozenset({"overlap"}),
    "what_how_why": frozenset({"fewest", "most"}),
    "sound_flow": frozenset({"fewest", "most"}),
}
OF_SEVERAL = frozenset({"all_approve", "all_validate", "majority", "two_distinct_wrong"})
