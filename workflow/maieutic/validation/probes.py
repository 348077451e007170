"""Influence of irrelevant changes on a judge's verdicts (probes), and its bias towards its own model family."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maieutic.core.jobs import SampledJob
from maieutic.core.records import Judgement, Label, Score, read_records
from maieutic.core.stats import MEAN, SHARE, BootstrapSettings, Statistic, estimate_statistic
from maieutic.datasets.labelled_sets import LabelledData, read_labelled_data
from maieutic.judges.probes import PROBES
from maieutic.scores.score import write_scores
from maieutic.validation.trust import LabelsByReply, trust_score, verdict_labels

log = logging.getLogger(__name__)
PADDED_GAIN, SELF_PREFERENCE = "padded_gain", "self_preference"
Key = tuple[str, str, str]  # item, tutor, criterion


class Residual(NamedTuple):
    """Judge's verdict minus people's label on one reply (each 1 if desired, else 0), with the reply's weight."""

    apart: float
    weight: float
    problem: str


class ValidateProbes(SampledJob):
    """Job that measures a judge's robustness with probes. family: labelled tutors of the judge's model family."""

    judge: str
    family: list[str] = []


def validate_probes(*, job: ValidateProbes, verdicts: Path, probes: list[Path], labels: list[Path], out: Path) -> None:
    """Write the share of a judge's verdicts that each probe leaves unchanged, for each labelled set.

    verdicts: verdicts on the unchanged replies; probes: one file per probe, in the order of PROBES, or no files;
    labels: files of labelled sets, each in the folder of its set.
    """
    plain, sampling = read_records(verdicts, Judgement), BootstrapSettings(job.resamples, job.seed)
    probed = dict(zip(PROBES, (read_records(path, Judgement) for path in probes), strict=False))
    scores: list[Score] = []
    sets = {path.parent.name: read_labelled_data(path.parent) for path in labels}
    warn_unlabelled_family(job, sets)
    for name, labelled_set in sets.items():
        before = verdict_labels(judgement for judgement in plain if judgement.task == name)
        rows: list[Score] = []
        for probe, judgements in probed.items():
            after = verdict_labels(judgement for judgement in judgements if judgement.task == name)
            rows += probe_scores(job.judge, probe, labelled_set, before, after, sampling)
        rows += family_scores(job, labelled_set, before, sampling)
        scores += [row.model_copy(update={"release": name}) for row in rows]
    write_scores(scores, out)


def warn_unlabelled_family(job: ValidateProbes, sets: Mapping[str, LabelledData]) -> None:
    """Warn of tutors in `job.family` that no set of this run labels. Sets of other runs may label them."""
    known = sorted({label.tutor for labelled_set in sets.values() for label in labelled_set.labels})
    if strange := [name for name in job.family if name not in known]:
        key = f"models.{job.judge}.family"
        log.warning(
            "%s: expected labelled tutors of this run (%s), found %s", key, ", ".join(known), ", ".join(strange)
        )


def probe_scores(
    judge: str,
    probe: str,
    labels: LabelledData,
    before: LabelsByReply,
    after: LabelsByReply,
    sampling: BootstrapSettings,
) -> list[Score]:
    """Return the share of verdicts that a probe leaves unchanged and, for padding, the net gain.

    padded_gain: share of verdicts that padding changes to the desired label, minus the share that it changes from the
    desired label to another one. before, after: verdicts without and with the probe.
    """
    problems: dict[Key, str] = {(label.id, label.tutor, label.criterion): label.problem for label in labels.labels}
    both = [key for key in after if after[key] is not None and before.get(key) is not None and key in problems]
    missing = sum(key in problems for key in after) - len(both)
    if not both:
        return []
    groups = [problems[key] for key in both]
    same = [float(after[key] == before[key]) for key in both]
    scores = [trust_score(judge, f"{probe}_same", estimate_statistic(SHARE, same, groups, sampling, missing))]
    if probe == "padded":
        desired = {name: scale.desired for name, scale in labels.scales.items()}
        judged = [key for key in both if desired[key[2]] is not None]
        gains = [float(after[key] == desired[key[2]]) - float(before[key] == desired[key[2]]) for key in judged]
        if gains:
            scores.append(
                trust_score(
                    judge, PADDED_GAIN, estimate_statistic(MEAN, gains, [problems[key] for key in judged], sampling)
                )
            )
    return scores


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


def family_scores(
    job: ValidateProbes, labels: LabelledData, verdicts: LabelsByReply, sampling: BootstrapSettings
) -> list[Score]:
    """Return the judge's mean residual on tutors of its family minus that on others; [] if one side has no residuals.

    A residual is the judge's verdict minus people's label, where the desired label counts as 1 and all others as 0.
    """
    desired = {name: scale.desired for name, scale in labels.scales.items()}
    residuals = [
        (tutor in job.family, residual)
        for tutor, by_criterion in residuals_of(labels.labels, verdicts, desired).items()
        for group in by_criterion.values()
        for residual in group
    ]
    if len({in_family for in_family, _ in residuals}) < 2:
        return []
    clusters = [residual.problem for _, residual in residuals]
    return [trust_score(job.judge, SELF_PREFERENCE, estimate_statistic(PREFERENCE, residuals, clusters, sampling))]


def residual_sums(residuals: Sequence[tuple[bool, Residual]]) -> np.ndarray:
    """Return one row per residual, with its weighted value and its weight.

    They are in columns 0 and 1 for tutors of the judge's family, and in columns 2 and 3 for all others.
    """
    rows = [
        (
            in_family * residual.weight * residual.apart,
            in_family * residual.weight,
            (not in_family) * residual.weight * residual.apart,
            (not in_family) * residual.weight,
        )
        for in_family, residual in residuals
    ]
    return np.array(rows, dtype=float)


def family_preference(sums: np.ndarray) -> np.ndarray:
    """Return the family's mean residual minus that of all other tutors; NaN if one side is empty.

    sums: summed rows of `residual_sums`.
    """
    family, family_weight, others, others_weight = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = family / family_weight - others / others_weight
        return np.asarray(np.where((family_weight > 0) & (others_weight > 0), gap, math.nan))


PREFERENCE: Statistic[tuple[bool, Residual]] = Statistic(
    lambda residuals: float(family_preference(residual_sums(residuals).sum(axis=0))), residual_sums, family_preference
)
