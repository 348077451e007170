"""Panels of judges: their verdicts are combined by majority, by mean, or weighted by agreement with people."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel

from maieutic.config.rubrics import Rubric, read_rubric, verdict_label
from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import Judgement, Pair, Verdict, read_records, write_records
from maieutic.datasets.labelled_sets import read_labelled_data
from maieutic.datasets.sampling import ranked_by_seed
from maieutic.datasets.text import cluster_of
from maieutic.judges.assignments import pairs_task
from maieutic.judges.questions import leads_to_follow_up

FOLDS = 5
VerdictValue = str | bool
QuestionKey = tuple[str, str, str | None, str, str | None]  # rubric, task, tutor, item, order
Accuracies = dict[str, dict[str, float]]  # criterion -> judge -> share of right verdicts, or weight
JudgeWeights = Mapping[str, float]  # weight of each judge


class CombineVerdicts(Job):
    """Job that combines the verdicts of a panel's judges by a voting rule.

    vote: voting rule; rubrics: rubrics by which the panel judges; sources: sets of pairs on which the judges are
    validated; seed: seed for the division into folds, if the vote is fitted.
    """

    panel: str
    judges: list[str]
    vote: Literal["majority", "mean", "fitted"]
    rubrics: list[str]
    seed: int = 0
    sources: list[str] = []


class PanelWeights(BaseModel):
    """Weights of the judges' verdicts in a panel.

    weights: weight by criterion and judge; agreement: share of verdicts that equal people's labels, by criterion and
    judge; labels: number of labels by criterion. A rubric without criteria has the key "". The three mappings are empty
    if nothing was fitted.
    """

    vote: str
    judges: list[str]
    weights: Accuracies = {}
    agreement: Accuracies = {}
    labels: dict[str, int] = {}

    def for_criterion(self, criterion: str | None) -> JudgeWeights:
        """Return each judge's weight under a criterion; equal weights if nothing was fitted."""
        return self.weights.get(criterion or "") or dict.fromkeys(self.judges, 1.0)


class Vote(NamedTuple):
    """One judge's verdict on a labelled reply or pair.

    group: dialogue or problem, which cross-validation holds out as a whole; is_right: True if the verdict equals
    people's label; values: number of possible verdicts.
    """

    criterion: str
    judge: str
    group: str
    is_right: bool
    values: int


def combine_verdicts(*, job: CombineVerdicts, verdicts: list[Path], weights: Path, out: Path) -> None:
    """Write a panel's verdicts on replies that its judges have judged.

    verdicts: one file for each judge, in the job's order, on the same replies; weights: file of the judges' weights.
    """
    counts = PanelWeights.model_validate_json(weights.read_text(encoding="utf-8"))
    by_question = judgements_by_question(job.judges, [read_records(path, Judgement) for path in verdicts])
    plain = {key: answers for key, answers in by_question.items() if key[0] in job.rubrics}
    first = [panel_judgement(job, key, answers, counts) for key, answers in plain.items()]
    triggered = triggered_follow_ups(first)
    more = {key: answers for key, answers in by_question.items() if key[:4] in triggered}
    write_records(out, [*first, *(panel_judgement(job, key, answers, counts) for key, answers in more.items())])


def triggered_follow_ups(judgements: Iterable[Judgement]) -> set[tuple[str, str, str | None, str]]:
    """Return the rubric, task, tutor and item of each follow-up question to which a panel's verdicts lead.

    A question is left out if only the verdicts of single judges lead to it.
    """
    by_case: dict[tuple[str, str, str | None, str], list[Judgement]] = defaultdict(list)
    for record in judgements:
        by_case[record.rubric, record.task, record.tutor, record.id].append(record)
    triggered = set()
    for (name, task, tutor, item), records in by_case.items():
        rubric = read_rubric(name).rubric
        if rubric.follow_up and leads_to_follow_up(rubric, records):
            triggered.add((rubric.follow_up.rubric, task, tutor, item))
    return triggered


def combine_labelled(
    *, job: CombineVerdicts, verdicts: list[Path], labels: list[Path], pairs: list[Path], out: Path, weights: Path
) -> None:
    """Write a panel's verdicts on human-labelled data that all of its judges judged, and the judges' weights.

    The verdicts of a fitted panel are cross-validated: the verdict on a dialogue uses weights that are fitted to the
    other folds, so that agreement with people is measured on held-out dialogues. The weights in the output file are
    fitted to all folds.

    verdicts: one file for each judge; labels: files of labelled sets, each in the folder of its set; pairs: one file
    for each of the job's sources.
    """
    by_question = judgements_by_question(job.judges, [read_records(path, Judgement) for path in verdicts])
    by_question = {
        key: answers
        for key, answers in by_question.items()
        if len(answers) == len(job.judges) and key[0] in job.rubrics
    }
    groups, truths = (
        human_labels_of(labels, dict(zip(job.sources, pairs, strict=False))) if job.vote == "fitted" else ({}, {})
    )
    votes = labelled_votes(by_question, groups, truths)
    fold_of = {
        name: place % FOLDS for place, name in enumerate(ranked_by_seed({vote.group for vote in votes}, job.seed))
    }
    counts = {
        fold: fit_weights(job, [vote for vote in votes if fold_of[vote.group] != fold])
        for fold in {*fold_of.values(), None}  # for None, the weights are fitted to all folds
    }
    write_json(weights, counts[None].model_dump(mode="json"))
    folds = {key: fold_of.get(groups.get((key[1], key[3]), "")) for key in by_question}
    write_records(out, [panel_judgement(job, key, answers, counts[folds[key]]) for key, answers in by_question.items()])


