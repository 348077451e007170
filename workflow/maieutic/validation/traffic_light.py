"""Traffic light of a grader for one kind of verdict, by the thresholds shown on the report's trust page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from maieutic.core.records import Quantity, Score
from maieutic.validation.trust import BINARY, MEAN_KAPPA, WEIGHTED_KAPPA

# Minimum number of labelled replies or pairs for each colour. In the simulation of `bench/lights.py`, up to 15 of 100
# graders with a true kappa of 0.6 or more would be red with 30 labels (if one label is rare), and up to 5 with 50.
FEWEST_FOR_COLOUR = {"green": 30, "amber": 30, "red": 50}
# Thresholds. kappa: weighted kappa with people's labels (0.6 is substantial, 0.4 moderate: Landis and Koch, 1977);
# unreadable: share of unparsed verdicts; flips: share of pairs whose verdict follows the position; pairs: accuracy on
# the pairs; kappa_low, pairs_low: lower ends of the intervals.
GREEN = {"kappa": 0.6, "kappa_low": 0.4, "unreadable": 0.05, "flips": 0.2, "pairs": 0.8, "pairs_low": 0.7}
AMBER = {"kappa": 0.4, "kappa_low": 0.2, "unreadable": 0.2, "flips": 0.4, "pairs": 0.65, "pairs_low": 0.5}
COLOUR_MEANINGS = {
    "green": "substantial agreement with people",
    "amber": "moderate agreement with people: report this agreement with the grader's scores",
    "red": "below substantial agreement with people: base no claim on the grader's scores",
    "grey": "too little evidence for a colour",
    "none": "not validated here",
}


class Light(NamedTuple):
    """A traffic light: its colour, the reason for the colour, and the data on which the grader was measured."""

    colour: str
    why: str
    data: str = ""

    @property
    def meaning(self) -> str:
        """The meaning of the colour."""
        return COLOUR_MEANINGS[self.colour]

    @property
    def summary(self) -> str:
        """One line with the colour's meaning, the reason and the data."""
        return f"{self.meaning} ({'; '.join(filter(None, (self.why, self.data)))})"


NOT_VALIDATED = Light("none", "this run has no labels of people for this kind of verdict")


def kappa_score(scores: Mapping[Quantity, Score], release: str | None, criterion: str | None = None) -> Score | None:
    """Return a grader's weighted kappa on a labelled release; None if it was not measured.

    For classifiers, it is the kappa of binary labels. criterion: None for the mean over all criteria.
    """
    metric = MEAN_KAPPA if criterion is None else WEIGHTED_KAPPA
    kappas = (scores.get(Quantity(metric, criterion, subset, release)) for subset in (None, BINARY))
    return next((kappa for kappa in kappas if kappa is not None), None)


def light_of(
    scores: Mapping[Quantity, Score], release: str | None, rubric: str | None, criterion: str | None = None
) -> Light:
    """Return the traffic light of one grader, by its kappa on a labelled release or, without a kappa, by pair accuracy.

    scores: scores of the grader's validation; release: the labelled release; rubric: the judge's rubric for pairs, None
    for a reward model; criterion: the only criterion to consider, None for all.
    """
    flips = scores.get(Quantity("flip_rate", rubric))
    kappa = kappa_score(scores, release, criterion)
    if kappa is not None:
        checks = {
            "kappa": kappa,
            "unreadable": scores.get(kappa.quantity._replace(metric="unreadable")),
            "flips": flips,
        }
        checks["unreadable pairs"] = scores.get(Quantity("unreadable", rubric))
        total = kappa.n if criterion is None else kappa.n + kappa.missing
        return light_by_thresholds(kappa, total, checks, "labelled replies", "weighted kappa")
    pairs = scores.get(Quantity("pair_accuracy", rubric))
    if pairs is None:
        return Light("grey", "not measured")
    if rubric and pairs.value is not None and (flips is None or flips.value is None):
        return Light("grey", "no pair has a parsed verdict in both orders")
    counted = flips or pairs  # `flips` counts each pair once; a judge's `pairs` counts it twice, once per order
    checks = {"pairs": pairs, "unreadable pairs": scores.get(Quantity("unreadable", rubric)), "flips": flips}
    return light_by_thresholds(pairs, counted.n + counted.missing, checks, "pairs", "accuracy on the pairs")


def light_of_people(kappa: Score) -> Light:
    """Return the light for one kind of verdict by this run's own human labels. kappa: weighted kappa with interval."""
    total = kappa.n + kappa.missing
    unread = kappa.model_copy(update={"value": kappa.missing / total if total else None})
    return light_by_thresholds(
        kappa, total, {"kappa": kappa, "unreadable": unread}, "labelled verdicts", "weighted kappa"
    )


def light_by_thresholds(main: Score, total: int, checks: Mapping[str, Score | None], unit: str, name: str) -> Light:
    """Return the light for one measure, such as kappa, on `total` replies or pairs.

    main: score of the measure; checks: all scores with thresholds, including `main`; a score that misses its threshold
    can worsen the light. unit, name: words for the replies or pairs and for the measure.

    The light is red only if the interval of `main` ends below the green threshold, or if another check fails. It is
    grey if the interval extends from below the amber threshold to the green threshold.
    """
    if total < FEWEST_FOR_COLOUR["amber"]:
        return Light("grey", f"{total} {unit}, fewer than {FEWEST_FOR_COLOUR['amber']}")
    if main.value is None:
        unread = any(check and check.value == 1.0 for key, check in checks.items() if key in UNREADABLE)
        return Light("red", "no verdict can be parsed") if unread else Light("grey", "the labels do not vary")
    summary = f"{name} {main.value:.2f}"
    if main.low is None:
        return Light("grey", f"{summary}, without an interval: too few problems, or labels that are too rare")
    for colour, bound in (("green", GREEN), ("amber", AMBER)):
        if not failed_checks(checks, bound):
            return Light(colour, summary)
    missed = failed_checks(checks, AMBER)
    key = next(key for key, check in checks.items() if check is main)
    if missed == {key} and total < FEWEST_FOR_COLOUR["red"]:
        return Light("grey", f"{summary} on {total} {unit}, but red needs {FEWEST_FOR_COLOUR['red']}")
    if missed == {key} and main.high is not None and main.high >= GREEN[key]:
        return Light("grey", f"{summary} ({main.low:.2f} to {main.high:.2f}) on {total} {unit}")
    values = {key: check.value for key, check in checks.items() if check is not None and key in missed}
    besides = [reason.format(values[key]) for key, reason in REASONS.items() if key in values]
    return Light("red", ", ".join([summary, *besides]))


UNREADABLE = {"unreadable", "unreadable pairs"}
REASONS = {
    "unreadable": "{:.0%} of the verdicts cannot be parsed",
    "unreadable pairs": "{:.0%} of the verdicts on pairs cannot be parsed",
    "flips": "{:.0%} of the pairs are judged by position",
}


def failed_checks(checks: Mapping[str, Score | None], bound: Mapping[str, float]) -> set[str]:
    """Return the checks that miss a colour's thresholds, which are minima for kappa and accuracy, otherwise maxima."""
    missed = set()
    for key, check in checks.items():
        if check is None or check.value is None:
            continue
        if key in {"kappa", "pairs"}:
            if check.value < bound[key] or (check.low or 0.0) < bound[f"{key}_low"]:
                missed.add(key)
        elif check.value > bound[key.split()[0]]:
            missed.add(key)
    return missed
