"""Whether the words of a graded error reason say what the annotator's say."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.mr_gsm8k import ERROR_REASON
from maieutic.core.records import Item
from maieutic.validation.heuristics import Heuristic, words

COMMON = 0.3  # share of an annotator's words that a reason has to hold


def same_reason(item: Item, text: str) -> bool:
    """Whether a reason holds some of the annotator's words or numbers."""
    known = words(item.vars["reference_reason"])
    return len(known & words(text)) >= COMMON * len(known)


HEURISTICS = {ERROR_REASON: Heuristic(same_reason)}
