"""Score of an item from the verdicts on its weighted criteria (TutorBench, equation 1).

ARR_w = sum of w_i * 1[r_i] / sum of w_i * 1[w_i > 0], where w_i is the weight of criterion i, and r_i is true if the
criterion is passed. In the released data a criterion with weight -5 is phrased as a prohibition, so that passing it is
good. In the paper's Figure 1 such a criterion names the fault itself ("The response reveals the final answer"), so that
passing it is bad. The run's reading of negative weights (`NegativeWeights`) therefore decides when a negative weight
counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, get_args

from maieutic.core.records import NegativeWeights

NEGATIVE_WEIGHT_READINGS: tuple[NegativeWeights, ...] = get_args(NegativeWeights)
# Item scores are recorded as criteria with these names: ARR_w under the run's reading of negative weights, the same
# score clipped to [0, 1], and ARR_w under each reading.
ARR_W = "arr_w"
ARR_W_CLIPPED = f"{ARR_W}_clipped"
ARR_W_READINGS: dict[NegativeWeights, str] = {reading: f"{ARR_W}_{reading}" for reading in NEGATIVE_WEIGHT_READINGS}
ITEM_SCORES = frozenset({ARR_W, ARR_W_CLIPPED, *ARR_W_READINGS.values()})
MODAL = r"(?:must|should|shall|may|can|will|would|ought to|needs? to)"
# A prohibition near the beginning of a criterion. "The response reveals the answer, which it should not" is a fault.
PROHIBITION = re.compile(
    rf"^\W*(?:[\w'\u2019]+\W+){{0,7}}?(?:{MODAL}\s*(?:not|never|n['\u2019]t|avoid|refrain)\b|cannot\b)", re.IGNORECASE
)
# Any other negation: "does not reveal" may describe the desired behaviour or the fault itself.
ANY_NEGATION = re.compile(r"\b(?:not|never|without|no|cannot|avoid\w*|refrain\w*)\b|n['\u2019]t\b", re.IGNORECASE)


class WeightedCriterion(NamedTuple):
    """Weight of one criterion of an item. prohibits: True if the criterion is phrased as a prohibition."""

    weight: float
    prohibits: bool


def is_prohibition(criterion: str) -> bool:
    """Return True if a criterion is phrased as a prohibition ("must not reveal") and not as a fault ("reveals")."""
    return PROHIBITION.search(criterion) is not None


def is_unclear_negation(criterion: str) -> bool:
    """Return True if a criterion has a negation but is not a prohibition. Treating it as a fault may then be wrong."""
    return not is_prohibition(criterion) and ANY_NEGATION.search(criterion) is not None


def weight_counts(criterion: WeightedCriterion, passed: bool, reading: NegativeWeights) -> bool:
    """Return True if a criterion's weight counts in the score.

    A positive weight counts if the criterion is passed. `reading` decides when a negative weight counts.
    """
    if criterion.weight > 0 or reading == "satisfied":
        return passed
    if reading == "violated":
        return not passed
    return not passed if criterion.prohibits else passed


def favours_reply(criterion: WeightedCriterion, passed: bool, reading: NegativeWeights) -> bool:
    """Return True if a verdict is in favour of the reply."""
    return weight_counts(criterion, passed, reading) == (criterion.weight > 0)


def arr_w(
    criteria: Mapping[str, WeightedCriterion], passed: Mapping[str, bool], reading: NegativeWeights
) -> float | None:
    """Return the weighted average rubric rating of one item, not clipped; None if no weight is positive.

    Raises KeyError for a criterion without a verdict.
    """
    most = sum(criterion.weight for criterion in criteria.values() if criterion.weight > 0)
    if not most:
        return None
    return (
        sum(criterion.weight for name, criterion in criteria.items() if weight_counts(criterion, passed[name], reading))
        / most
    )


def clip_score(value: float) -> float:
    """Return a score clipped to [0, 1] (TutorBench, section 2.3)."""
    return min(max(value, 0.0), 1.0)
