"""Does a judge's agreement with people carry over to tutors whose replies people have not labelled?

The audit of `cje-eval` (transport_audit, 0.9): the mean of the judge's verdict less people's on a tutor's own labelled
replies, with an interval by Student's t over problems, corrected for as many tutors as are audited (Bonferroni), is
held against a margin. Here a residual of 1 and one of -1 weigh half a reply each, so that a few equal ones decide
nothing, and a FAIL needs as many problems as a PASS.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from maieutic.core.intervals import LEVEL
from maieutic.core.records import Label, Score
from maieutic.core.stats import Estimate, Interval
from maieutic.judges.labels import Labels
from maieutic.scores.score import Columns
from maieutic.validation.agreement import MEASURES
from maieutic.validation.trust import Said, pairings_of, score, weighted

State = Literal["PASS", "FAIL", "INCONCLUSIVE", "NOT CHECKED"]
FEWEST = 20  # effective problems, below which an audit says nothing
PSEUDO = 0.5  # what a residual of 1 and one of -1 weigh in the variance
BIAS, HELD_BIAS, HELD_CORRECTED, HELD_KAPPA = "judge_bias", "held_out_bias", "held_out_corrected_bias", "held_out_kappa"


class Residual(NamedTuple):
    """One labelled reply: the judge's verdict less people's label (1: the desired one), its weight, its problem."""

    apart: float
    weight: float
    problem: str


def mean_residual(residuals: Sequence[Residual], family: int = 1) -> Estimate:
    """The weighted mean of residuals with its interval over problems. family: of how many audits it is one."""
    from scipy.stats import t as student

    apart, weights = np.array([[one.apart, one.weight] for one in residuals], dtype=float).T
    total = float(weights.sum())
    value = float((weights * apart).sum() / total)
    groups: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in residuals:
        groups[one.problem][0] += one.weight * (one.apart - value)
        groups[one.problem][1] += one.weight
    sums = np.array([group[0] for group in groups.values()])
    mass = np.array([group[1] for group in groups.values()])
    effective = float(mass.sum() ** 2 / (mass**2).sum())
    number = len(groups)
    if number < 2:
        return Estimate(value, Interval(None, None), len(residuals), 0, number)
    pseudo = PSEUDO * float((mass**2).mean()) * ((1 - value) ** 2 + (1 + value) ** 2)
    error = math.sqrt(number / (number - 1) * (float((sums**2).sum()) + pseudo)) / total
    freedom = max(math.floor(effective) - 1, 1)
    half = float(student.ppf(1 - (1 - LEVEL) / family / 2, freedom)) * error
    return Estimate(value, Interval(value - half, value + half), len(residuals), 0, math.floor(effective))


def state_of(bias: Score | None, margin: float) -> State:
    """What an audit says of a tutor: FAIL, wholly outside the margin; PASS, wholly within it, by enough problems."""
    if bias is None:
        return "NOT CHECKED"
    if bias.value is None or bias.low is None or bias.high is None:
        return "INCONCLUSIVE"
    if bias.clusters < FEWEST:
        return "INCONCLUSIVE"
    if bias.low > margin or bias.high < -margin:
        return "FAIL"
    return "PASS" if -margin <= bias.low and bias.high <= margin else "INCONCLUSIVE"


def worst_of(states: Iterable[State]) -> State:
    """The state of a tutor over several criteria: the worst of them."""
    found = set(states)
    order: tuple[State, ...] = ("FAIL", "INCONCLUSIVE", "NOT CHECKED", "PASS")
    return next((state for state in order if state in found), "NOT CHECKED")


def residuals_of(
    labels: Iterable[Label], verdicts: Said, wanted: Mapping[str, str | None]
) -> dict[str, dict[str, list[Residual]]]:
    """By tutor and criterion, how far the judge is above people on the replies that have both."""
    residuals: dict[str, dict[str, list[Residual]]] = defaultdict(lambda: defaultdict(list))
    for label in labels:
        goal, value = wanted.get(label.criterion), verdicts.get((label.id, label.tutor, label.criterion))
        if goal is None or value is None:
            continue
        apart = float(value == goal) - float(label.label == goal)
        residuals[label.tutor][label.criterion].append(Residual(apart, 1 / (label.probability or 1.0), label.problem))
    return residuals


def audit_scores(grader: str, labels: Sequence[Label], verdicts: Said, wanted: Mapping[str, str | None]) -> list[Score]:
    """The bias of a judge on each tutor that people have labelled, criterion by criterion: judge less people."""
    residuals = residuals_of(labels, verdicts, wanted)
    return [
        score(None, BIAS, mean_residual(group, len(residuals)), tutor=tutor, criterion=criterion, by=grader)
        for tutor, by_criterion in residuals.items()
        for criterion, group in by_criterion.items()
    ]


def left_out(grader: str, labels: Labels, verdicts: Said) -> list[Score]:
    """Each tutor of a labelled set as if nobody had labelled it: what the judge's record on the others is worth for it.

    Bias of the judge's rate on it, bias of the rate that the others' mean residual corrects, weighted kappa.
    """
    wanted = {name: scale.desired for name, scale in labels.scales.items()}
    residuals = residuals_of(labels.labels, verdicts, wanted)
    scores = []
    for tutor, by_criterion in residuals.items():
        own = [label for label in labels.labels if label.tutor == tutor]
        pairings = pairings_of(own, verdicts, {}, labels.scales)
        for criterion, group in by_criterion.items():
            columns: Columns = {"tutor": tutor, "criterion": criterion, "by": grader}
            scores.append(score(None, HELD_BIAS, mean_residual(group, len(residuals)), **columns))
            others = [one.apart for name, held in residuals.items() if name != tutor for one in held.get(criterion, ())]
            if others:
                shift = float(np.mean(others))
                shifted = [one._replace(apart=one.apart - shift) for one in group]
                corrected = mean_residual(shifted, len(residuals))
                scores.append(score(None, HELD_CORRECTED, corrected, **columns))
            read = [pairing for pairing in pairings.get(criterion, ()) if pairing.said is not None]
            scale = labels.scales[criterion]
            gold, said = [pairing.gold for pairing in read], [int(pairing.said or 0) for pairing in read]
            kappa = MEASURES[weighted(scale)].value(gold, said, len(scale.labels)) if read else math.nan
            known = None if math.isnan(kappa) else kappa
            scores.append(score(None, HELD_KAPPA, Estimate(known, Interval(None, None), len(read)), **columns))
    return scores
