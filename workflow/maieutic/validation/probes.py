"""How far a judge's verdicts depend on what should not matter: probes, and the judge's own family."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from maieutic.core.jobs import Sampled
from maieutic.core.records import Judgement, Score, read_records
from maieutic.core.stats import MEAN, SHARE, Sampling, Statistic, estimate
from maieutic.judges.labels import Labels, read_labels
from maieutic.judges.probes import PROBES
from maieutic.scores.score import write_scores
from maieutic.validation.carry_over import Residual, residuals_of
from maieutic.validation.trust import Said, said_by, score

log = logging.getLogger(__name__)
GAIN, SELF_PREFERENCE = "padded_gain", "self_preference"
Key = tuple[str, str, str]  # item, tutor, criterion


class ValidateProbes(Sampled):
    """A judge that was probed. family: the labelled tutors of its own model family."""

    judge: str
    family: list[str] = []


def validate_probes(*, job: ValidateProbes, verdicts: Path, probes: list[Path], labels: list[Path], out: Path) -> None:
    """Write how often each probe leaves a judge's verdicts as they were, set by set.

    verdicts: of the plain questions; probes: a file of each probe, in their order, or none; labels: files of labelled
    sets, each in the folder of its set.
    """
    plain, sampling = read_records(verdicts, Judgement), Sampling(job.resamples, job.seed)
    asked = dict(zip(PROBES, (read_records(path, Judgement) for path in probes), strict=False))
    scores: list[Score] = []
    sets = {path.parent.name: read_labels(path.parent) for path in labels}
    tell_strangers(job, sets)
    for name, made in sets.items():
        before = said_by(one for one in plain if one.task == name)
        rows: list[Score] = []
        for probe, judgements in asked.items():
            after = said_by(one for one in judgements if one.task == name)
            rows += probe_scores(job.judge, probe, made, before, after, sampling)
        rows += family_scores(job, made, before, sampling)
        scores += [row.model_copy(update={"release": name}) for row in rows]
    write_scores(scores, out)


def tell_strangers(job: ValidateProbes, sets: Mapping[str, Labels]) -> None:
    """Say which tutors of the family nobody has labelled in any set of this run: another run may have them."""
    known = sorted({label.tutor for made in sets.values() for label in made.labels})
    if strange := [name for name in job.family if name not in known]:
        key = f"models.{job.judge}.family"
        log.warning("%s: %s: not among the labelled tutors of this run (%s)", key, ", ".join(strange), ", ".join(known))


def probe_scores(judge: str, probe: str, labels: Labels, before: Said, after: Said, sampling: Sampling) -> list[Score]:
    """The share of verdicts that a probe leaves as they were; of padding also what it gains or costs a reply.

    padded_gain: verdicts that become the desired one less those that cease to be, as a share of all.
    """
    problems: dict[Key, str] = {(one.id, one.tutor, one.criterion): one.problem for one in labels.labels}
    both = [key for key in after if after[key] is not None and before.get(key) is not None and key in problems]
    missing = sum(key in problems for key in after) - len(both)
    if not both:
        return []
    groups = [problems[key] for key in both]
    same = [float(after[key] == before[key]) for key in both]
    scores = [score(judge, f"{probe}_same", estimate(SHARE, same, groups, sampling, missing))]
    if probe == "padded":
        wanted = {name: scale.desired for name, scale in labels.scales.items()}
        judged = [key for key in both if wanted[key[2]] is not None]
        gains = [float(after[key] == wanted[key[2]]) - float(before[key] == wanted[key[2]]) for key in judged]
        if gains:
            scores.append(score(judge, GAIN, estimate(MEAN, gains, [problems[key] for key in judged], sampling)))
    return scores


def family_scores(job: ValidateProbes, labels: Labels, verdicts: Said, sampling: Sampling) -> list[Score]:
    """How much more a judge is above people on tutors of its own family than on others; none without a family."""
    wanted = {name: scale.desired for name, scale in labels.scales.items()}
    residuals = [
        (tutor in job.family, residual)
        for tutor, by_criterion in residuals_of(labels.labels, verdicts, wanted).items()
        for group in by_criterion.values()
        for residual in group
    ]
    if len({own for own, _ in residuals}) < 2:
        return []
    clusters = [residual.problem for _, residual in residuals]
    return [score(job.judge, SELF_PREFERENCE, estimate(PREFERENCE, residuals, clusters, sampling))]


def sums_of(residuals: Sequence[tuple[bool, Residual]]) -> np.ndarray:
    """Weighted sums of own and of other residuals, with their weights."""
    rows = [
        (own * one.weight * one.apart, own * one.weight, (not own) * one.weight * one.apart, (not own) * one.weight)
        for own, one in residuals
    ]
    return np.array(rows, dtype=float)


def preference(sums: np.ndarray) -> np.ndarray:
    """The mean of own residuals less that of others."""
    own, of_own, others, of_others = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where((of_own > 0) & (of_others > 0), own / of_own - others / of_others, math.nan))


PREFERENCE: Statistic[tuple[bool, Residual]] = Statistic(
    lambda residuals: float(preference(sums_of(residuals).sum(axis=0))), sums_of, preference
)
