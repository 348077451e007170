"""Constructed problems (KMP-Bench Gen): what can be said without a judge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from maieutic.graders.answers import final_number
from maieutic.graders.reading import Reading, plain, unread
from maieutic.records import Item, Scoring

COPIED = 0.9  # share of common words above which a problem is a copy (KMP-Bench, appendix D: LCS over 90 % is dropped)
SOLUTION = re.compile(
    r"</problem>|<solution>|^\W*(?:the\s+)?(?:step-by-step\s+)?solution\W*[:\n]", re.IGNORECASE | re.MULTILINE
)
WORD = re.compile(r"[^\W_]+")


def problem_of(text: str) -> str:
    """What a reply says before its solution begins."""
    return SOLUTION.split(text, maxsplit=1)[0]


def likeness(one: str, other: str) -> float:
    """The share of words that two problems have in common, in their order: 1 for copies."""
    first, second = (WORD.findall(text.casefold()) for text in (one, other))
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def new_problem(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Whether the last reply holds a problem and a solution with a number, and copies none of the earlier problems."""
    said = texts[-1]
    if not plain(said) and scoring == "robust":
        return [unread(said, "empty reply")]
    problem = problem_of(said)
    whole = problem != said and final_number(said[len(problem) :]) is not None
    copied = max(likeness(problem, other) for other in (item.vars["seed_problem"], *map(problem_of, texts[:-1])))
    return [Reading(round(copied, 3), whole and copied <= COPIED, "" if whole else "no solution with a number")]
