"""Agreement of a rubric judge with people who rated the same criteria (TutorBench, section 3.7 and Figure 6).

People's ratings are in the CSV of `run.human_labels`. Its columns are task, item, tutor, criterion (c01, c02, ...: the
item's criteria), label (pass or fail) and annotator. For a person's agreement, each of the person's ratings is paired
with every other person's rating of the same criterion. The agreement is the share of pairs with equal ratings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maieutic.core.errors import UserError
from maieutic.core.records import Item, Judgement, Label, Score, read_items, read_records
from maieutic.core.stats import SHARE, BootstrapSettings, estimate_statistic
from maieutic.people.labels import ITEM_CRITERION, PASSED, ReadsHumanLabels
from maieutic.scores.metrics import GradedItem
from maieutic.scores.registry import METRICS
from maieutic.scores.score import write_scores
from maieutic.validation.agreement import Pairing, estimate_agreement, fleiss_of_usual_count
from maieutic.validation.trust import score_without_interval, trust_score

TASK = "raters"
ALL_RATERS = "all"
AGREEMENT, F1 = "agreement", "f1"
KAPPA = "kappa_with_majority"  # for two labels, weighted kappa equals unweighted kappa
SEVERITIES = {"critical": ("critical", "critical_negative"), "not_critical": ("not_critical",)}
CriterionKey = tuple[str, str, str, str]  # task, item, tutor, criterion


class Rating(NamedTuple):
    """People's ratings and the judge's verdict on one criterion of one reply.

    severity: severity of the criterion; problem: problem of the item; resolved: rating of the resolver, who decides
    where people differ, or None.
    """

    people: dict[str, bool]
    judge: bool | None
    severity: str
    problem: str
    resolved: bool | None = None

    @property
    def majority(self) -> bool | None:
        """The resolver's rating if there is one, else the majority's rating; None if people are evenly divided."""
        if self.resolved is not None:
            return self.resolved
        passes = sum(self.people.values())
        return None if 2 * passes == len(self.people) else 2 * passes > len(self.people)


class RateJudge(ReadsHumanLabels):
    """Settings of rate_judge. judge: a judge of replies to `tasks`, whose items define their own criteria."""

    judge: str
    tasks: list[str]


def rate_judge(*, job: RateJudge, verdicts: list[Path], people: Path, items: Path, out: Path) -> None:
    """Write the agreement of a judge with people and of people with each other, and F1 against the majority.

    F1 is also written by severity. Raises UserError that names the first rating without a verdict of the judge.

    verdicts: files of the judge's verdicts; people: CSV of people's ratings (`run.human_labels`); items: folder of the
    benchmark's items.
    """
    cases = {(item.task, item.id): item for item in read_items(items, job.tasks)}
    labels = [label for label in job.labels_in(people) if ITEM_CRITERION.fullmatch(label.criterion)]
    judge_verdicts = verdicts_by_key(judgement for path in verdicts for judgement in read_records(path, Judgement))
    check_judged(people, labels, judge_verdicts)
    ratings = ratings_of(labels, judge_verdicts, cases)
    write_scores(rating_scores(job.judge, ratings, BootstrapSettings(job.resamples, job.seed)) if ratings else [], out)


def verdicts_by_key(judgements: Iterable[Judgement]) -> dict[CriterionKey, bool | None]:
    """Return a judge's verdict on each criterion: the last verdict that is not missing, or None."""
    verdicts: dict[CriterionKey, bool | None] = {}
    for judgement in judgements:
        for verdict in judgement.verdicts:
            key = judgement.task, judgement.id, str(judgement.tutor), str(verdict.criterion)
            if isinstance(verdict.value, bool) or verdict.value is None:
                verdicts[key] = verdict.value if verdict.value is not None else verdicts.get(key)
    return verdicts


def check_judged(path: Path, labels: Sequence[Label], judge_verdicts: Mapping[CriterionKey, bool | None]) -> None:
    """Raise UserError for a rating without a verdict of the judge. Tasks that the judge does not judge are ignored."""
    tasks = {task for task, *_ in judge_verdicts}
    for label in labels:
        key = label.task, label.id, label.tutor, label.criterion
        if label.task in tasks and key not in judge_verdicts:
            raise UserError(
                str(path),
                "expected ratings of criteria that this run has judged, "
                f"found {label.criterion} of {label.tutor}'s reply to {label.task}/{label.id}",
                "set item, tutor and criterion of the rating to names in results/verdicts, or remove the rating",
            )


