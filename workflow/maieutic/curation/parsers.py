"""Parsers of the answers to curation stages. The parts of an answer are in tags, as KMP-Bench's prompts request."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from maieutic.core.options import is_option_letter, match_option, options_of
from maieutic.curation.records import PRINCIPLES, Clarification, Exchange, Feedback, Flow, PosedProblem
from maieutic.graders.choices import chosen_option
from maieutic.graders.passages import BOXED
from maieutic.graders.solution_numbers import solution_number

# Variables of a stage's prompt, and values that its parser and its acceptance rule need to check an answer.
StageVariables = Mapping[str, Any]
Limits = Mapping[str, float]
Options = Mapping[str, str]  # options of a multiple-choice problem by letter; empty if the answer is a number
NO_OPTIONS: Options = {}
Parser = Callable[[str, StageVariables, Limits], Any]
MOST_DIGITS = 15  # maximum number of significant digits in an answer
# Matches "Step 1:" in a line (as in KMP-Bench's Figure 11) or at its start, optionally after a list or heading mark.
STEP = re.compile(
    r"^[-*#> \t]*Step[ \t]+(?P<own>\d{1,3})[* \t]*[:.)\-\u2013\u2014][* \t]*"
    r"|(?<=\s)Step[ \t]+(?P<within>\d{1,3}):[* \t]*",
    re.IGNORECASE | re.MULTILINE,
)
BETWEEN_CHOICES = re.compile(r"[,;\n]|\band\b")
NUMBER = re.compile(r"\d+")
KINDS: Mapping[str, Any] = {"what": "What", "how": "How", "why": "Why"}


class AnswerFormatError(Exception):
    """Error for an answer that is not in the format that its prompt requests. The message describes the fault."""


def text_in_tag(text: str, *names: str) -> str | None:
    """Return the content of the last <name>...</name> in a text; None if the text does not contain the tag.

    names: alternative names of the tag, in order of preference.

    No regular expression is used, because one would take minutes on an answer that repeats an opening tag endlessly.
    """
    folded = text.lower() if len(text.lower()) == len(text) else text
    for name in names:
        open_tag, close_tag = f"<{name.lower()}>", f"</{name.lower()}>"
        end = folded.rfind(close_tag)
        start = folded.rfind(open_tag, 0, end) if end >= 0 else -1
        if start >= 0:
            return text[start + len(open_tag) : end].strip()
    return None


def required_part(text: str, *names: str) -> str:
    """Return the content of a tag as `text_in_tag` does. Raises AnswerFormatError if the tag is missing or empty."""
    part = text_in_tag(text, *names)
    if not part:
        raise AnswerFormatError(f"no <{names[0]}>")
    return part


def numbered_parts(text: str, name: str) -> dict[int, str]:
    """Return the contents of the tags <NAME1>, <NAME2>, ... by number. If a number is repeated, its last tag counts."""
    ends: dict[str, list[int]] = defaultdict(list)
    for match in re.finditer(rf"</{name}(\d{{1,3}})>", text, re.IGNORECASE):
        ends[match[1]].append(match.start())
    parts: dict[int, str] = {}
    for match in re.finditer(rf"<{name}(\d{{1,3}})>", text, re.IGNORECASE):
        place = bisect_left(ends[match[1]], match.end())
        if place < len(ends[match[1]]):
            parts[int(match[1])] = text[match.end() : ends[match[1]][place]].strip()
    return parts


def consecutive_parts(parts: Mapping[int, str], name: str) -> list[str]:
    """Return the contents of numbered tags in order. name: name of the tags, for error messages.

    Raises AnswerFormatError if a tag is empty, or the numbers are not 1, 2, 3 and so on.
    """
    if sorted(parts) != list(range(1, len(parts) + 1)):
        raise AnswerFormatError(f"<{name}> tags are not numbered from 1")
    if not all(parts.values()):
        raise AnswerFormatError(f"an empty <{name}>")
    return [parts[number] for number in sorted(parts)]


def decimal_text(value: float) -> str:
    """Return a number in plain decimal notation. Raises AnswerFormatError if it is not finite or needs an exponent."""
    decimal = f"{value:.{MOST_DIGITS}g}"
    if not re.fullmatch(r"-?\d+(?:\.\d+)?", decimal):
        raise AnswerFormatError("the answer is not a plain number")
    return decimal


def answer_in_only_box(text: str, options: Options = NO_OPTIONS) -> str:
    """Return the number, or the letter of the option, in the only \\boxed{} of a text.

    Raises AnswerFormatError if the text does not have exactly one box, or the box contains no such answer.
    """
    boxes = BOXED.findall(text)
    if len(boxes) != 1:
        raise AnswerFormatError("no box" if not boxes else "several boxes")
    if options:
        return required_option(match_option(boxes[0], options), "no option in the box")
    value = solution_number(f"\\boxed{{{boxes[0]}}}").value
    if value is None:
        raise AnswerFormatError("no number in the box")
    return decimal_text(value)


def answer_at_end(text: str, options: Options = NO_OPTIONS) -> str:
    """Return the final answer of a worked solution: a number, or the letter of the chosen option.

    Raises AnswerFormatError if the solution has no final answer.
    """
    if options:
        return required_option(chosen_option(text, options), "no final answer")
    value = solution_number(text).value
    if value is None:
        raise AnswerFormatError("no final answer")
    return decimal_text(value)


def required_option(letter: str | None, why_none: str) -> str:
    """Return the letter of an option. If `letter` is None, raise AnswerFormatError with the message `why_none`."""
    if letter is None:
        raise AnswerFormatError(why_none)
    return letter


def options_of_problem(about: StageVariables) -> Options:
    """Return the options of the problem in a stage's prompt; empty if the problem's answer is a number."""
    if not is_option_letter(str(about.get("answer", ""))):
        return NO_OPTIONS
    return options_of(about["problems"][-1]["problem"] if "problems" in about else about["problem"])


def equal_answers(first: str, second: str) -> bool:
    """Return True if two final answers, each a number or the letter of an option, are the same."""
    if is_option_letter(first) or is_option_letter(second):
        return first == second
    return float(first) == float(second)


def answer_in_tag(text: str, options: Options) -> str:
    """Return the number, or the letter of the option, in <answer>. Raises AnswerFormatError if there is neither."""
    answer = required_part(text, "answer")
    return match_option(answer, options) or answer_at_end(answer, options)


def is_first_word(text: str, name: str, words: tuple[str, str]) -> bool:
    """Return True if a tag contains the first of two words, False if it contains the second.

    name: name of the tag. Raises AnswerFormatError for any other content.
    """
    word = required_part(text, name).strip(" .*\"'").casefold()
    if word not in words:
        raise AnswerFormatError(f"<{name}> is neither {words[0]} nor {words[1]}")
    return word == words[0]


def is_refined(text: str) -> bool:
    """Return True if an answer reports that the model revised its product after checking it."""
    return (text_in_tag(text, "result") or "").strip(" .").casefold() == "yes"


class Validation(NamedTuple):
    """A validator's reply about a seed (KMP-Bench, Figure 7).

    solution: the validator's own solution; answer: the boxed answer in that solution, None if it cannot be parsed.
    """

    approved: bool
    solution: str
    answer: str | None


class StageProduct(NamedTuple):
    """The product of a stage. refined: True if the model revised the product after checking it."""

    product: Any
    refined: bool = False


class Attempt(NamedTuple):
    """The raw text of a solution, and its final answer."""

    text: str
    answer: str


class Steps(NamedTuple):
    """The steps and the final answer of a rephrased solution."""

    steps: list[str]
    answer: str


class Correction(NamedTuple):
    """Feedback on a solution, and the corrected solution: its final answer and its steps."""

    feedback: Feedback
    answer: str | None
    corrected: list[str]


class Decision(NamedTuple):
    """A decision on a flow (the plan of a dialogue): keep, truncate or discard it.

    last: number of the last exchange to keep, counted from 1.
    """

    decision: str
    last: int | None


def parse_choice(text: str, about: StageVariables, limits: Limits) -> list[str]:
    """Return the codes of the chosen options in order, at most `limits["most"]` codes. Unknown codes are ignored.

    A choice may contain other words ("Turn 5", "OA: Operations"); the first known code in each choice counts.
    """
    known = {str(option["code"]).casefold(): str(option["code"]) for option in about["options"]}
    longest_first = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    code = re.compile(rf"(?<![\w.])(?:{longest_first})(?!\w|\.\w)")
    parts = BETWEEN_CHOICES.split(required_part(text, "choice").casefold())
    chosen = [known[match[0]] for part in parts if (match := code.search(part))]
    return list(dict.fromkeys(chosen))[: int(limits["most"])]


def parse_validation(text: str, about: StageVariables, limits: Limits) -> Validation:
    """Parse a validator's verdict (Y or N) and its own solution (KMP-Bench, Figure 7)."""
    approved = is_first_word(text, "judge", ("y", "n"))
    solution = text_in_tag(text, "solution") or ""
    try:
        return Validation(approved, solution, answer_in_only_box(solution, options_of_problem(about)))
    except AnswerFormatError:
        return Validation(approved, solution, None)


