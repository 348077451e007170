"""A traffic light for a grader and the kind of verdict that people have checked, by thresholds that the page states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from maieutic.core.records import Quantity, Score
from maieutic.validation.trust import BINARY, MEAN_KAPPA, WEIGHTED_KAPPA

# The fewest labelled replies or pairs that earn a colour. In `bench/lights.py` up to 15 of 100 graders with a kappa of
# 0.6 or more would be red at 30 labels, where one label is rare, and up to 5 at 50.
FEWEST = {"green": 30, "amber": 30, "red": 50}
# Agreement with people's labels: weighted kappa (0.6 substantial, 0.4 moderate: Landis and Koch, 1977), the lower end
# of its interval, the share of unreadable verdicts, the share of pairs whose verdict follows the place.
GREEN = {"kappa": 0.6, "kappa_low": 0.4, "unreadable": 0.05, "flips": 0.2, "pairs": 0.8, "pairs_low": 0.7}
AMBER = {"kappa": 0.4, "kappa_low": 0.2, "unreadable": 0.2, "flips": 0.4, "pairs": 0.65, "pairs_low": 0.5}
WORDS = {
    "green": "substantial agreement with people",
    "amber": "moderate agreement with people: read its scores beside it",
    "red": "below substantial agreement with people: rest no claim on its scores",
    "grey": "too little to tell",
    "none": "not validated here",
}


class Light(NamedTuple):
    """The colour, why, and the data that it was earned on."""

    colour: str
    why: str
    data: str = ""

    @property
    def words(self) -> str:
        """What the colour says."""
        return WORDS[self.colour]

    @property
    def told(self) -> str:
        """All of it as one line."""
        return f"{self.words} ({'; '.join(filter(None, (self.why, self.data)))})"


NOT_VALIDATED = Light("none", "no labels of people speak for this kind of verdict in this run")


def mean_kappa(scores: Mapping[Quantity, Score], release: str | None, criterion: str | None = None) -> Score | None:
    """Return a grader's weighted kappa on a labelled release: of one criterion, or the mean over all.

    Classifiers have theirs of binary labels.
    """
    metric = MEAN_KAPPA if criterion is None else WEIGHTED_KAPPA
    on = (scores.get(Quantity(metric, criterion, subset, release)) for subset in (None, BINARY))
    return next((kappa for kappa in on if kappa is not None), None)


def light_of(
    scores: Mapping[Quantity, Score], release: str | None, rubric: str | None, criterion: str | None = None
) -> Light:
    """Return the light of one grader.

    scores: what was measured of it; release: the labels that it was checked on (their kappa decides);
    rubric: of a judge's pairs, which decide where there are no labels; None for a reward model; criterion: the one
    that the light is for, None for all of them.
    """
    flips = scores.get(Quantity("flip_rate", rubric))
    kappa = mean_kappa(scores, release, criterion)
    if kappa is not None:
        checks = {
            "kappa": kappa,
            "unreadable": scores.get(kappa.quantity._replace(metric="unreadable")),
            "flips": flips,
        }
        checks["unreadable pairs"] = scores.get(Quantity("unreadable", rubric))
        asked = kappa.n if criterion is None else kappa.n + kappa.missing
        return decided(kappa, asked, checks, "labelled replies", "weighted kappa")
    pairs = scores.get(Quantity("pair_accuracy", rubric))
    if pairs is None:
        return Light("grey", "not measured")
    if rubric and pairs.value is not None and (flips is None or flips.value is None):
        return Light("grey", "no pair can be read in both orders")
    counted = flips or pairs  # a judge has two verdicts on each pair
    checks = {"pairs": pairs, "unreadable pairs": scores.get(Quantity("unreadable", rubric)), "flips": flips}
    return decided(pairs, counted.n + counted.missing, checks, "pairs", "accuracy on the pairs")


def light_of_people(kappa: Score) -> Light:
    """The light of a kind of verdict that people of this run have labelled. kappa: weighted, with its interval."""
    asked = kappa.n + kappa.missing
    unread = kappa.model_copy(update={"value": kappa.missing / asked if asked else None})
    return decided(kappa, asked, {"kappa": kappa, "unreadable": unread}, "labelled verdicts", "weighted kappa")


def decided(main: Score, asked: int, checks: Mapping[str, Score | None], what: str, name: str) -> Light:
    """Return the light of one measure on `asked` replies or pairs, which `checks` may darken.

    Red is shown, not assumed: the interval ends below the value that is asked of green, or another check fails. An
    interval that reaches from below amber to green says nothing: grey.
    """
    if asked < FEWEST["amber"]:
        return Light("grey", f"{asked} {what}, fewer than {FEWEST['amber']}")
    if main.value is None:
        unread = any(check and check.value == 1.0 for key, check in checks.items() if key in UNREADABLE)
        return Light("red", "none can be read") if unread else Light("grey", "the labels do not vary")
    summary = f"{name} {main.value:.2f}"
    if main.low is None:
        return Light("grey", f"{summary}, without an interval: too few problems or labels that are too rare")
    for colour, bound in (("green", GREEN), ("amber", AMBER)):
        if not failed(checks, bound):
            return Light(colour, summary)
    missed = failed(checks, AMBER)
    key = next(key for key, check in checks.items() if check is main)
    if missed == {key} and asked < FEWEST["red"]:
        return Light("grey", f"{summary} on {asked} {what}, fewer than {FEWEST['red']} for red")
    if missed == {key} and main.high is not None and main.high >= GREEN[key]:
        return Light("grey", f"{summary} ({main.low:.2f} to {main.high:.2f}) on {asked} {what}")
    values = {key: check.value for key, check in checks.items() if check is not None and key in missed}
    besides = [words.format(values[key]) for key, words in REASONS.items() if key in values]
    return Light("red", ", ".join([summary, *besides]))


UNREADABLE = {"unreadable", "unreadable pairs"}
REASONS = {
    "unreadable": "{:.0%} of the verdicts unreadable",
    "unreadable pairs": "{:.0%} of the verdicts on pairs unreadable",
    "flips": "{:.0%} of the pairs judged by their place",
}


def failed(checks: Mapping[str, Score | None], bound: Mapping[str, float]) -> set[str]:
    """Which checks miss a colour's bounds. More is better of kappa and accuracy, less of the others."""
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
