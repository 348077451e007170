"""Error rates of annotators, measured on hidden units of known labels, and labels corrected for them.

The correction is that of a share measured by an imperfect test (Rogan and Gladen, 1978): with the sensitivity s and the
specificity t of an annotator, (y + t - 1) / (s + t - 1) is an unbiased value of a reply that the annotator labelled
y = 1 (desired) or 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from maieutic.core.errors import UserError
from maieutic.core.files import unquote_cell
from maieutic.core.records import Label, Scales
from maieutic.core.stats import Interval
from maieutic.core.tables import read_table

RELIABILITY_COLUMNS = ("gold_desired", "gold_other")  # of `run.human_labels`: right answers of all, as in 18/20
LEAST_SKILL = 0.2  # below this sensitivity + specificity - 1, labels say too little to be corrected
NORMAL_QUANTILE = 1.959963984540054  # of a 95 % interval


class Reliability(NamedTuple):
    """An annotator's answers to known units under one criterion.

    hits: units with the desired label that were labelled so; desired: number of these units; rejections: units with
    another label that were not labelled as desired; others: number of these units.
    """

    hits: int
    desired: int
    rejections: int
    others: int

    @property
    def sensitivity(self) -> float:
        """Share of the units with the desired label that were labelled so; 1 without such units."""
        return self.hits / self.desired if self.desired else 1.0

    @property
    def specificity(self) -> float:
        """Share of the units with another label that were not labelled as desired; 1 without such units."""
        return self.rejections / self.others if self.others else 1.0

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
        """The counts as cells of RELIABILITY_COLUMNS."""
        return f"{self.hits}/{self.desired}", f"{self.rejections}/{self.others}"

    def value_of(self, desired: bool) -> float:
        """Return the unbiased value of a reply with a label of this annotator; it may lie outside 0 to 1."""
        return (desired + self.specificity - 1) / self.skill

    def variance(self, rate: float) -> float:
        """Return the variance of a corrected rate that comes from the finite numbers of known units."""
        error = (1 - rate) ** 2 * share_variance(self.rejections, self.others)
        error += rate**2 * share_variance(self.hits, self.desired)
        return error / self.skill**2


ByAnnotator = Mapping[tuple[str, str], Reliability]  # by annotator and criterion


def share_variance(hits: int, number: int) -> float:
    """Return the variance of a share, with one success and one failure added; 0 without observations."""
    if not number:
        return 0.0
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
        key = (row["annotator"] or "").strip(), (row["criterion"] or "").strip()
        try:
            (hits, desired), (rejections, others) = map(counts_of, cells)
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
    if faults:
        raise UserError.of(faults)
    return known


def counts_of(cell: str) -> tuple[int, int]:
    """Return the numbers of a cell such as 18/20. Raises ValueError for other text."""
    right, number = map(int, cell.split("/"))
    if not 0 <= right <= number:
        raise ValueError(cell)
    return right, number


class CorrectedLabels(NamedTuple):
    """Labels corrected for their annotators' errors.

    values: value of each labelled reply, by item, tutor and criterion; annotators: number of labels of each annotator,
    by tutor and criterion.
    """

    values: dict[tuple[str, str, str], float]
    annotators: dict[tuple[str, str], dict[str, int]]

    def widened(self, cell: tuple[str, str], value: float, interval: Interval, reliability: ByAnnotator) -> Interval:
        """Return the interval of a corrected rate, with the variance of the annotators' own error rates.

        cell: tutor and criterion.
        """
        counts = self.annotators.get(cell)
        if not counts or interval.low is None or interval.high is None:
            return interval
        total = sum(counts.values())
        extra = sum((n / total) ** 2 * reliability[name, cell[1]].variance(value) for name, n in counts.items())
        low, high = (
            math.hypot(end - value, NORMAL_QUANTILE * math.sqrt(extra)) for end in (interval.low, interval.high)
        )
        return Interval(max(0.0, value - low), min(1.0, value + high))


NO_CORRECTION = CorrectedLabels({}, {})


def corrected_labels(labels: Iterable[Label], scales: Scales, reliability: ByAnnotator) -> CorrectedLabels:
    """Return the labels corrected for errors: the mean over the annotators of a reply whose error rates are known.

    A reply is left out if a resolver has decided it, or if one of its annotators has no known error rates or too little
    skill (LEAST_SKILL): its label is used as it is.
    """
    votes: dict[tuple[str, str, str], list[Label]] = defaultdict(list)
    for label in labels:
        votes[label.id, label.tutor, label.criterion].append(label)
    values: dict[tuple[str, str, str], float] = {}
    annotators: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key, of_reply in votes.items():
        _, tutor, criterion = key
        desired = scales[criterion].desired if criterion in scales else None
        known = [reliability.get((str(vote.annotator), criterion)) for vote in of_reply]
        usable = [entry for entry in known if entry is not None and entry.skill > LEAST_SKILL]
        if desired is None or len(usable) < len(of_reply) or any(vote.resolves for vote in of_reply):
            continue
        values[key] = mean_value(usable, [vote.label == desired for vote in of_reply])
        for vote in of_reply:
            annotators[tutor, criterion][str(vote.annotator)] += 1
    return CorrectedLabels(values, {cell: dict(counts) for cell, counts in annotators.items()})


def mean_value(known: Sequence[Reliability], desired: Sequence[bool]) -> float:
    """Return the mean of the unbiased values of one reply's labels."""
    return sum(entry.value_of(label) for entry, label in zip(known, desired, strict=True)) / len(known)
