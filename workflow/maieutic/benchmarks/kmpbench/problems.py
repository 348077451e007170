"""Constructed problems (KMP-Bench Gen): what can be said without a judge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from maieutic.core.records import Item, Scoring
from maieutic.graders.answers import final_number
from maieutic.graders.reading import Reading, plain, unread

COPIED = 0.9  # share of common words above which a problem is a copy (KMP-Bench, appendix D: LCS over 90 % is dropped)
SOLUTION = re.compile(
    r"</problem>|<solution>|^[^\w\n]{0,20}(?:the\s+)?(?:step-by-step\s+)?solution\b", re.IGNORECASE | re.MULTILINE
)
TAGGED = re.compile(r"<problem>(.*?)</problem>", re.IGNORECASE | re.DOTALL)
FEWEST_WORDS, MOST_WORDS = 5, 2000
WORD = re.compile(r"[^\W_]+")


def problem_of(text: str) -> str:
    """What a reply gives as its problem: what is tagged so, else what stands before its solution."""
    tagged = TAGGED.findall(text)
    return tagged[-1] if tagged else SOLUTION.split(text, maxsplit=1)[0]


def solution_of(text: str) -> str:
    """What follows the problem."""
    parts = SOLUTION.split(text, maxsplit=1)
    return parts[1] if len(parts) > 1 else ""


def likeness(problem: str, other: str) -> float:
    """The share of the shorter problem's words that stand in the other in their order: 1 for copies."""
    first, second = (WORD.findall(text.casefold())[:MOST_WORDS] for text in (problem, other))
    if first == second:
        return float(bool(first))
    common = sum(block.size for block in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks())
    return common / max(1, min(len(first), len(second)))


def new_problem(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Whether the last reply holds a problem and a solution with a number, and copies none of the earlier problems."""
    reply = texts[-1]
    if not plain(reply) and scoring == "robust":
        return [unread(reply, "empty reply")]
    problem = problem_of(reply)
    complete = len(WORD.findall(problem)) >= FEWEST_WORDS and final_number(solution_of(reply)) is not None
    copied = max(likeness(problem, other) for other in (item.vars["seed_problem"], *map(problem_of, texts[:-1])))
    return [
        Reading(
            round(copied, 3),
            complete and copied <= COPIED,
            "" if complete else "no problem with a number as its solution",
        )
    ]