def ratings_of(
    labels: Sequence[Label], judge_verdicts: Mapping[CriterionKey, bool | None], items: Mapping[tuple[str, str], Item]
) -> list[Rating]:
    """Return people's ratings and the judge's verdict for each criterion that people rated."""
    by_key: dict[CriterionKey, dict[str, bool]] = defaultdict(dict)
    resolved: dict[CriterionKey, bool] = {}
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


RatingPair = tuple[bool, bool, str]  # a rating, the rating it is compared with, and the item's problem


def pairs_with_others(rater: str, ratings: Sequence[Rating]) -> list[RatingPair]:
    """Return one person's ratings, each paired with every other person's rating of the same criterion."""
    return [
        (rating.people[rater], other, rating.problem)
        for rating in ratings
        if rater in rating.people
        for name, other in rating.people.items()
        if name != rater
    ]


def pairs_with_judge(rater: str, ratings: Sequence[Rating]) -> list[RatingPair]:
    """Return the judge's verdicts, each paired with one person's rating of the same criterion."""
    return [
        (rating.judge, rating.people[rater], rating.problem)
        for rating in ratings
        if rater in rating.people and rating.judge is not None
    ]


def rating_scores(judge: str, ratings: Sequence[Rating], sampling: BootstrapSettings) -> list[Score]:
    """Return the agreement scores of the judge and of each person.

    The `grader` of a score is the judge or person that is compared with people. Its `subset` is the person with whom
    the grader is compared, or the severity of the criteria.
    """
    raters = sorted({name for rating in ratings for name in rating.people})
    scores = []
    for name in raters:
        scores.append(rating_agreement(name, pairs_with_others(name, ratings), sampling))
        scores.append(rating_agreement(judge, pairs_with_judge(name, ratings), sampling, subset=name))
        scores.append(f1_against_majority(name, [(rating.people.get(name), rating) for rating in ratings], sampling))
    pooled = [comparison for name in raters for comparison in pairs_with_judge(name, ratings)]
    scores.append(rating_agreement(judge, pooled, sampling))
    compared = [entry for entry in scores if entry.metric == AGREEMENT and entry.grader in raters]
    between = [entry.value for entry in compared if entry.value is not None]
    scores.append(
        score_without_interval(
            ALL_RATERS, "mean_agreement", float(np.mean(between)) if between else None, len(between), 0
        )
    )
    several = [[str(value) for value in rating.people.values()] for rating in ratings if len(rating.people) > 1]
    scores.append(score_without_interval(ALL_RATERS, "fleiss_kappa", *fleiss_of_usual_count(several)))
    for name, severities in {ALL_RATERS: None, **SEVERITIES}.items():
        selection = [rating for rating in ratings if severities is None or rating.severity in severities]
        scores.append(
            f1_against_majority(judge, [(rating.judge, rating) for rating in selection], sampling, subset=name)
        )
    known = [
        Pairing(int(not rating.majority), None if rating.judge is None else int(not rating.judge), rating.problem)
        for rating in ratings
        if rating.majority is not None
    ]
    scores.append(trust_score(judge, KAPPA, estimate_agreement("kappa", known, 2, False, sampling)))
    return [entry.model_copy(update={"task": TASK, "by": judge}) for entry in scores]


def rating_agreement(
    model: str, compared: Sequence[RatingPair], sampling: BootstrapSettings, subset: str | None = None
) -> Score:
    """Return the share of pairs with equal ratings, with a bootstrap interval over problems.

    model: judge or person that is compared with people.
    """
    same = [float(rating == other) for rating, other, _ in compared]
    return trust_score(
        model,
        AGREEMENT,
        estimate_statistic(SHARE, same, [problem for *_, problem in compared], sampling),
        subset=subset,
    )


def f1_against_majority(
    model: str, pairs: Sequence[tuple[bool | None, Rating]], sampling: BootstrapSettings, subset: str | None = None
) -> Score:
    """Return F1 of the label `pass` against the majority's rating. Criteria without a majority count as missing.

    model: judge or person that is compared with the majority; pairs: rating by `model` and by people, per criterion.
    """
    rated = [(value, rating) for value, rating in pairs if value is not None]
    known = [
        (GradedItem(bool(value), None, bool(rating.majority)), rating.problem)
        for value, rating in rated
        if rating.majority is not None
    ]
    if not known:
        return score_without_interval(model, F1, None, 0, len(pairs), subset=subset)
    problems, missing = [problem for _, problem in known], len(rated) - len(known)
    f1 = estimate_statistic(METRICS[F1], [graded for graded, _ in known], problems, sampling, missing)
    return trust_score(model, F1, f1, subset=subset)
