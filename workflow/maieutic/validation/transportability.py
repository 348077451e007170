"""Transportability of a judge: does its agreement with people carry over to tutors without labelled replies?

The audit follows `cje-eval` (transport_audit, 0.9). A residual is the judge's verdict minus people's label. For each
audited tutor, the mean residual on its labelled replies gets a Student's t interval over problems, corrected for the
number of audited tutors (Bonferroni). This interval is compared with a margin. Unlike in `cje-eval`, two pseudo
residuals of 1 and -1, each with the weight of half a reply, are added to the variance, so that a few equal residuals
do not decide the audit. FAIL requires as many problems as PASS.
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
from maieutic.datasets.labelled_sets import LabelledData
from maieutic.scores.score import ScoreColumns
from maieutic.validation.agreement import MEASURES
from maieutic.validation.trust import LabelsByReply, kappa_name, pairings_of, trust_score

AuditState = Literal["PASS", "FAIL", "INCONCLUSIVE", "NOT CHECKED"]
FEWEST_PROBLEMS = 20  # minimum effective number of problems for an audit
PSEUDO = 0.5  # weight of each pseudo residual, 1 and -1, in the variance
BIAS, HELD_BIAS, HELD_CORRECTED, HELD_KAPPA = "judge_bias", "held_out_bias", "held_out_corrected_bias", "held_out_kappa"


class Residual(NamedTuple):
    """Judge's verdict minus people's label on one reply (each 1 if desired, else 0), with the reply's weight."""

    apart: float
    weight: float
    problem: str


def mean_residual(residuals: Sequence[Residual], family: int = 1) -> Estimate:
    """Estimate the weighted mean of residuals, with an interval clustered by problem.

    family: number of audits, for Bonferroni's correction.
    """
    from scipy.stats import t as student

    apart, weights = np.array([[residual.apart, residual.weight] for residual in residuals], dtype=float).T
    total = float(weights.sum())
    value = float((weights * apart).sum() / total)
    groups: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for residual in residuals:
        groups[residual.problem][0] += residual.weight * (residual.apart - value)
        groups[residual.problem][1] += residual.weight
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


def audit_state(bias: Score | None, margin: float) -> AuditState:
    """Return PASS if the bias's interval is within the margin, FAIL if it is entirely outside, or INCONCLUSIVE.

    PASS and FAIL require at least FEWEST_PROBLEMS problems. Without a bias, the state is NOT CHECKED.
    """
    if bias is None:
        return "NOT CHECKED"
    if bias.value is None or bias.low is None or bias.high is None:
        return "INCONCLUSIVE"
    if bias.clusters < FEWEST_PROBLEMS:
        return "INCONCLUSIVE"
    if bias.low > margin or bias.high < -margin:
        return "FAIL"
    return "PASS" if -margin <= bias.low and bias.high <= margin else "INCONCLUSIVE"


def worst_state(states: Iterable[AuditState]) -> AuditState:
    """Return the worst of the states that a tutor has under several criteria."""
    present = set(states)
    order: tuple[AuditState, ...] = ("FAIL", "INCONCLUSIVE", "NOT CHECKED", "PASS")
    return next((state for state in order if state in present), "NOT CHECKED")


def residuals_of(
    labels: Iterable[Label], verdicts: LabelsByReply, desired: Mapping[str, str | None]
) -> dict[str, dict[str, list[Residual]]]:
    """Return the residuals by tutor and criterion. desired: desired label by criterion.

    Replies without a parsed verdict and criteria without a desired label are left out.
    """
    residuals: dict[str, dict[str, list[Residual]]] = defaultdict(lambda: defaultdict(list))
    for label in labels:
        goal, value = desired.get(label.criterion), verdicts.get((label.id, label.tutor, label.criterion))
        if goal is None or value is None:
            continue
        apart = float(value == goal) - float(label.label == goal)
        residuals[label.tutor][label.criterion].append(Residual(apart, 1 / (label.probability or 1.0), label.problem))
    return residuals


def audit_scores(
    grader: str, labels: Sequence[Label], verdicts: LabelsByReply, desired: Mapping[str, str | None]
) -> list[Score]:
    """Return a judge's bias (verdicts minus labels) on each labelled tutor, by criterion.

    desired: desired label by criterion.
    """
    residuals = residuals_of(labels, verdicts, desired)
    return [
        trust_score(None, BIAS, mean_residual(group, len(residuals)), tutor=tutor, criterion=criterion, by=grader)
        for tutor, by_criterion in residuals.items()
        for criterion, group in by_criterion.items()
    ]


def left_out_tutor_scores(grader: str, labels: LabelledData, verdicts: LabelsByReply) -> list[Score]:
    """Return the bias and kappa of a judge on each tutor of a labelled set, as if the tutor had no labels.

    The scores of a tutor are the bias of the judge's rate, the bias that remains after the mean residual of all other
    tutors is subtracted, and weighted kappa.
    """
    desired = {name: scale.desired for name, scale in labels.scales.items()}
    residuals = residuals_of(labels.labels, verdicts, desired)
    scores = []
    for tutor, by_criterion in residuals.items():
        tutor_labels = [label for label in labels.labels if label.tutor == tutor]
        pairings = pairings_of(tutor_labels, verdicts, {}, labels.scales)
        for criterion, group in by_criterion.items():
            columns: ScoreColumns = {"tutor": tutor, "criterion": criterion, "by": grader}
            scores.append(trust_score(None, HELD_BIAS, mean_residual(group, len(residuals)), **columns))
            others = [
                residual.apart
                for name, other_groups in residuals.items()
                if name != tutor
                for residual in other_groups.get(criterion, ())
            ]
            if others:
                shift = float(np.mean(others))
                shifted = [residual._replace(apart=residual.apart - shift) for residual in group]
                corrected = mean_residual(shifted, len(residuals))
                scores.append(trust_score(None, HELD_CORRECTED, corrected, **columns))
            read = [pairing for pairing in pairings.get(criterion, ()) if pairing.verdict is not None]
            scale = labels.scales[criterion]
            gold, judged = [pairing.gold for pairing in read], [int(pairing.verdict or 0) for pairing in read]
            kappa = MEASURES[kappa_name(scale)].value(gold, judged, len(scale.labels)) if read else math.nan
            known = None if math.isnan(kappa) else kappa
            scores.append(trust_score(None, HELD_KAPPA, Estimate(known, Interval(None, None), len(read)), **columns))
    return scores
