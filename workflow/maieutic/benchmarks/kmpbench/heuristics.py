"""Grader baseline for error reasons, which compares the words of a reason with the annotator's words."""

from __future__ import annotations

from maieutic.benchmarks.kmpbench.mr_gsm8k import ERROR_REASON
from maieutic.core.records import Item
from maieutic.validation.word_rules import Heuristic, word_set

SHARED_WORDS = 0.3  # an accepted reason contains at least this share of the annotator's words


def same_reason(item: Item, text: str) -> bool:
    """Return True if a reason contains enough of the words and numbers of the annotator's reason."""
    known = word_set(item.vars["reference_reason"])
    return len(known & word_set(text)) >= SHARED_WORDS * len(known)


HEURISTICS = {ERROR_REASON: Heuristic(same_reason)}
