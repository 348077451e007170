"""Checks of a tutor's new problems without a judge (KMP-Bench Gen): completeness, and copying of earlier problems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from maieutic.core.records import Item, Scoring
from maieutic.graders.answers import final_number
from maieutic.graders.reading import Reading, plain_notation, unread_reply

# Above this share of common words, a problem is a copy. KMP-Bench drops problems with an LCS over 90 % (appendix D).
MAX_LIKENESS = 0.9
SOLUTION = re.compile(
    r"</problem>|<solution>|^[^\w\n]{0,20}(?:the\s+)?(?:step-by-step\s+)?solution\b", re.IGNORECASE | re.MULTILINE
)
TAGGED = re.compile(r"<problem>(.*?)</problem>", re.IGNORECASE | re.DOTALL)
FEWEST_WORDS, MOST_WORDS = 5, 2000
WORD = re.compile(r"[^\W_]+")


def problem_in_reply(text: str) -> str:
    """Return the problem in a reply: the last tagged problem, or the text before the solution if there is no tag."""
    tagged = TAGGED.findall(text)
    return tagged[-1] if tagged else SOLUTION.split(text, maxsplit=1)[0]


def solution_in_reply(text: str) -> str:
    """Return the solution in a reply: the text after the problem, which may be empty."""
    parts = SOLUTION.split(text, maxsplit=1)
    return parts[1] if len(parts) > 1 else ""


def likeness(problem: str, other: str) -> float:
    """Return the share of the shorter problem's words that occur in the same order in the longer one (1: a copy)."""
    first, second = (WORD.findall(text.casefold())[:MOST_WORDS] for text in (problem, other))
    if first == second:
        return float(bool(first))
    common = sum(block.size for block in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks())
    return common / max(1, min(len(first), len(second)))


def grade_new_problem(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Check that the last reply contains a problem with a numeric solution and does not copy an earlier problem."""
    reply = texts[-1]
    if not plain_notation(reply) and scoring == "robust":
        return [unread_reply(reply, "empty reply")]
    problem = problem_in_reply(reply)
    complete = len(WORD.findall(problem)) >= FEWEST_WORDS and final_number(solution_in_reply(reply)) is not None
    copied = max(likeness(problem, other) for other in (item.vars["seed_problem"], *map(problem_in_reply, texts[:-1])))
    return [
        Reading(
            round(copied, 3),
            complete and copied <= MAX_LIKENESS,
            "" if complete else "the reply contains no problem with a numeric solution",
        )
    ]
