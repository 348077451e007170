"""A traffic light for every grader, by thresholds that the page states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from maieutic.records import Score

FEWEST = 50  # verdicts or pairs, below which nothing can be said
# Agreement with people's labels: weighted kappa (0.6 substantial, 0.4 moderate: Landis and Koch, 1977), the lower end
# of its interval, the share of unreadable verdicts, the share of pairs whose verdict follows the place.
GREEN = {"kappa": 0.6, "kappa_low": 0.4, "unreadable": 0.05, "flips": 0.2, "pairs": 0.8, "pairs_low": 0.7}
AMBER = {"kappa": 0.4, "kappa_low": 0.2, "unreadable": 0.2, "flips": 0.4, "pairs": 0.65, "pairs_low": 0.5}
WORDS = {
    "green": "agrees with people about as people agree with each other",
    "amber": "agrees with people in part: read its scores beside its agreement",
    "red": "does not agree with people: its scores are no evidence",
    "grey": "too little to say",
}


class Light(NamedTuple):
    """The colour, and what it is for."""

    colour: str
    why: str

    @property
    def words(self) -> str:
        """What the colour says."""
        return WORDS[self.colour]


def light_of(scores: Mapping[str, Score], release: str | None, rubric: str | None) -> Light:
    """The light of one grader.

    scores: what was measured of it, by metric; release: the labels that it was checked on (their kappa decides);
    rubric: of the pairs, which decide where there are no labels with a kappa; empty for a reward model.
    """
    kappa = scores.get(f"{release}:mean_weighted_kappa")
    unread = scores.get(f"{release}:unreadable") or scores.get("unreadable")
    flips = scores.get(f"flip_rate/{rubric}")
    if kappa is not None:
        if kappa.n + kappa.missing < FEWEST:
            return Light("grey", f"{kappa.n + kappa.missing} verdicts with a label, fewer than {FEWEST}")
        if kappa.value is None:
            return Light("red", "none can be read" if kappa.n == 0 else "it says the same of every reply")
        told = f"weighted kappa {kappa.value:.2f}"
        for colour, bound in (("green", GREEN), ("amber", AMBER)):
            if (
                kappa.value >= bound["kappa"]
                and (kappa.low or 0.0) >= bound["kappa_low"]
                and (unread is None or (unread.value or 0.0) <= bound["unreadable"])
                and (flips is None or (flips.value or 0.0) <= bound["flips"])
            ):
                return Light(colour, told)
        return Light("red", told + reasons(unread, flips))
    pairs = scores.get(f"pair_accuracy/{rubric}" if rubric else "pair_accuracy")
    if pairs is None or pairs.value is None:
        return Light("grey", "not measured")
    if pairs.n < FEWEST:
        return Light("grey", f"{pairs.n} verdicts on pairs, fewer than {FEWEST}")
    told = f"accuracy on the pairs {pairs.value:.2f}"
    for colour, bound in (("green", GREEN), ("amber", AMBER)):
        steady = flips is None or (flips.value or 0.0) <= bound["flips"]
        if pairs.value >= bound["pairs"] and (pairs.low or 0.0) >= bound["pairs_low"] and steady:
            return Light(colour, told)
    return Light("red", told + reasons(None, flips))


def reasons(unread: Score | None, flips: Score | None) -> str:
    """What else speaks against a grader."""
    found = ""
    if unread is not None and (unread.value or 0.0) > AMBER["unreadable"]:
        found += f", {unread.value:.0%} of the verdicts unreadable"
    if flips is not None and (flips.value or 0.0) > AMBER["flips"]:
        found += f", {flips.value:.0%} of the pairs judged by their place"
    return found
