"""Verdicts of one word or one number: yes or no, the step of the first mistake."""

from __future__ import annotations

import re

from maieutic.core.records import Item, Scoring
from maieutic.graders.reading import KEPT, Reading, plain, unread

MARKED = r"(?:^|\n)[ \t]*(?:the\s+)?(?:final\s+)?(?:answer|a|verdict)\s*(?:is\s*)?[:=]\s*"
MARKED_LABEL = re.compile(MARKED + r"[\"'(\[]*(yes|no)\b", re.IGNORECASE)
LEADING_LABEL = re.compile(r"[\s\"'(\[]*(yes|no)[\"')\]]*\s*(?:[.,;:!\u2013\u2014-]|\n|$)", re.IGNORECASE)
LABEL = re.compile(r"\b(yes|no)\b", re.IGNORECASE)

STEP = r"(?:step\s*)?#?(?P<step>\d{1,3})"
MARKED_STEP = re.compile(MARKED + r"[\"'(\[]*" + STEP + r"\b(?!\s*[-+*/=x]|\.\d)", re.IGNORECASE)
LEADING_STEP = re.compile(
    r"[\s\"'(\[#]*" + STEP + r"[\"')\]]*\s*(?:[.](?!\d)|[,;:!)\u2013\u2014-](?!\d)|\n|$)", re.IGNORECASE
)
NAMED_STEP = re.compile(r"\b(?:step|line)\s*(?:number\s*|no\.\s*)?#?(\d{1,3})\b", re.IGNORECASE)
# A step that is named as none that is wrong: "step 1 is correct", "not in step 2".
SOUND_STEP = re.compile(
    r"\b(?:step|line)\s*#?\d{1,3}\s+(?:is|was|looks|seems)\s+(?:also\s+|completely\s+|entirely\s+)?"
    r"(?:correct|right|fine|ok|okay|good)\b(?!\s+(?:except|until|but))|\bnot\s+(?:in\s+)?(?:step|line)\s*#?\d{1,3}\b",
    re.IGNORECASE,
)
# A clause that says that nothing is wrong: "correct until the last line" is none.
STEPS = r"(?:steps?|lines?)(?:\s+\d{1,3}(?:\s*(?:to|-|\u2013|through|and|&)\s*\d{1,3})?)?"
WHERE = (
    r"(?:\s+(?:found|made|here|present|at\s+all|in\s+(?:the|this)\s+(?:student'?s?\s+)?(?:solution|work|answer)"
    rf"|in\s+(?:any|all|each|every)?\s*(?:(?:one\s+)?of\s+)?(?:the\s+|these\s+)?(?:\d{{1,3}}\s+)?{STEPS}))*"
)
SAID = r"(?:(?:so|therefore|thus|i\s+(?:think|believe)(?:\s+that)?)\s+)?"
NO_ERROR = re.compile(
    rf"{SAID}(?:there\s+(?:is|are|was|were)\s+|i\s+(?:see|find|found)\s+)?(?:no|without\s+any)\s+(?:errors?|mistakes?)"
    rf"(?:\s+(?:is|are|was|were))?{WHERE}|none"
    rf"|{SAID}none\s+of\s+(?:the|these)\s+(?:\d{{1,3}}\s+)?{STEPS}\s+(?:is|are|was|were)\s+(?:wrong|incorrect)"
    rf"|{SAID}(?:all(?:\s+of)?(?:\s+the)?(?:\s+\d{{1,3}})?\s+{STEPS}|(?:every|each)\s+(?:step|line)"
    r"|the\s+(?:student'?s?\s+)?solution)\s+(?:is|are|was|were)\s+(?:completely\s+|entirely\s+|all\s+)?(?:correct|right)"
    r"|(?:all|everything)\s+(?:is\s+|are\s+)?(?:right|correct)",
    re.IGNORECASE,
)
CLAUSE = re.compile(r"[.,;:!?\n]+(?!\d)|\s+and\s+(?=there\b|all\b|no\b|every)", re.IGNORECASE)
DOUBT = re.compile(
    r"\b(?:errors?|mistakes?|wrong|incorrect|but|except|however|until|only|although|though|unless|not|\w+n[\u2019']t)\b",
    re.IGNORECASE,
)
# "4 steps were checked" counts them and names none.
INTEGER = re.compile(
    r"(?<![\d.,])\d{1,3}(?![\d]|[.,]\d|\s+(?:steps|mistakes|errors|lines|parts|times)\b)", re.IGNORECASE
)


