"""Error detection and correction (KMP-Bench EC): is a solution right, which step is the first wrong one, and why.

The answer is asked for in the tags of the paper's Figure 11; lines `First error step: 3` are read too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from maieutic.benchmarks.kmpbench.rounds import compared
from maieutic.core.records import Item, Scoring
from maieutic.graders.reading import Reading, plain, unread
from maieutic.graders.steps import read_step
from maieutic.graders.yes_no import solution_stated

# Names without underscores: the clean-up takes them for Markdown.
TAG = r"<{name}>(.*?)(?:</{name}>|(?=<[a-z]{{3,30}}>)|\Z)"
LINE = (
    r"^[^\w\n]{{0,20}}(?:\d{{1,2}}[.)][^\w\n]{{0,20}})?{name}"
    r"[^\w\n:=]{{0,10}}(?:[:=]|\n)[^\w\n]{{0,20}}(\w[^\n]{{0,300}})"
)
CORRECTNESS = r"(?:final\s+judge?ment|solution\s+correctness|correctness)"
STEP = r"(?:first\s*)?(?:error|wrong|incorrect)\s*step(?:\s*(?:number|num|no\.?))?"
SAID = re.compile(r"\w")
# What a verdict is made of. Both sides at once ("yes or no", "correct until step 2") are no verdict.
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
SEVERAL = r"(?:steps?\s*)?\d{1,3}(?:\s*(?:,|and|&|to|-|\u2013)\s*\d{1,3})+"
OF_STEPS = re.compile(r"\b(?:steps?|errors?|mistakes?|wrong|incorrect|correct|right)\b", re.IGNORECASE)
LONGEST = 20_000  # characters at the end of a reply in which its tags are looked for


class Found(NamedTuple):
    """What a reply says: whether the solution is wrong, and its first wrong step (0: none)."""

    incorrect: bool
    step: int | None


def field(text: str, tag: str, words: str) -> str | None:
    """The last thing that is said under a tag, closed or not, else on or below a line that begins with these words."""
    for pattern, flags in ((TAG.format(name=tag), re.DOTALL), (LINE.format(name=words), re.MULTILINE)):
        if values := [
            value.strip() for value in re.findall(pattern, text, flags | re.IGNORECASE) if SAID.search(value)
        ]:
            return str(values[-1])
    return None


def verdict_in(text: str, step: int | None) -> bool | None:
    """Whether the solution is said to be incorrect; None where both are said, or neither. step: the one beside it."""
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


def step_in(text: str) -> int | None:
    """Return the single step that a field names, 0 for "none", or None."""
    if NO_STEP.match(text):
        return 0
    if re.fullmatch(SEVERAL, text.strip(" ."), re.IGNORECASE):
        return None
    read = read_step(text)
    return None if read is None else read[0]


def in_prose(text: str) -> Found | None:
    """Return the verdict of a reply without fields, or None.

    A number counts as a step only in a reply that mentions steps or mistakes; otherwise it may answer the problem.
    """
    step, stated = read_step(text), solution_stated(text)
    if step is not None and stated is None and not OF_STEPS.search(text):
        return None
    if step is not None:
        return Found(step[0] > 0, step[0]) if stated in (None, step[0] > 0) else None
    return None if stated is None else Found(stated, None if stated else 0)


def detection(text: str) -> Found | None:
    """What a reply says of a solution, or None. A step without a verdict is a verdict; a contradiction is none."""
    cleaned = plain(text[-LONGEST:].replace("\\_", "_"))
    verdict, place = field(cleaned, "correctness", CORRECTNESS), field(cleaned, "errorstepnum", STEP)
    if verdict is None and place is None:
        return in_prose(cleaned)
    step = step_in(place) if place is not None else None
    if verdict is None:
        return None if step is None else Found(step > 0, step)
    incorrect = verdict_in(verdict, step)
    if incorrect is None or (not incorrect and step):
        return None
    return Found(True, step or None) if incorrect else Found(False, 0)


def error_detection(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Turn 1: the verdict (True: the solution is incorrect) and the first wrong step.

    paper_compat: what cannot be read is wrong, the verdict and the step; no published reader is known.
    """
    gold, first = bool(item.reference["incorrect"]), int(item.reference["step"])
    answer = detection(texts[0])
    if answer is None and scoring == "robust":
        return [unread(texts[0], "no verdict", criterion) for criterion in ("verdict", "step")]
    if answer is None:
        return [
            Reading(not gold, False, "", "no verdict", "verdict"),
            Reading(None, False, "", "no verdict", "step"),
        ]
    verdict = Reading(answer.incorrect, answer.incorrect == gold, "", None, "verdict")
    if answer.step is None and scoring == "robust" and answer.incorrect == gold:  # a mistake, and not where
        step = unread(texts[0], "no single step number", "step")
    else:
        step = Reading(answer.step, answer.incorrect == gold and answer.step == first, str(answer.step), None, "step")
    return [verdict, step]


def located(item: Item, texts: Sequence[str]) -> bool:
    """Whether a reply to a wrong solution names its first wrong step: then its reason is worth judging."""
    answer = detection(texts[0]) if texts else None
    return bool(item.reference["incorrect"]) and answer is not None and answer.step == int(item.reference["step"])


def correction(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Turn 2: the final answer of the corrected solution."""
    return [compared(item.reference["answer"], item.vars["question"], texts[1], scoring, "correction")]