def parse_posed(text: str, about: StageVariables, limits: Limits) -> StageProduct:
    """Parse a new problem (KMP-Bench, Figures 10 and 12).

    The tags may be numbered by the problem's position, for example <question2> after one earlier problem.
    """
    number = len(about.get("problems", ())) + 1
    question = required_part(text, f"question{number}", "question", "question{i}")
    solution = required_part(text, f"solution{number}", "solution", "solution{i}")
    options: Options = options_of(question)
    # An answer that is not one of the options shows that the question is not multiple choice.
    if match_option(required_part(text, "answer"), options) is None:
        options = NO_OPTIONS
    answer = answer_in_tag(text, options)
    if not equal_answers(answer_in_only_box(solution, options), answer):
        raise AnswerFormatError("answer and box differ")
    return StageProduct(PosedProblem(problem=question, solution=solution, answer=answer), is_refined(text))


def parse_boxed(text: str, about: StageVariables, limits: Limits) -> str:
    """Parse the final answer of a solver's solution."""
    return answer_at_end(text, options_of_problem(about))


def parse_final_answer(text: str, about: StageVariables, limits: Limits) -> Attempt:
    """Parse a weak solver's solution and its final answer."""
    return Attempt(text.strip(), answer_at_end(text, options_of_problem(about)))


