"""Lists of words for MRBench's dimensions: what needs no understanding of a reply.

Where the toolkit of its authors has a list that agrees better with their labels than ours, it is that one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from maieutic.benchmarks.mrbench.toolkit import ACTS, IDENTIFIES, LOCATES, holds
from maieutic.core.records import Item
from maieutic.datasets.text import last_student_turn
from maieutic.graders.numerals import numerals
from maieutic.validation.heuristics import Heuristic, words

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
MANY_WORDS = 80  # a longer turn sounds like no person


def has(pattern: re.Pattern[str]) -> Callable[[Item, str], bool]:
    """Whether a reply holds one of the words."""
    return lambda item, text: pattern.search(text) is not None


def follows(item: Item, text: str) -> bool:
    """Whether a reply takes up a word or number of the student's last turn."""
    return bool(words(text) & words(last_student_turn(item.vars["history"])))


def natural(item: Item, text: str) -> bool:
    """Whether a reply has a person's length and form."""
    return len(text.split()) <= MANY_WORDS and not STIFF.search(text)


def reveals(item: Item, text: str) -> bool:
    """Whether a reply announces an answer, or says the number that the solution ends with."""
    final = [numeral.value for numeral in numerals(str(item.reference.get("solution", "")))][-1:]
    return bool(REVEALS.search(text)) or bool(final and final[0] in {numeral.value for numeral in numerals(text)})


HEURISTICS = {
    "Mistake_Identification": Heuristic(partial(holds, IDENTIFIES)),
    "Mistake_Location": Heuristic(partial(holds, LOCATES)),
    "Revealing_of_the_Answer": Heuristic(reveals),
    "Providing_Guidance": Heuristic(has(GUIDES)),
    "Actionability": Heuristic(partial(holds, ACTS)),
    "Coherence": Heuristic(follows),
    "Tutor_Tone": Heuristic(has(WARM), otherwise=1),  # nobody is taken for offensive
    "humanlikeness": Heuristic(natural),
}
