"""Graders against people, file by file: judges, reward models, classifiers; and the labels' own tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from maieutic.core.errors import UserError
from maieutic.core.files import write_json
from maieutic.core.jobs import Job, Sampled
from maieutic.core.records import Judgement, Labelling, Pair, Reward, Score, read_records
from maieutic.core.stats import Sampling, Statistic, estimate
from maieutic.judges.assignments import PAIRS_TASK
from maieutic.judges.labels import DESIRED, LABEL_SOURCES, Labels, read_labels
from maieutic.rewards.criteria import binary
from maieutic.scores.score import write_scores
from maieutic.validation.agreement import Pairing
from maieutic.validation.floors import floor_verdicts
from maieutic.validation.pairs import pair_scores
from maieutic.validation.people import corrected_rates, half_of, people_scores, read_people
from maieutic.validation.trust import (
    PEOPLE,
    Said,
    agreement_scores,
    correlations_by_tutor,
    match_rates,
    pairings_of,
    plain,
    rank_correlation,
    said_by,
    score,
)


def lengths_of(labels: Labels) -> dict[tuple[str, str], int]:
    """The length of every labelled reply in characters, by item and tutor."""
    return {(reply.id, reply.tutor): len(reply.text) for reply in labels.replies}


def on_release(scores: list[Score], release: str) -> list[Score]:
    """Scores on one labelled release, which their column names."""
    return [one.model_copy(update={"release": release}) for one in scores]


class ScoreLabels(Sampled):
    """A labelled release."""

    release: str


def score_labels(*, job: ScoreLabels, labels: list[Path], out: Path) -> None:
    """Write the DAMR of every labelled tutor by the labels of people (MRBench, Tables 3, 8 and 9).

    labels: the files of the release, in its folder.
    """
    scores = match_rates(PEOPLE, read_labels(labels[0].parent), None, Sampling(job.resamples, job.seed))
    write_scores(on_release(scores, job.release), out)


def label_scores(judge: str, source: str, labels: Labels, said: Said, sampling: Sampling) -> list[Score]:
    """A judge on one labelled release: its agreement with people, and that of the floors on the same replies.

    On MRBench's dimensions also what the paper's tables hold, and what half of the labels would mend.
    """
    found = agreement_scores(judge, pairings_of(labels.labels, said, lengths_of(labels)), sampling)
    found += floor_agreement(judge, labels, said, sampling)
    if not LABEL_SOURCES[source].taxonomy:
        return on_release(found, source)
    found += match_rates(judge, labels, said, sampling)
    found += correlations_by_tutor(judge, labels, said)
    found += corrected_rates(judge, half_of(labels, said, sampling.seed), said, "ppi_half", sampling)
    seen = labels._replace(labels=[one for one in labels.labels if (one.id, one.tutor, one.criterion) in said])
    truth = match_rates(judge, seen, None, Sampling(100, sampling.seed))
    found += [one.model_copy(update={"metric": "people_damr", "by": judge}) for one in truth]
    return on_release(found, source)


def floor_agreement(grader: str, labels: Labels, said: Said, sampling: Sampling) -> list[Score]:
    """How far the floors of a grader agree with people on the replies that the grader was asked about."""
    found = []
    for name, of in floor_verdicts(labels, sampling.seed).items():
        mine = {key: of[key] for key in said if key in of}
        pairings = pairings_of(labels.labels, mine, lengths_of(labels))
        found += agreement_scores(name, pairings, sampling, by=grader)
    return found


class ValidateJudge(Sampled):
    """A judge that was asked about labelled replies and pairs."""

    judge: str


def validate_judge(
    *, job: ValidateJudge, verdicts: Path, labels: list[Path], pairs: list[Path], out: Path, pairs_out: Path
) -> None:
    """Write what a judge is worth on every labelled release, and on the pairs under each of its rubrics.

    labels: files of labelled releases, each in the folder of its release; pairs: the test pairs, or none; pairs_out:
    the scores on them.
    """
    judge, said = job.judge, read_records(verdicts, Judgement)
    sampling = Sampling(job.resamples, job.seed)
    scores: list[Score] = []
    for folder in dict.fromkeys(path.parent for path in labels):
        mine = [one for one in said if one.task == folder.name]
        if mine:
            scores += label_scores(judge, folder.name, read_labels(folder), said_by(mine), sampling)
    on_pairs = [one for one in said if one.task == PAIRS_TASK]
    rubrics = list(dict.fromkeys(one.rubric for one in on_pairs))
    found: list[Score] = []
    for path in pairs:
        read = read_records(path, Pair)
        for number, rubric in enumerate(rubrics):
            found += pair_scores(judge, read, on_pairs, rubric, sampling, headline=number == 0)
    write_scores([*scores, *cost_scores(judge, said)], out)
    write_scores(found, pairs_out)


def cost_scores(judge: str, judgements: Sequence[Judgement]) -> list[Score]:
    """What judging took: questions, tokens, summed seconds of requests."""
    totals = {
        "questions": len(judgements),
        "prompt_tokens": sum(one.prompt_tokens or 0 for one in judgements),
        "completion_tokens": sum(one.completion_tokens or 0 for one in judgements),
        "request_seconds": sum(one.seconds or 0.0 for one in judgements),
    }
    found = [plain(judge, name, float(value), len(judgements), 0) for name, value in totals.items()]
    verdicts = [verdict for one in judgements for verdict in one.verdicts]
    unread = sum(verdict.value is None for verdict in verdicts)
    return [*found, plain(judge, "unreadable", unread / len(verdicts) if verdicts else None, len(verdicts), 0)]


class ValidateRewardOnLabels(Sampled):
    """A reward model that labelled replies were scored with. seen: whether it has learnt from these labels."""

    reward_model: str
    release: str
    seen: bool


def validate_reward_on_labels(*, job: ValidateRewardOnLabels, labels: list[Path], rewards: Path, out: Path) -> None:
    """Write what a reward model's scalars have to do with people's labels.

    desired_correlation: Spearman with the number of desired labels; auc: how well the scalar tells replies with the
    desired label of a criterion from the others; seen_in_training: whether it has learnt from these labels.

    labels: the files of the release, in its folder.
    """
    reward, given = job.reward_model, read_labels(labels[0].parent)
    scores = {(one.id, one.tutor): one.score for one in read_records(rewards, Reward)}
    sampling = Sampling(job.resamples, job.seed)
    desired: dict[tuple[str, str], list[bool]] = {}
    problems: dict[tuple[str, str], str] = {}
    for label in given.labels:
        key = label.id, label.tutor
        desired.setdefault(key, []).append(label.label == DESIRED[label.criterion])
        problems[key] = label.problem
    read = [key for key in desired if scores.get(key) is not None]
    values = [float(scores[key] or 0.0) for key in read]
    lengths = lengths_of(given)
    counts = [sum(desired[key]) for key in read]
    found = [
        correlation_score(reward, values, counts, [problems[key] for key in read], sampling),
        plain(reward, "length_correlation", rank_correlation(values, [lengths[key] for key in read]), len(read), 0),
        plain(reward, "unreadable", 1 - len(read) / len(desired), len(desired), 0),
        plain(reward, "seen_in_training", float(job.seen), len(desired), 0),
    ]
    from sklearn.metrics import roc_auc_score  # a second to import, which those who only name a job need not pay

    for criterion in DESIRED:
        marks = [
            (scores.get((one.id, one.tutor)), one.label == DESIRED[criterion])
            for one in given.labels
            if one.criterion == criterion
        ]
        known = [(value, mark) for value, mark in marks if value is not None]
        both = len({mark for _, mark in known}) == 2
        auc = float(roc_auc_score([mark for _, mark in known], [value for value, _ in known])) if both else None
        if marks:
            found.append(plain(reward, "auc", auc, len(known), len(marks) - len(known), criterion=criterion))
    write_scores(on_release(found, job.release), out)


def correlation_score(
    model: str, values: Sequence[float], counts: Sequence[int], problems: Sequence[str], sampling: Sampling
) -> Score:
    """Spearman's correlation of scalars with counts of desired labels. Its interval is that of the ranks' Pearson."""
    from scipy.stats import rankdata

    def summands(ranks: Sequence[tuple[float, float]]) -> np.ndarray:
        x, y = np.array(ranks).T
        return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def pearson(of: np.ndarray) -> np.ndarray:
        n, sx, sy, sxx, syy, sxy = np.moveaxis(of, -1, 0)
        spread = np.sqrt(np.maximum((n * sxx - sx**2) * (n * syy - sy**2), 0))
        return np.divide(n * sxy - sx * sy, spread, out=np.zeros_like(sxy), where=spread > 0)

    def spearman(ranks: Sequence[tuple[float, float]]) -> float:
        value = rank_correlation(*zip(*ranks, strict=True))
        return math.nan if value is None else value

    ranks = list(zip(rankdata(values), rankdata(counts), strict=True))
    found = estimate(Statistic(spearman, summands, pearson), ranks, problems, sampling)
    return score(model, "desired_correlation", found)


class ValidateCriteriaOnLabels(Sampled):
    """Criteria classifiers that have labelled held-out replies of a release."""

    classifier: str
    release: str


def validate_criteria_on_labels(*, job: ValidateCriteriaOnLabels, labels: list[Path], heldout: Path, out: Path) -> None:
    """Write how far classifiers agree with people on the replies that were held out, binary labels on both sides.

    labels: the files of the release, in its folder.
    """
    classifier, given, sampling = job.classifier, read_labels(labels[0].parent), Sampling(job.resamples, job.seed)
    lengths = {f"{item}-{tutor}": length for (item, tutor), length in lengths_of(given).items()}
    held = read_records(heldout, Labelling)

    def compared(said: Mapping[tuple[str, str], int | None]) -> dict[str, list[Pairing]]:
        found: dict[str, list[Pairing]] = {}
        for one in held:
            pairing = Pairing(1 - one.label, said.get((one.id, one.criterion)), one.dialogue, lengths.get(one.id, 0))
            found.setdefault(one.criterion, []).append(pairing)
        return found

    own = {(one.id, one.criterion): None if one.probability is None else int(one.probability <= 0.5) for one in held}
    scores = agreement_scores(classifier, compared(own), sampling, binary=True)
    for floor, verdicts in floor_verdicts(given, job.seed).items():
        said = {
            (f"{item}-{tutor}", criterion): None if label is None else 1 - binary(criterion, label)
            for (item, tutor, criterion), label in verdicts.items()
        }
        scores += agreement_scores(floor, compared(said), sampling, binary=True, by=classifier)
    write_scores(on_release(scores, job.release), out)


class CorrectByPeople(Sampled):
    """A judge of this run's replies."""

    judge: str


