"""From the verdicts under an item's own weighted criteria to its score (TutorBench, equation 1).

ARR_w = sum of w_i * 1[r_i] / sum of w_i * 1[w_i > 0]. A criterion of weight -5 says in the released data what a reply
must not do, so that passing it is good; in the paper's Figure 1 it names the fault itself ("The response reveals the
final answer"), so that passing it is bad. Which of both a negative weight counts is therefore a named reading.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, get_args

from maieutic.core.records import NegativeWeights

READINGS: tuple[NegativeWeights, ...] = get_args(NegativeWeights)
# The criteria under which an item's scores are graded: by the run's reading, clipped, and by every reading.
ARR_W = "arr_w"
ARR_W_CLIPPED = f"{ARR_W}_clipped"
ARR_W_READINGS: dict[NegativeWeights, str] = {reading: f"{ARR_W}_{reading}" for reading in READINGS}
ITEM_SCORES = frozenset({ARR_W, ARR_W_CLIPPED, *ARR_W_READINGS.values()})
MODAL = r"(?:must|should|shall|may|can|will|would|ought to|needs? to)"
# An order at the head of the sentence. "The response reveals the answer, which it should not" is a fault.
PROHIBITS = re.compile(
    rf"^\W*(?:[\w'\u2019]+\W+){{0,7}}?(?:{MODAL}\s*(?:not|never|n['\u2019]t|avoid|refrain)\b|cannot\b)", re.IGNORECASE
)
# A negation that is no such order: "does not reveal" may be what is wanted or the fault itself.
UNCLEAR = re.compile(r"\b(?:not|never|without|no|cannot|avoid\w*|refrain\w*)\b|n['\u2019]t\b", re.IGNORECASE)


class Weighed(NamedTuple):
    """One criterion of an item: its weight, and whether its words forbid something."""

    weight: float
    prohibits: bool


def prohibits(criterion: str) -> bool:
    """Whether a criterion is phrased as a prohibition ("must not reveal") and not as a fault ("reveals")."""
    return PROHIBITS.search(criterion) is not None


def unclear(criterion: str) -> bool:
    """Whether a criterion negates something without forbidding it: it is taken for a fault, and that may be wrong."""
    return not prohibits(criterion) and UNCLEAR.search(criterion) is not None


def counts(criterion: Weighed, passed: bool, reading: NegativeWeights) -> bool:
    """Whether a criterion's weight is counted: a positive one where it is passed, a negative one by the reading."""
    if criterion.weight > 0 or reading == "satisfied":
        return passed
    if reading == "violated":
        return not passed
    return not passed if criterion.prohibits else passed


def good(criterion: Weighed, passed: bool, reading: NegativeWeights) -> bool:
    """Whether a verdict speaks for the reply."""
    return counts(criterion, passed, reading) == (criterion.weight > 0)


def arr_w(criteria: Mapping[str, Weighed], passed: Mapping[str, bool], reading: NegativeWeights) -> float | None:
    """The weighted average rubric rating of one item, not clipped; None without a positive weight.

    Raises KeyError for a criterion without a verdict.
    """
    most = sum(criterion.weight for criterion in criteria.values() if criterion.weight > 0)
    if not most:
        return None
    return (
        sum(criterion.weight for name, criterion in criteria.items() if counts(criterion, passed[name], reading)) / most
    )


def clipped(value: float) -> float:
    """A score within [0, 1], as section 2.3 says."""
    return min(max(value, 0.0), 1.0)
