"""Error rates of annotators, measured on hidden units of known labels, and labels corrected for them.

The correction is that of a share measured by an imperfect test (Rogan and Gladen, 1978): with the sensitivity s and the
specificity t of an annotator, (y + t - 1) / (s + t - 1) is an unbiased value of a reply that the annotator labelled
y = 1 (desired) or 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.core.errors import UserError, raise_all
from maieutic.core.files import unquote_cell
from maieutic.core.records import Label, Scales
from maieutic.core.tables import read_table

RELIABILITY_COLUMNS = ("gold_desired", "gold_other")  # of `run.human_labels`: right answers of all, as in 18/20
LEAST_SKILL = 0.2  # below this sensitivity + specificity - 1, labels say too little to be corrected


class Reliability(NamedTuple):
    """An annotator's answers to known units under one criterion.

    hits: units with the desired label that were labelled so; desired: number of these units; rejections: units with
    another label that were not labelled as desired; others: number of these units. Shares exist only if both numbers of
    units are above zero (`is_usable`).
    """

    hits: int
    desired: int
    rejections: int
    others: int

    @property
    def sensitivity(self) -> float:
        """Share of units that the annotator labelled as desired, among those for which this is right."""
        return self.hits / self.desired

    @property
    def specificity(self) -> float:
        """Share of units that the annotator did not label as desired, among those for which this is right."""
        return self.rejections / self.others

    @property
    def skill(self) -> float:
        """Sensitivity + specificity - 1 (Youden's J): 1 without errors, 0 for labels at random."""
        return self.sensitivity + self.specificity - 1

    @property
    def text(self) -> str:
        """The counts in words."""
        return f"{self.hits} of {self.desired} desired and {self.rejections} of {self.others} other labels right"

    @property
    def cells(self) -> tuple[str, str]:
        """The counts as cells of RELIABILITY_COLUMNS, empty without known units."""
        if not (self.desired or self.others):
            return "", ""
        return f"{self.hits}/{self.desired}", f"{self.rejections}/{self.others}"

    def value_of(self, desired: bool) -> float:
        """Return the unbiased value of a reply with a label of this annotator; it may lie outside 0 to 1."""
        return (desired + self.specificity - 1) / self.skill

    @property
    def is_usable(self) -> bool:
        """True if both shares are known, and labels say enough to be corrected."""
        return bool(self.desired and self.others) and self.skill > LEAST_SKILL

    @property
    def variances(self) -> dict[bool, float]:
        """Variances of the sensitivity (True) and of the specificity (False), from the numbers of known units."""
        return {True: share_variance(self.hits, self.desired), False: share_variance(self.rejections, self.others)}


ByAnnotator = Mapping[tuple[str, str], Reliability]  # by annotator and criterion


def share_variance(hits: int, number: int) -> float:
    """Return the variance of a share, with one success and one failure added."""
    share = (hits + 1) / (number + 2)
    return share * (1 - share) / number


def read_reliability(path: Path) -> dict[tuple[str, str], Reliability]:
    """Return the annotators' error rates in a file of labels (`run.human_labels`); empty without their columns.

    Raises UserError for cells that are not counts, and for an annotator with several values under one criterion.
    """
    known: dict[tuple[str, str], Reliability] = {}
    faults = []
    for place, row in read_table(path, (), ("annotator", "criterion", *RELIABILITY_COLUMNS), "").rows:
        cells = [unquote_cell(str(row.get(name) or "")).strip() for name in RELIABILITY_COLUMNS]
        if not any(cells):
            continue
        key = unquote_cell(row.get("annotator") or "").strip(), unquote_cell(row.get("criterion") or "").strip()
        try:
            (hits, desired), (rejections, others) = map(parse_counts, cells)
        except ValueError:
            names = " and ".join(RELIABILITY_COLUMNS)
            problem = f"expected right answers of all in {names}, found {' and '.join(map(repr, cells))}"
            faults.append(
                UserError(f"{path}:{place}", problem, "write counts such as 18/20, as `maieutic read-labels` does")
            )
            continue
        entry = Reliability(hits, desired, rejections, others)
        if known.setdefault(key, entry) != entry:
            problem = f"{key[0]} has other counts under {key[1]} in an earlier line"
            faults.append(UserError(f"{path}:{place}", problem, "use one file of one sample"))
    raise_all(faults)
    return known


def parse_counts(cell: str) -> tuple[int, int]:
    """Return the numbers of a cell such as 18/20. Raises ValueError for other text."""
    right, number = map(int, cell.split("/"))
    if not 0 <= right <= number:
        raise ValueError(cell)
    return right, number


Cell = tuple[str, str]  # a tutor and a criterion


class CorrectedLabels(NamedTuple):
    """Labels corrected for their annotators' errors.

    values: value of each labelled reply, by item, tutor and criterion; shares: weight of each annotator's labels in a
    cell's corrected rate; reliability: the annotators' error rates.
    """

    values: Mapping[tuple[str, str, str], float]
    shares: Mapping[Cell, Mapping[str, float]]
    reliability: ByAnnotator

    def slopes(self, cell: Cell, rate: float) -> dict[tuple[str, bool], float]:
        """Return the derivatives of a corrected rate by each annotator's sensitivity (True) and specificity (False)."""
        slopes = {}
        for name, share in self.shares.get(cell, {}).items():
            skill, within = self.reliability[name, cell[1]].skill, min(max(rate, 0.0), 1.0)
            slopes[name, True], slopes[name, False] = -share * within / skill, share * (1 - within) / skill
        return slopes

    def variance(self, criterion: str, slopes: Mapping[tuple[str, bool], float]) -> float:
        """Return the variance that comes from the finite numbers of known units. slopes: as returned by `slopes`."""
        return sum(
            slope**2 * self.reliability[name, criterion].variances[side] for (name, side), slope in slopes.items()
        )

    def variance_of_rate(self, cell: Cell, rate: float) -> float:
        """Return the variance of a corrected rate that comes from the finite numbers of known units."""
        return self.variance(cell[1], self.slopes(cell, rate))

    def variance_of_difference(self, first: tuple[Cell, float], second: tuple[Cell, float]) -> float:
        """Return the same for a difference of two rates. Errors of an annotator of both tutors cancel in part."""
        ours, theirs = self.slopes(*first), self.slopes(*second)
        slopes = {key: ours.get(key, 0.0) - theirs.get(key, 0.0) for key in {**ours, **theirs}}
        return self.variance(first[0][1], slopes)


NO_CORRECTION = CorrectedLabels({}, {}, {})


def corrected_labels(labels: Iterable[Label], scales: Scales, reliability: ByAnnotator) -> CorrectedLabels:
    """Return the labels corrected for errors: the mean over the annotators of a reply whose error rates are known.

    A resolver's label does not count where annotators have labelled: resolved or divided replies are not a random part
    of the sample. A reply is left out if one of its annotators has no usable error rates: its label is used as it is.
    """
    votes: dict[tuple[str, str, str], list[Label]] = defaultdict(list)
    for label in labels:
        if not label.resolves:
            votes[label.id, label.tutor, label.criterion].append(label)
    values: dict[tuple[str, str, str], float] = {}
    weights: dict[Cell, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for key, of_reply in votes.items():
        _, tutor, criterion = key
        desired = scales[criterion].desired if criterion in scales else None
        known = [reliability.get((str(vote.annotator), criterion)) for vote in of_reply]
        usable = [entry for entry in known if entry is not None and entry.is_usable]
        if desired is None or len(usable) < len(of_reply):
            continue
        values[key] = mean_value(usable, [vote.label == desired for vote in of_reply])
        for vote in of_reply:
            weights[tutor, criterion][str(vote.annotator)] += 1 / len(of_reply)
    shares = {
        cell: {name: weight / sum(by_name.values()) for name, weight in by_name.items()}
        for cell, by_name in weights.items()
    }
    return CorrectedLabels(values, shares, reliability)


def mean_value(known: Sequence[Reliability], desired: Sequence[bool]) -> float:
    """Return the mean of the unbiased values of one reply's labels."""
    return sum(entry.value_of(label) for entry, label in zip(known, desired, strict=True)) / len(known)
