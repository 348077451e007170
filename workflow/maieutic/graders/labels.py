"""Verdicts of one word or one number: yes or no, the step of the first mistake."""

from __future__ import annotations

import re

from maieutic.graders.reading import KEPT, Reading, plain, unread
from maieutic.records import Item, Scoring

MARKED = r"(?:^|\n)[ \t]*(?:the\s+)?(?:final\s+)?(?:answer|a|verdict)\s*(?:is\s*)?[:=]\s*"
MARKED_LABEL = re.compile(MARKED + r"[\"'(\[]*(yes|no)\b", re.IGNORECASE)
LEADING_LABEL = re.compile(r"[\s\"'(\[]*(yes|no)[\"')\]]*\s*(?:[.,;:!\u2013\u2014-]|\n|$)", re.IGNORECASE)
LABEL = re.compile(r"\b(yes|no)\b", re.IGNORECASE)

STEP = r"(?:step\s*)?#?(?P<step>\d{1,3})"
MARKED_STEP = re.compile(MARKED + r"[\"'(\[]*" + STEP + r"\b(?!\s*[-+*/=x]|\.\d)", re.IGNORECASE)
LEADING_STEP = re.compile(
    r"[\s\"'(\[#]*" + STEP + r"[\"')\]]*\s*(?:[.](?!\d)|[,;:!)\u2013\u2014-](?!\d)|\n|$)", re.IGNORECASE
)
NAMED_STEP = re.compile(r"\bstep\s*(?:number\s*|no\.\s*)?#?(\d{1,3})\b", re.IGNORECASE)
# The whole reply says so and nothing else: "correct until the last line" is no zero.
CHECKED = r"(?:\W*(?:all\s+)?\d{1,3}\s+steps\s+(?:were|are|have\s+been)\s+(?:checked|verified|examined))?\W*"
NO_ERROR = re.compile(
    rf"{CHECKED}(?:there\s+(?:is|are)\s+|i\s+(?:see|find|found)\s+)?(?:no|without\s+any)\s+(?:errors?|mistakes?)"
    r"(?:\s+(?:is|are|was|were))?(?:\s+(?:found|made|here|present|in\s+(?:the|this)\s+(?:student'?s?\s+)?solution))*\W*"
    r"|\W*(?:all(?:\s+of)?(?:\s+the)?\s+steps|every\s+step|each\s+step|the\s+(?:student'?s?\s+)?solution)"
    r"\s+(?:is|are)\s+(?:completely\s+|entirely\s+|all\s+)?correct\W*"
    rf"|{CHECKED}(?:all|everything)\s+(?:is\s+|are\s+)?(?:right|correct)\W*",
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
    found = re.search(r"\d+", text)
    return int(found.group()) if found else 0


def robust_step(text: str) -> tuple[int, str] | None:
    """A marked step (the last one), else one at the beginning, else the only step or integer there is."""
    cleaned = plain(text)
    if marked := list(MARKED_STEP.finditer(cleaned)):
        return int(marked[-1]["step"]), marked[-1][0].strip()
    if leading := LEADING_STEP.match(cleaned):
        return int(leading["step"]), leading[0].strip()
    for pattern in (NAMED_STEP, INTEGER):
        found = {int(number) for number in pattern.findall(cleaned)}
        if len(found) == 1:
            return found.pop(), pattern.search(cleaned)[0]  # type: ignore[index]
        if found:
            return None
    if NO_ERROR.fullmatch(cleaned):
        return 0, cleaned
    return None


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
