"""Parsers for error detection and correction (KMP-Bench EC).

A reply first states whether a solution is correct, the first wrong step and the reason; a second turn corrects the
solution. The prompts ask for the tags of the paper's Figure 11. Lines such as `First error step: 3` are parsed too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from maieutic.benchmarks.kmpbench.final_answers import compare_final_answer
from maieutic.core.records import Item, Scoring
from maieutic.graders.reading import Reading, plain_notation, unread_reply
from maieutic.graders.steps import read_step
from maieutic.graders.yes_no import last_solution_verdict

# Tag names are matched without underscores, because `plain_notation` removes underscores as Markdown.
TAG = r"<{name}>(.*?)(?:</{name}>|(?=<[a-z]{{3,30}}>)|\Z)"
LABELLED_LINE = (
    r"^[^\w\n]{{0,20}}(?:\d{{1,2}}[.)][^\w\n]{{0,20}})?{name}"
    r"[^\w\n:=]{{0,10}}(?:[:=]|\n)[^\w\n]{{0,20}}(\w[^\n]{{0,300}})"
)
CORRECTNESS = r"(?:final\s+judge?ment|solution\s+correctness|correctness)"
STEP = r"(?:first\s*)?(?:error|wrong|incorrect)\s*step(?:\s*(?:number|num|no\.?))?"
HAS_WORD = re.compile(r"\w")
# Words that express a verdict. A text with words for both verdicts ("yes or no", "correct until step 2") is unclear.
NO_ERROR = re.compile(r"\b(?:no|without(?:\s+any)?)\s+(?:errors?|mistakes?|issues?)\b", re.IGNORECASE)
WRONG = re.compile(
    r"\b(?:incorrect|wrong|false|inaccurate|flawed|invalid|not\s+(?:\w+\s+)?(?:correct|right|true))\b", re.IGNORECASE
)
FAULT = re.compile(r"\b(?:errors?|mistakes?)\b", re.IGNORECASE)
RIGHT = re.compile(
    r"\b(?:correct|right|true|accurate|valid)\b(?!\s+(?:answer|total|value|result|sum|number|amount|one)\b)",
    re.IGNORECASE,
)
PARTLY = re.compile(r"\b(?:until|except|partial(?:ly)?|partly|almost|mostly|but|if|otherwise)\b", re.IGNORECASE)
FIRST_WORD = re.compile(r"\W*(yes|no)\b(?!\s+(?:errors?|mistakes?|issues?))", re.IGNORECASE)
YES_OR_NO = re.compile(r"\byes\b.*\bno\b|\bno\b.*\byes\b", re.IGNORECASE | re.DOTALL)
NO_STEP = re.compile(r"\W*(?:none|n/?a|no\s+(?:error|step|mistake)s?|-1)\b", re.IGNORECASE)
SEVERAL_STEPS = r"(?:steps?\s*)?\d{1,3}(?:\s*(?:,|and|&|to|-|\u2013)\s*\d{1,3})+"
STEP_WORDS = re.compile(r"\b(?:steps?|errors?|mistakes?|wrong|incorrect|correct|right)\b", re.IGNORECASE)
SEARCHED_CHARACTERS = 20_000  # number of characters at the end of a reply in which fields are searched for


class ParsedDetection(NamedTuple):
    """Parsed answer to an error detection task.

    incorrect: True if the answer calls the solution incorrect; step: first wrong step, 0 if all steps are right, or
    None if the answer states no step.
    """

    incorrect: bool
    step: int | None


def last_field_value(text: str, tag: str, words: str) -> str | None:
    """Return the content of the last tag `tag`, closed or not, or of the last labelled line if there is no such tag.

    Returns None if the text contains neither. words: regular expression that matches the label of a line.
    """
    for pattern, flags in ((TAG.format(name=tag), re.DOTALL), (LABELLED_LINE.format(name=words), re.MULTILINE)):
        if values := [
            value.strip() for value in re.findall(pattern, text, flags | re.IGNORECASE) if HAS_WORD.search(value)
        ]:
            return str(values[-1])
    return None


def verdict_of_field(text: str, step: int | None) -> bool | None:
    """Return True if a field calls the solution incorrect, False if it calls the solution correct, or None if unclear.

    step: first wrong step that the same reply states, or None.
    """
    rest = NO_ERROR.sub(" ", text)
    if YES_OR_NO.search(rest):
        return None
    wrong = bool(WRONG.search(rest) or FAULT.search(rest))
    right = bool(RIGHT.search(WRONG.sub(" ", rest))) or bool(NO_ERROR.search(text))
    if first := FIRST_WORD.match(text):
        if first[1].lower() == "no":
            return None if right and PARTLY.search(text) and not step else True
        return None if wrong or PARTLY.search(text) else False
    if wrong == right or (right and PARTLY.search(text)):
        return None
    return wrong


def step_of_field(text: str) -> int | None:
    """Return the wrong step if a field names exactly one, 0 if it states that no step is wrong, or None if unclear."""
    if NO_STEP.match(text):
        return 0
    if re.fullmatch(SEVERAL_STEPS, text.strip(" ."), re.IGNORECASE):
        return None
    return read_step(text).value


def parse_prose(text: str) -> ParsedDetection | None:
    """Return the parsed answer of a reply that has neither tags nor labelled lines, or None if unclear.

    A number counts as a step only in a reply that mentions steps or mistakes; otherwise the number may be the answer to
    the problem.
    """
    step, stated = read_step(text).value, last_solution_verdict(text)
    if step is not None and stated is None and not STEP_WORDS.search(text):
        return None
    if step is not None:
        return ParsedDetection(step > 0, step) if stated in (None, step > 0) else None
    return None if stated is None else ParsedDetection(stated, None if stated else 0)


def parse_detection(text: str) -> ParsedDetection | None:
    """Return a reply's parsed answer, or None if its statements are unclear or contradict each other.

    A step number alone counts as a verdict: the solution is incorrect unless the number is 0."""
    cleaned = plain_notation(text[-SEARCHED_CHARACTERS:].replace("\\_", "_"))
    verdict, place = (
        last_field_value(cleaned, "correctness", CORRECTNESS),
        last_field_value(cleaned, "errorstepnum", STEP),
    )
    if verdict is None and place is None:
        return parse_prose(cleaned)
    step = step_of_field(place) if place is not None else None
    if verdict is None:
        return None if step is None else ParsedDetection(step > 0, step)
    incorrect = verdict_of_field(verdict, step)
    if incorrect is None or (not incorrect and step):
        return None
    return ParsedDetection(True, step or None) if incorrect else ParsedDetection(False, 0)


def grade_detection(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Grade the first turn: the verdict (True if the solution is called incorrect) and the first wrong step.

    paper_compat counts both as wrong if an answer is unreadable. This is an assumption, because the paper publishes no
    parser.
    """
    gold, first = bool(item.reference["incorrect"]), int(item.reference["step"])
    answer = parse_detection(texts[0])
    if answer is None and scoring == "robust":
        return [unread_reply(texts[0], "no verdict", criterion) for criterion in ("verdict", "step")]
    if answer is None:
        return [
            Reading(not gold, False, "", "no verdict", "verdict"),
            Reading(None, False, "", "no verdict", "step"),
        ]
    verdict = Reading(answer.incorrect, answer.incorrect == gold, "", None, "verdict")
    if answer.step is None and scoring == "robust" and answer.incorrect == gold:  # right verdict, no step
        step = unread_reply(texts[0], "the reply names no single step", "step")
    else:
        step = Reading(answer.step, answer.incorrect == gold and answer.step == first, str(answer.step), None, "step")
    return [verdict, step]


def names_error_step(item: Item, texts: Sequence[str]) -> bool:
    """Return True if a reply correctly names a solution's first wrong step, so that its reason can be judged."""
    answer = parse_detection(texts[0]) if texts else None
    return bool(item.reference["incorrect"]) and answer is not None and answer.step == int(item.reference["step"])


def grade_correction(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Grade the second turn: the final answer of the corrected solution."""
    return [compare_final_answer(item.reference["answer"], item.vars["question"], texts[1], scoring, "correction")]
