"""Error detection and correction (KMP-Bench EC): is a solution right, which step is the first wrong one, and why.

The answer is asked for in the tags of the paper's Figure 11; lines `First error step: 3` are read too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from maieutic.graders.reading import Reading, plain, unread
from maieutic.graders.rounds import compared
from maieutic.records import Item, Scoring

TAG = r"<{name}>(.*?)(?:</{name}>|(?=<[a-z]{{3,30}}>)|\Z)"
LINE = r"^[\W_]*{name}[\W_]*[:=][\W_]*(.*?)\s*$"
# Names without underscores: the clean-up takes them for Markdown.
CORRECTNESS = r"(?:final\s+judge?ment|solution\s+correctness|correctness)"
STEP = r"(?:first\s*)?(?:error|wrong|incorrect)\s*step(?:\s*(?:number|num|no\.?))?"
RIGHT = re.compile(r"\W*(?:yes|correct|right|true)\b(?!\s*(?:/|or)\b)", re.IGNORECASE)
WRONG = re.compile(r"\W*(?:no|incorrect|wrong|false|not\s+correct)\b", re.IGNORECASE)
NUMBER = re.compile(r"\W*(?:step\s*)?#?(\d{1,3})\b(?!\.\d)(?!\s*(?:/|or|and|-|\u2013)\s*(?:step\s*)?\d)", re.IGNORECASE)
NO_STEP = re.compile(r"\W*(?:none|n/?a|no\s+(?:error|step)s?|-1)\b", re.IGNORECASE)


LONGEST = 20_000  # characters at the end of a reply in which its tags are looked for


class Found(NamedTuple):
    """What a reply says: whether the solution is wrong, and its first wrong step (0: none)."""

    incorrect: bool
    step: int | None


def field(text: str, tag: str, words: str) -> str | None:
    """The last thing that is said under a tag, closed or not, else on a line that begins with these words."""
    for pattern, flags in ((TAG.format(name=tag), re.DOTALL), (LINE.format(name=words), re.MULTILINE)):
        if said := [one.strip() for one in re.findall(pattern, text, flags | re.IGNORECASE) if one.strip()]:
            return str(said[-1])
    return None


def step_in(said: str | None) -> int | None:
    """The one step that is named; 0 where it is said that there is none."""
    if said is None:
        return None
    if NO_STEP.match(said):
        return 0
    number = NUMBER.match(said)
    return int(number[1]) if number else None


def detection(text: str) -> Found | None:
    """What a reply says of a solution, or None. A step without a verdict is a verdict."""
    cleaned = plain(text[-LONGEST:])
    said = field(cleaned, "correctness", CORRECTNESS)
    step = step_in(field(cleaned, "errorstepnum", STEP))
    if said is not None and WRONG.match(said):
        return Found(True, step or None)
    if said is not None and RIGHT.match(said):
        return Found(False, 0)
    if said is None and step is not None:
        return Found(step > 0, step)
    return None


def error_detection(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Turn 1: the verdict (True: the solution is incorrect) and the first wrong step.

    paper_compat: what cannot be read is wrong, the verdict and the step; no published reader is known.
    """
    gold, first = bool(item.reference["incorrect"]), int(item.reference["step"])
    found = detection(texts[0])
    if found is None and scoring == "robust":
        return [unread(texts[0], "no verdict", criterion) for criterion in ("verdict", "step")]
    if found is None:
        return [
            Reading(not gold, False, "", "no verdict", "verdict"),
            Reading(None, False, "", "no verdict", "step"),
        ]
    verdict = Reading(found.incorrect, found.incorrect == gold, "", None, "verdict")
    if found.step is None and scoring == "robust":  # it says that there is a mistake and not where
        step = unread(texts[0], "no single step number", "step")
    else:
        step = Reading(found.step, found.incorrect == gold and found.step == first, str(found.step), None, "step")
    return [verdict, step]


def located(item: Item, texts: Sequence[str]) -> bool:
    """Whether a reply to a wrong solution names its first wrong step: then its reason is worth judging."""
    found = detection(texts[0]) if texts else None
    return bool(item.reference["incorrect"]) and found is not None and found.step == int(item.reference["step"])


def correction(item: Item, texts: Sequence[str], scoring: Scoring) -> list[Reading]:
    """Turn 2: the final answer of the corrected solution."""
    return [compared(float(item.reference["answer"]), texts[1], scoring, "correction")]