def correct_by_people(*, job: CorrectByPeople, verdicts: list[Path], people: Path, out: Path) -> None:
    """Write a judge's rates corrected by the labels that people gave to this run's replies. Refuses unknown replies.

    people: the CSV of their labels (`run.human_labels`).
    """
    labels = read_people(people)
    read = [one for path in verdicts for one in read_records(path, Judgement)]
    known = {(one.task, one.id, one.tutor) for one in read}
    judged = {task for task, _, _ in known}
    for number, label in enumerate(labels, 2):  # comparisons too: of which replies they are is checked here
        if label.task in judged and (label.task, label.id, label.tutor) not in known:
            raise UserError(
                f"{people}:{number}",
                f"this run has no judged reply of {label.tutor} to {label.task}/{label.id}",
                "item and tutor are named as in results/replies",
            )
    # Two tasks may have items of one name.
    apart = [
        one.model_copy(update={"id": f"{one.task}/{one.id}"})
        for one in labels
        if one.criterion in DESIRED and one.task in judged
    ]
    said = said_by(one.model_copy(update={"id": f"{one.task}/{one.id}"}) for one in read)
    write_scores(people_scores(job.judge, apart, said, Sampling(job.resamples, job.seed)), out)


class CheckJudges(Job):
    """Whose verdicts each file holds, and by judge the share of them that may be unreadable."""

    judges: list[str]
    limits: dict[str, float]


def check_judges(*, job: CheckJudges, verdicts: list[Path], out: Path) -> None:
    """Write each judge's share of unreadable verdicts. Raises UserError naming the judges above the limit.

    verdicts: files, one for each of the job's judges, which may be named several times.
    """
    shares, limits = {}, job.limits
    files: dict[str, list[Path]] = defaultdict(list)
    for judge, path in zip(job.judges, verdicts, strict=True):
        files[judge].append(path)
    for judge, paths in files.items():
        given = [one for path in paths for said in read_records(path, Judgement) for one in said.verdicts]
        unread = sum(one.value is None for one in given)
        shares[judge] = {"verdicts": len(given), "unreadable": unread, "share": unread / max(1, len(given))}
    above = {judge: of for judge, of in shares.items() if of["share"] > limits[judge]}
    if above:
        told = ", ".join(
            f"{judge} ({of['unreadable']} of {of['verdicts']}, {limits[judge]:.1%} allowed)"
            for judge, of in above.items()
        )
        raise UserError(
            "run.max_unreadable",
            f"too many verdicts cannot be read: {told}",
            "see the trust page of the report for why; another rubric or judge, or a higher limit of your own",
        )
    write_json(out, shares)
