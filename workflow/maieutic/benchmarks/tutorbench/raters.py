"""A rubric judge against people who rated the same criteria (TutorBench, section 3.7 and Figure 6).

People's ratings are in the CSV of `run.human_labels`: task, item, tutor, criterion (c01, c02, ... of the item), label
(pass or fail), annotator. A person's agreement is the share of the others' ratings of the same criteria that are the
same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maieutic.core.errors import UserError
from maieutic.core.records import Item, Judgement, Label, Score, read_items, read_records
from maieutic.core.stats import SHARE, Sampling, estimate
from maieutic.people.labels import PASSED, RATED, ReadsPeople
from maieutic.scores.metrics.common import Graded
from maieutic.scores.metrics.registry import METRICS
from maieutic.scores.score import write_scores
from maieutic.validation.agreement import Pairing, measure, usual_fleiss
from maieutic.validation.trust import plain, score

TASK = "raters"
ALL = "all"
AGREEMENT, F1 = "agreement", "f1"
KAPPA = "kappa_with_majority"  # of two labels it is the weighted kappa too
SEVERITIES = {"critical": ("critical", "critical_negative"), "not_critical": ("not_critical",)}
Key = tuple[str, str, str, str]  # task, item, tutor, criterion


class Rating(NamedTuple):
    """One criterion of one reply: what people say, what the judge says, its severity and problem.

    resolved: the word of somebody who decides where others differ.
    """

    people: dict[str, bool]
    judge: bool | None
    severity: str
    problem: str
    resolved: bool | None = None

    @property
    def majority(self) -> bool | None:
        """What the resolver says, else most people; None where they are divided."""
        if self.resolved is not None:
            return self.resolved
        passes = sum(self.people.values())
        return None if 2 * passes == len(self.people) else 2 * passes > len(self.people)


class RateJudge(ReadsPeople):
    """A judge of the replies to some tasks whose items have criteria of their own."""

    judge: str
    tasks: list[str]


def rate_judge(*, job: RateJudge, verdicts: list[Path], people: Path, items: Path, out: Path) -> None:
    """Write a judge's agreement with people, theirs with each other, and F1 against the majority, by severity.

    Raises UserError naming the first rating of a reply or criterion that this run has not judged.

    people: the CSV of their ratings (`run.human_labels`); items: the folder of the benchmark's items.
    """
    cases = {(item.task, item.id): item for item in read_items(items, job.tasks)}
    labels = [label for label in job.labels_in(people) if RATED.fullmatch(label.criterion)]
    judge_verdicts = verdicts_of(judgement for path in verdicts for judgement in read_records(path, Judgement))
    check_known(people, labels, judge_verdicts)
    ratings = ratings_of(labels, judge_verdicts, cases)
    write_scores(rating_scores(job.judge, ratings, Sampling(job.resamples, job.seed)) if ratings else [], out)


def verdicts_of(judgements: Iterable[Judgement]) -> dict[Key, bool | None]:
    """What a judge says of each criterion; a later answer counts where an earlier one left it out."""
    verdicts: dict[Key, bool | None] = {}
    for judgement in judgements:
        for verdict in judgement.verdicts:
            key = judgement.task, judgement.id, str(judgement.tutor), str(verdict.criterion)
            if isinstance(verdict.value, bool) or verdict.value is None:
                verdicts[key] = verdict.value if verdict.value is not None else verdicts.get(key)
    return verdicts


def check_known(path: Path, labels: Sequence[Label], judge_verdicts: Mapping[Key, bool | None]) -> None:
    """Every rating is of something that was judged; ratings of tasks that this judge does not judge are not its own."""
    tasks = {task for task, *_ in judge_verdicts}
    for label in labels:
        key = label.task, label.id, label.tutor, label.criterion
        if label.task in tasks and key not in judge_verdicts:
            raise UserError(
                str(path),
                f"this run has judged no {label.criterion} of {label.tutor}'s reply to {label.task}/{label.id}",
                "item, tutor and criterion are named as in results/verdicts",
            )


def ratings_of(
    labels: Sequence[Label], judge_verdicts: Mapping[Key, bool | None], items: Mapping[tuple[str, str], Item]
) -> list[Rating]:
    """What people and the judge say of each criterion that people rated."""
    by_key: dict[Key, dict[str, bool]] = defaultdict(dict)
    resolved: dict[Key, bool] = {}
    for label in labels:
        key = label.task, label.id, label.tutor, label.criterion
        if label.resolves:
            resolved[key] = label.label == PASSED
        elif key in judge_verdicts:
            by_key[key][label.annotator or "1"] = label.label == PASSED
    ratings = []
    for key, people in by_key.items():
        item = items[key[0], key[1]]
        severity = item.reference["criterion_tags"][key[3]]["severity"]
        ratings.append(Rating(people, judge_verdicts[key], severity, item.cluster, resolved.get(key)))
    return ratings


Comparison = tuple[bool, bool, str]  # one's rating, another's, and the problem


def with_others(rater: str, ratings: Sequence[Rating]) -> list[Comparison]:
    """One person's ratings beside each of the others'."""
    return [
        (rating.people[rater], other, rating.problem)
        for rating in ratings
        if rater in rating.people
        for name, other in rating.people.items()
        if name != rater
    ]


def judge_with(rater: str, ratings: Sequence[Rating]) -> list[Comparison]:
    """The judge's ratings beside one person's."""
    return [
        (rating.judge, rating.people[rater], rating.problem)
        for rating in ratings
        if rater in rating.people and rating.judge is not None
    ]


def rating_scores(judge: str, ratings: Sequence[Rating], sampling: Sampling) -> list[Score]:
    """Every number; `model` is the judge or the person that it is about, `subset` the other person or the severity."""
    raters = sorted({name for rating in ratings for name in rating.people})
    scores = []
    for name in raters:
        scores.append(agreement(name, with_others(name, ratings), sampling))
        scores.append(agreement(judge, judge_with(name, ratings), sampling, subset=name))
        scores.append(f1_against_majority(name, [(rating.people.get(name), rating) for rating in ratings], sampling))
    pooled = [comparison for name in raters for comparison in judge_with(name, ratings)]
    scores.append(agreement(judge, pooled, sampling))
    compared = [entry for entry in scores if entry.metric == AGREEMENT and entry.grader in raters]
    between = [entry.value for entry in compared if entry.value is not None]
    scores.append(plain(ALL, "mean_agreement", float(np.mean(between)) if between else None, len(between), 0))
    several = [[str(value) for value in rating.people.values()] for rating in ratings if len(rating.people) > 1]
    scores.append(plain(ALL, "fleiss_kappa", *usual_fleiss(several)))
    for name, severities in {ALL: None, **SEVERITIES}.items():
        selection = [rating for rating in ratings if severities is None or rating.severity in severities]
        scores.append(
            f1_against_majority(judge, [(rating.judge, rating) for rating in selection], sampling, subset=name)
        )
    known = [
        Pairing(int(not rating.majority), None if rating.judge is None else int(not rating.judge), rating.problem)
        for rating in ratings
        if rating.majority is not None
    ]
    scores.append(score(judge, KAPPA, measure("kappa", known, 2, False, sampling)))
    return [entry.model_copy(update={"task": TASK, "by": judge}) for entry in scores]


def agreement(model: str, compared: Sequence[Comparison], sampling: Sampling, subset: str | None = None) -> Score:
    """The share of the same ratings, with its interval over problems."""
    same = [float(rating == other) for rating, other, _ in compared]
    return score(
        model, AGREEMENT, estimate(SHARE, same, [problem for *_, problem in compared], sampling), subset=subset
    )


def f1_against_majority(
    model: str, pairs: Sequence[tuple[bool | None, Rating]], sampling: Sampling, subset: str | None = None
) -> Score:
    """F1 of `pass`, the majority's word being true; criteria that divide people are left out and counted."""
    rated = [(value, rating) for value, rating in pairs if value is not None]
    known = [
        (Graded(bool(value), None, bool(rating.majority)), rating.problem)
        for value, rating in rated
        if rating.majority is not None
    ]
    if not known:
        return plain(model, F1, None, 0, len(pairs), subset=subset)
    problems, missing = [problem for _, problem in known], len(rated) - len(known)
    f1 = estimate(METRICS[F1], [graded for graded, _ in known], problems, sampling, missing)
    return score(model, F1, f1, subset=subset)