def judgements_by_question(
    judges: Sequence[str], by_judge: Sequence[Sequence[Judgement]]
) -> dict[QuestionKey, dict[str, list[Judgement]]]:
    """Return each judge's judgements of each question, with the questions in the order of the first judge.

    by_judge: judgements of each judge, in the order of `judges`.
    """
    by_question: dict[QuestionKey, dict[str, list[Judgement]]] = defaultdict(dict)
    for judge, judgements in zip(judges, by_judge, strict=True):
        for record in judgements:
            key = (record.rubric, record.task, record.tutor, record.id, record.order)
            by_question[key].setdefault(judge, []).append(record)
    return dict(by_question)


def human_labels_of(
    labels: Iterable[Path], pairs: Mapping[str, Path]
) -> tuple[dict[tuple[str, str], str], dict[tuple[str, ...], str]]:
    """Return the groups for cross-validation by set and item, and people's labels by set, item, tutor and criterion.

    The label of a pair is `first`, since its first reply is the preferred one. A tied pair has no label.
    """
    groups: dict[tuple[str, str], str] = {}
    truths: dict[tuple[str, ...], str] = {}
    for folder in dict.fromkeys(path.parent for path in labels):
        labelled = read_labelled_data(folder)
        for label in labelled.labels:
            # Several sets may contain the same dialogue with different ids, so it is identified by its text.
            text = labelled.items[label.id].vars.get("history", "") if label.id in labelled.items else ""
            groups[folder.name, label.id] = cluster_of(text) if text else f"{folder.name}/{label.problem}"
            truths[folder.name, label.id, label.tutor, label.criterion] = label.label
    for source, path in pairs.items():
        for pair in read_records(path, Pair):
            groups[pairs_task(source), pair.id] = f"{source}/{pair.problem}"
            if not pair.tie:
                truths[pairs_task(source), pair.id, "", ""] = "first"
    return groups, truths


def labelled_votes(
    by_question: Mapping[QuestionKey, Mapping[str, Sequence[Judgement]]],
    groups: Mapping[tuple[str, str], str],
    truths: Mapping[tuple[str, ...], str],
) -> list[Vote]:
    """Return the verdicts on replies and pairs that people have labelled. Missing verdicts are not votes.

    groups, truths: as returned by `human_labels_of`.
    """
    votes = []
    for (name, task, tutor, item, _), answers in by_question.items():
        rubric = read_rubric(name).rubric
        for judge, records in answers.items():
            for criterion, verdict in latest_verdicts(records).items():
                truth = truths.get((task, item, tutor or "", criterion or ""))
                if truth is not None and verdict.value is not None:
                    right, values = (
                        verdict_label(verdict.value) == truth,
                        max(2, len(ordered_labels(rubric, criterion))),
                    )
                    votes.append(Vote(criterion or "", judge, groups[task, item], right, values))
    return votes


def fit_weights(job: CombineVerdicts, votes: Iterable[Vote]) -> PanelWeights:
    """Fit each judge's weight under each criterion: the log odds of the right verdict against any one wrong verdict.

    With K possible verdicts and a share p of right verdicts, the odds are (K - 1) p / (1 - p). These weights are
    optimal for judges that err independently (Nitzan and Paroush 1982). To smooth p, one right and one wrong verdict
    are added. A judge that is no better than chance has weight 0; if this is true of all judges, all have weight 1.
    """
    tallies: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    values: dict[str, int] = {}
    for vote in votes:
        tallies[vote.criterion][vote.judge].append(vote.is_right)
        values[vote.criterion] = vote.values
    fitted = PanelWeights(vote=job.vote, judges=job.judges)
    for criterion, by_judge in tallies.items():
        smoothed = {judge: (sum(marks) + 1) / (len(marks) + 2) for judge, marks in by_judge.items()}
        weights = {judge: max(0.0, math.log((values[criterion] - 1) * p / (1 - p))) for judge, p in smoothed.items()}
        if not any(weights.values()):
            weights = dict.fromkeys(job.judges, 1.0)
        fitted.weights[criterion] = weights
        fitted.agreement[criterion] = {judge: sum(marks) / len(marks) for judge, marks in by_judge.items()}
        fitted.labels[criterion] = max(map(len, by_judge.values()))
    return fitted


