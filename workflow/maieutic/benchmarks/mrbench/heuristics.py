"""Word-list heuristics for MRBench's dimensions: grader baselines that do not interpret a reply.

Each dimension uses the word list that agrees better with the authors' labels, either this project's or the toolkit's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from maieutic.benchmarks.mrbench.toolkit import ACTS, IDENTIFIES, LOCATES, contains_any
from maieutic.core.records import Item
from maieutic.datasets.text import last_student_turn
from maieutic.graders.numerals import numerals
from maieutic.validation.word_rules import Heuristic, word_set

REVEALS = re.compile(
    r"\b(?:the (?:correct )?answer is|answer would be|so it(?:'s| is)|equals|which is)\b|=\s*\$?\d", re.IGNORECASE
)
GUIDES = re.compile(
    r"\b(?:hint|remember|think about|recall|first|let's|try|consider|for example|imagine|means|because)\b",
    re.IGNORECASE,
)
WARM = re.compile(
    r"\b(?:great|good|nice|well done|excellent|awesome|fantastic|almost|right track|keep|close|thank|happy)\b|!",
    re.IGNORECASE,
)
STIFF = re.compile(r"\bas an AI\b|\*\*|^\s*(?:[-*]|\d+[.)])\s", re.IGNORECASE | re.MULTILINE)
MANY_WORDS = 80  # a reply with more words does not look human


def contains_pattern(pattern: re.Pattern[str]) -> Callable[[Item, str], bool]:
    """Return a function that returns True if the pattern occurs in a reply."""
    return lambda item, text: pattern.search(text) is not None


def repeats_student(item: Item, text: str) -> bool:
    """Return True if a reply repeats a word or number of the student's last turn."""
    return bool(word_set(text) & word_set(last_student_turn(item.vars["history"])))


def looks_human(item: Item, text: str) -> bool:
    """Return True if a reply is as short and as plainly formatted as human writing."""
    return len(text.split()) <= MANY_WORDS and not STIFF.search(text)


def announces_answer(item: Item, text: str) -> bool:
    """Return True if a reply announces an answer or contains the last number of the reference solution."""
    final = [numeral.value for numeral in numerals(str(item.reference.get("solution", "")))][-1:]
    return bool(REVEALS.search(text)) or bool(final and final[0] in {numeral.value for numeral in numerals(text)})


HEURISTICS = {
    "Mistake_Identification": Heuristic(partial(contains_any, IDENTIFIES)),
    "Mistake_Location": Heuristic(partial(contains_any, LOCATES)),
    "Revealing_of_the_Answer": Heuristic(announces_answer),
    "Providing_Guidance": Heuristic(contains_pattern(GUIDES)),
    "Actionability": Heuristic(partial(contains_any, ACTS)),
    "Coherence": Heuristic(repeats_student),
    "Tutor_Tone": Heuristic(contains_pattern(WARM), otherwise=1),  # otherwise Neutral (1), never Offensive
    "humanlikeness": Heuristic(looks_human),
}