def split_steps(text: str) -> list[str]:
    """Return the numbered steps of a text, without their numbers. Raises AnswerFormatError if there are no steps."""
    marks: list[re.Match[str]] = []
    last = 0
    for mark in STEP.finditer(text):
        # Do not start a step at a reference to another step ("as in Step 1: ...").
        if mark["own"] or (last and int(mark["within"]) == last + 1):
            marks.append(mark)
            last = int(mark["own"] or mark["within"])
    before = text[: marks[0].start()].strip() if marks else ""
    if not marks or (before and not (before.endswith(":") and "\n" not in before)):
        raise AnswerFormatError("no numbered steps")
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    parts = [text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    if not all(parts):
        raise AnswerFormatError("an empty step")
    return parts


def parse_steps(text: str, about: StageVariables, limits: Limits) -> Steps:
    """Parse a solution of 2 to `limits["most"]` steps, and its final answer."""
    parts = split_steps(required_part(text, "steps"))
    if not 2 <= len(parts) <= limits["most"]:
        raise AnswerFormatError("too few or too many steps")
    return Steps(parts, answer_in_tag(text, options_of_problem(about)))


def parse_judgement(text: str, about: StageVariables, limits: Limits) -> bool:
    """Parse a judge's verdict: True for Y, False for N."""
    return is_first_word(text, "judge", ("y", "n"))


def parse_feedback(text: str, about: StageVariables, limits: Limits) -> Correction:
    """Parse feedback on a solution (KMP-Bench, Figure 11).

    For a wrong solution, the feedback has the first wrong step, the reason, and the corrected steps and answer.
    """
    if is_first_word(text, "correctness", ("yes", "no")):
        return Correction(Feedback(step=0), None, [])
    number = NUMBER.search(required_part(text, "error_step_num"))
    if number is None:
        raise AnswerFormatError("<error_step_num> is not a number")
    corrected = required_part(text, "corrected_solution")
    parts = split_steps(corrected)
    if len(parts) > limits["most"]:
        raise AnswerFormatError("too many steps")
    options = options_of_problem(about)
    answer = answer_in_tag(text, options)
    if BOXED.search(corrected) and not equal_answers(answer_in_only_box(corrected, options), answer):
        raise AnswerFormatError("answer and box differ")
    review = Feedback(step=int(number[0][:6]), reason=required_part(text, "error_step"), corrected=corrected)
    return Correction(review, answer, parts)


def parse_clarification(text: str, about: StageVariables, limits: Limits) -> StageProduct:
    """Parse queries with their answers and kinds: What, How or Why (KMP-Bench, Figure 13)."""
    kinds = consecutive_parts(numbered_parts(text, "type"), "type")
    queries = consecutive_parts(numbered_parts(text, "query"), "query")
    answers = consecutive_parts(numbered_parts(text, "answer"), "answer")
    if not len(kinds) == len(queries) == len(answers) > 0:
        raise AnswerFormatError("types, queries and answers differ in number")
    if any(kind.strip(" .").casefold() not in KINDS for kind in kinds):
        raise AnswerFormatError("a type that is not What, How or Why")
    turns = [
        Clarification(kind=KINDS[kind.strip(" .").casefold()], query=query, answer=answer)
        for kind, query, answer in zip(kinds, queries, answers, strict=True)
    ]
    return StageProduct(turns, is_refined(text))


def material_names(text: str) -> list[str]:
    """Return the names of the materials for one side of a planned exchange; an empty list if the text is "none"."""
    words = [word.strip(" <>/.") for word in re.split(r"[,;\s]+", text)]
    return [word for word in words if word and word.casefold() not in {"none", "and"}]


def parse_flow(text: str, about: StageVariables, limits: Limits) -> Flow:
    """Parse a flow, the plan of a dialogue (KMP-Bench, Figure 14)."""
    student = consecutive_parts(numbered_parts(text, "Sflow"), "Sflow")
    tutor = consecutive_parts(numbered_parts(text, "Tflow"), "Tflow")
    if len(student) != len(tutor):
        raise AnswerFormatError("student and tutor do not take turns")
    exchanges = []
    for student_part, tutor_part in zip(student, tutor, strict=True):
        named = [word.strip(" .").casefold() for word in required_part(tutor_part, "principles").split(",")]
        exchanges.append(
            Exchange(
                student=required_part(student_part, "action"),
                student_materials=material_names(text_in_tag(student_part, "source_material") or ""),
                tutor=required_part(tutor_part, "action"),
                tutor_materials=material_names(text_in_tag(tutor_part, "source_material") or ""),
                principles=list(dict.fromkeys("modelling" if word == "modeling" else word for word in named)),
            )
        )
    objectives = [line.strip(" -*\t") for line in required_part(text, "objectives").splitlines()]
    return Flow(
        id=str(about["id"]),
        persona=required_part(text, "tutor_persona"),
        student_profile=required_part(text, "student_profile"),
        objectives=[line for line in objectives if line],
        storyline=required_part(text, "storyline"),
        exchanges=exchanges,
    )


def parse_decision(text: str, about: StageVariables, limits: Limits) -> Decision:
    """Parse a decision on a flow: keep, truncate or discard."""
    word = required_part(text, "decision").strip(" .*").casefold()
    if word not in {"keep", "truncate", "discard"}:
        raise AnswerFormatError("<decision> is not keep, truncate or discard")
    last = NUMBER.search(text_in_tag(text, "last") or "")
    if word == "truncate" and last is None:
        raise AnswerFormatError("no number in <last>")
    return Decision(word, int(last[0][:6]) if last and word == "truncate" else None)


def parse_dialogue(text: str, about: StageVariables, limits: Limits) -> StageProduct:
    """Parse the exchanges of a conversation, each a student's turn and a tutor's turn (KMP-Bench, Figure 15)."""
    student, tutor = numbered_parts(text, "S"), numbered_parts(text, "T")
    turns = consecutive_parts(student, "S"), consecutive_parts(tutor, "T")
    if len(turns[0]) != len(turns[1]):
        raise AnswerFormatError("student and tutor do not take turns")
    return StageProduct(list(zip(*turns, strict=True)), is_refined(text))


def parse_instruction(text: str, about: StageVariables, limits: Limits) -> str:
    """Parse the system prompt of a test case."""
    return required_part(text, "instruction")


PARSERS: dict[str, Parser] = {
    function.__name__.removeprefix("parse_"): function
    for function in (
        parse_choice,
        parse_validation,
        parse_posed,
        parse_boxed,
        parse_final_answer,
        parse_steps,
        parse_judgement,
        parse_feedback,
        parse_clarification,
        parse_flow,
        parse_decision,
        parse_dialogue,
        parse_instruction,
    )
}
# Principles that a flow may name. They are checked by the acceptance rule `sound_flow`, not by the parser.
KNOWN_PRINCIPLES = frozenset(PRINCIPLES)

# Names of the limits that each parser requires in a stage card.
PARSER_LIMITS: Mapping[str, frozenset[str]] = {
    "choice": frozenset({"most"}),
    "steps": frozenset({"most"}),
    "feedback": frozenset({"most"}),
}
# Parsers that need the end of an answer. They are not applied to an answer that is cut off at the token limit.
NEEDS_WHOLE_TEXT = frozenset({"boxed", "final_answer"})