def latest_verdicts(records: Sequence[Judgement]) -> dict[str | None, Verdict]:
    """Return a judge's latest verdict under each criterion. records: the judge's judgements, oldest first."""
    return {verdict.criterion: verdict for record in records for verdict in record.verdicts}


def panel_judgement(
    job: CombineVerdicts, key: QuestionKey, answers: Mapping[str, Sequence[Judgement]], counts: PanelWeights
) -> Judgement:
    """Return the panel's judgement of a question, with the judges' total usage, and their verdicts as raw answer.

    counts: weights of the judges.
    """
    name, task, tutor, item, order = key
    rubric = read_rubric(name).rubric
    by_judge = {judge: latest_verdicts(records) for judge, records in answers.items()}
    criteria = dict.fromkeys(criterion for verdict_of in by_judge.values() for criterion in verdict_of)
    verdicts, lines = [], []
    for criterion in criteria:
        votes = {judge: verdict_of[criterion] for judge, verdict_of in by_judge.items() if criterion in verdict_of}
        verdicts.append(combine_votes(job.vote, rubric, criterion, votes, counts.for_criterion(criterion)))
        listing = ", ".join(f"{judge} {verdict_text(verdict)}" for judge, verdict in votes.items())
        lines.append(f"{criterion}: {listing}" if criterion else listing)
    spent = [record for records in answers.values() for record in records]
    return Judgement(
        id=item,
        task=task,
        tutor=tutor,
        rubric=name,
        order=order,
        key="+".join(record.key for record in spent),
        verdicts=verdicts,
        raw="\n".join(lines),
        prompt_tokens=sum(record.prompt_tokens or 0 for record in spent),
        completion_tokens=sum(record.completion_tokens or 0 for record in spent),
        seconds=sum(record.seconds or 0.0 for record in spent),
    )


def verdict_text(verdict: Verdict) -> str:
    """Return a judge's verdict as text for the panel's raw answer."""
    return "missing" if verdict.value is None else verdict_label(verdict.value)


def combine_votes(
    vote: str, rubric: Rubric, criterion: str | None, verdicts: Mapping[str, Verdict], weights: JudgeWeights
) -> Verdict:
    """Combine the judges' verdicts into one. A missing verdict is not a vote; ties go to the judge listed first."""
    values = {judge: verdict.value for judge, verdict in verdicts.items() if verdict.value is not None}
    if not values:
        why = next((verdict.why_none for verdict in verdicts.values() if verdict.why_none), "no judge answered")
        return Verdict(criterion=criterion, value=None, why_none=f"no verdict from {len(verdicts)} judges: {why}")
    value = nearest_to_mean(rubric, criterion, values) if vote == "mean" else weighted_vote(values, weights)
    reasons = (verdicts[judge].reason for judge in values if values[judge] == value)
    return Verdict(criterion=criterion, value=value, reason=next((reason for reason in reasons if reason), None))


def weighted_vote(values: Mapping[str, VerdictValue], weights: JudgeWeights) -> VerdictValue:
    """Return the verdict with the largest total weight. Ties go to the judge listed first."""
    votes = {judge: weights.get(judge, 0.0) for judge in values}
    if not any(votes.values()):  # all judges that gave a verdict have weight 0
        votes = dict.fromkeys(values, 1.0)
    totals: dict[VerdictValue, float] = defaultdict(float)
    for judge, value in values.items():
        totals[value] += votes[judge]
    most = max(totals.values())
    level = {value for value, total in totals.items() if math.isclose(total, most)}
    return next(value for judge, value in values.items() if value in level)


def ordered_labels(rubric: Rubric, criterion: str | None) -> tuple[str, ...]:
    """Return a criterion's labels in the order of its scale, or `first` and `second` for a pair."""
    known = rubric.criteria.get(criterion or "")
    return rubric.rules.annotator_labels(known.labels if known else []) or ("first", "second")


def nearest_to_mean(rubric: Rubric, criterion: str | None, values: Mapping[str, VerdictValue]) -> VerdictValue:
    """Return the label whose position on the scale is nearest to the mean position of the verdicts.

    Ties go to the label that is nearer to the first verdict.
    """
    places = {word: place for place, word in enumerate(ordered_labels(rubric, criterion))}
    by_word = {verdict_label(value): value for value in values.values()}
    mean = sum(places[verdict_label(value)] for value in values.values()) / len(values)
    first = places[verdict_label(next(iter(values.values())))]
    nearest = min(places, key=lambda word: (round(abs(places[word] - mean), 9), abs(places[word] - first)))
    return by_word.get(nearest, nearest if not isinstance(next(iter(values.values())), bool) else nearest == "pass")