def released_yes_no(text: str) -> bool:
    """Q5: `yes` anywhere, else `no` anywhere (also in `know`), else True."""
    lowered = text.strip().lower()
    return "yes" in lowered or "no" not in lowered


def robust_yes_no(text: str) -> tuple[bool, str] | None:
    """A marked verdict (the last one), else one at the beginning, else the only one there is."""
    cleaned = plain(text)
    if marked := MARKED_LABEL.findall(cleaned):
        return marked[-1].lower() == "yes", marked[-1]
    if leading := LEADING_LABEL.match(cleaned):
        return leading[1].lower() == "yes", leading[1]
    words = LABEL.findall(cleaned)
    if len({word.lower() for word in words}) == 1:
        return words[0].lower() == "yes", words[0]
    return None


def yes_no(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Solution correctness (MathTutorBench task 3): Yes means that the student's solution is incorrect."""
    gold = bool(item.reference["incorrect"])
    if scoring == "paper_compat":
        value = released_yes_no(text)
        return [Reading(value, value == gold, "yes" if value else "no")]
    read = robust_yes_no(text)
    return [Reading(read[0], read[0] == gold, read[1]) if read else unread(text, "no single yes or no")]


def released_step(text: str) -> int:
    """Q4: the first integer anywhere, else 0. Raises ValueError where `int`, and so the released code, does."""
    match = re.search(r"\d+", text)
    return int(match.group()) if match else 0


def robust_step(text: str) -> tuple[int, str] | None:
    """A marked step (the last one), one at the beginning, none for "no mistake", the only step or integer there is."""
    cleaned = plain(text)
    if marked := list(MARKED_STEP.finditer(cleaned)):
        return int(marked[-1]["step"]), marked[-1][0].strip()
    if leading := LEADING_STEP.match(cleaned):
        return int(leading["step"]), leading[0].strip()
    if says_no_error(cleaned):
        return 0, cleaned
    left = SOUND_STEP.sub(" ", cleaned)
    for pattern in (NAMED_STEP, INTEGER):
        numbers = {int(number) for number in pattern.findall(left)}
        if len(numbers) == 1:
            return numbers.pop(), pattern.search(left)[0]  # type: ignore[index]
        if numbers:
            return None
    return None


def says_no_error(text: str) -> bool:
    """Whether one clause of a text says that nothing is wrong, and no other one takes that back."""
    clauses = [clause.strip(" \t\"'()[]-\u2013\u2014") for clause in CLAUSE.split(text)]
    others = [clause for clause in clauses if not NO_ERROR.fullmatch(clause)]
    return len(others) < len(clauses) and not any(
        DOUBT.search(clause) or NAMED_STEP.search(clause) for clause in others
    )


def step(item: Item, text: str, scoring: Scoring) -> list[Reading]:
    """Mistake location (MathTutorBench task 4): the first wrong step, 0 for none."""
    gold = int(item.reference["step"])
    if scoring == "paper_compat":
        try:
            value = released_step(text)
        except ValueError:
            return [Reading(None, None, "", "the released code fails: a number of more than 4,300 digits")]
        return [Reading(value, value == gold, str(value)[:KEPT])]
    read = robust_step(text)
    return [Reading(read[0], read[0] == gold, read[1]) if read else unread(text, "no single step number")]
