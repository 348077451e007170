"""Panels: the verdicts of several judges as one, by majority, by mean, or weighted by their agreement with people."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel

from maieutic.core.files import write_json
from maieutic.core.jobs import Job
from maieutic.core.records import Judgement, Pair, Verdict, read_records, write_records
from maieutic.datasets.sampling import ranked
from maieutic.datasets.text import cluster_of
from maieutic.judges.assignments import pairs_task
from maieutic.judges.labels import read_labels
from maieutic.judges.questions import asks_further
from maieutic.judges.rubrics import Rubric, read_rubric, word_of

FOLDS = 5
Value = str | bool
Asked = tuple[str, str, str | None, str, str | None]  # rubric, task, tutor, item, order: what two judges both answer
Accuracies = dict[str, dict[str, float]]  # by criterion and judge
Weights = Mapping[str, float]  # by judge


class CombineVerdicts(Job):
    """A panel, its judges in their order, and how they vote.

    rubrics: by which it judges; sources: the sets of pairs that they are checked on; seed: of the folds of a fitted
    vote.
    """

    panel: str
    judges: list[str]
    vote: Literal["majority", "mean", "fitted"]
    rubrics: list[str]
    seed: int = 0
    sources: list[str] = []


class PanelWeights(BaseModel):
    """What each judge's verdicts count in a panel.

    weights, agreement: by criterion (empty text: of a rubric without any) and judge; agreement: the share of labelled
    verdicts that are people's; labels: by criterion how many it rests on. All empty where nothing was fitted.
    """

    vote: str
    judges: list[str]
    weights: Accuracies = {}
    agreement: Accuracies = {}
    labels: dict[str, int] = {}

    def of(self, criterion: str | None) -> Weights:
        """Each judge's weight under a criterion; the same for all where nothing was fitted."""
        return self.weights.get(criterion or "") or dict.fromkeys(self.judges, 1.0)


class Vote(NamedTuple):
    """One judge's verdict on something that people have labelled.

    group: what is held out together; right: whether it is people's; values: how many there are to choose from.
    """

    criterion: str
    judge: str
    group: str
    right: bool
    values: int


def combine_verdicts(*, job: CombineVerdicts, verdicts: list[Path], weights: Path, out: Path) -> None:
    """Write what a panel says of replies that its judges have judged.

    verdicts: a file of each judge, in the job's order, on the same replies; weights: what their verdicts count.
    """
    counts = PanelWeights.model_validate_json(weights.read_text(encoding="utf-8"))
    asked = together(job.judges, [read_records(path, Judgement) for path in verdicts])
    own = {key: answers for key, answers in asked.items() if key[0] in job.rubrics}
    first = [joined(job, key, answers, counts) for key, answers in own.items()]
    triggered = followed_up(first)
    more = {key: answers for key, answers in asked.items() if key[:4] in triggered}
    write_records(out, [*first, *(joined(job, key, answers, counts) for key, answers in more.items())])


def followed_up(judgements: Iterable[Judgement]) -> set[tuple[str, str, str | None, str]]:
    """The further questions that follow from a panel's own verdicts: rubric, task, tutor, item.

    What a single judge was asked further because of a verdict that is not the panel's is no part of it.
    """
    by_case: dict[tuple[str, str, str | None, str], list[Judgement]] = defaultdict(list)
    for record in judgements:
        by_case[record.rubric, record.task, record.tutor, record.id].append(record)
    triggered = set()
    for (name, task, tutor, item), records in by_case.items():
        rubric = read_rubric(name).rubric
        if rubric.follow_up and asks_further(rubric, records):
            triggered.add((rubric.follow_up.rubric, task, tutor, item))
    return triggered


def combine_labelled(
    *, job: CombineVerdicts, verdicts: list[Path], labels: list[Path], pairs: list[Path], out: Path, weights: Path
) -> None:
    """Write what a panel says of what people have labelled, as far as all of its judges were asked, and its weights.

    A fitted panel's verdict on a dialogue rests on the labels of the other folds of dialogues, so that its agreement
    with people is that on dialogues that it has not seen; its weights rest on all. verdicts: a file of each judge;
    labels: the files of labelled sets, each in the folder of its set; pairs: a file of each of the job's sources.
    """
    asked = together(job.judges, [read_records(path, Judgement) for path in verdicts])
    asked = {
        key: answers for key, answers in asked.items() if len(answers) == len(job.judges) and key[0] in job.rubrics
    }
    groups, truths = (
        people_said(labels, dict(zip(job.sources, pairs, strict=False))) if job.vote == "fitted" else ({}, {})
    )
    votes = votes_of(asked, groups, truths)
    fold_of = {name: place % FOLDS for place, name in enumerate(ranked({vote.group for vote in votes}, job.seed))}
    counts = {
        fold: fit(job, [vote for vote in votes if fold_of[vote.group] != fold])
        for fold in {*fold_of.values(), None}  # of None nothing is held out
    }
    write_json(weights, counts[None].model_dump(mode="json"))
    folds = {key: fold_of.get(groups.get((key[1], key[3]), "")) for key in asked}
    write_records(out, [joined(job, key, answers, counts[folds[key]]) for key, answers in asked.items()])


def together(judges: Sequence[str], said: Sequence[Sequence[Judgement]]) -> dict[Asked, dict[str, list[Judgement]]]:
    """By what was asked each judge's answers, in the order in which the first judge was asked."""
    asked: dict[Asked, dict[str, list[Judgement]]] = defaultdict(dict)
    for judge, judgements in zip(judges, said, strict=True):
        for record in judgements:
            key = (record.rubric, record.task, record.tutor, record.id, record.order)
            asked[key].setdefault(judge, []).append(record)
    return dict(asked)


def people_said(
    labels: Iterable[Path], pairs: Mapping[str, Path]
) -> tuple[dict[tuple[str, str], str], dict[tuple[str, ...], str]]:
    """By set and item what is held out together, a dialogue; and by set, item, tutor and criterion what people say.

    Of pairs the preferred reply is the first; of those on which people are tied they say nothing.
    """
    groups: dict[tuple[str, str], str] = {}
    truths: dict[tuple[str, ...], str] = {}
    for folder in dict.fromkeys(path.parent for path in labels):
        made = read_labels(folder)
        for label in made.labels:
            # A dialogue may stand in several sets, told with other fields: its own words say which it is.
            words = made.items[label.id].vars.get("history", "") if label.id in made.items else ""
            groups[folder.name, label.id] = cluster_of(words) if words else f"{folder.name}/{label.problem}"
            truths[folder.name, label.id, label.tutor, label.criterion] = label.label
    for source, path in pairs.items():
        for pair in read_records(path, Pair):
            groups[pairs_task(source), pair.id] = f"{source}/{pair.problem}"
            if not pair.tie:
                truths[pairs_task(source), pair.id, "", ""] = "first"
    return groups, truths


def votes_of(
    asked: Mapping[Asked, Mapping[str, Sequence[Judgement]]],
    groups: Mapping[tuple[str, str], str],
    truths: Mapping[tuple[str, ...], str],
) -> list[Vote]:
    """Every verdict on something of which people have said what is right. What could not be read is no vote."""
    votes = []
    for (name, task, tutor, item, _), answers in asked.items():
        rubric = read_rubric(name).rubric
        for judge, records in answers.items():
            for criterion, verdict in latest(records).items():
                truth = truths.get((task, item, tutor or "", criterion or ""))
                if truth is not None and verdict.value is not None:
                    right, values = word_of(verdict.value) == truth, max(2, len(ordered(rubric, criterion)))
                    votes.append(Vote(criterion or "", judge, groups[task, item], right, values))
    return votes


def fit(job: CombineVerdicts, votes: Iterable[Vote]) -> PanelWeights:
    """What each judge counts: the logarithm of the odds that its verdict is right rather than one of the others.

    That is the best weighted vote of judges that err independently (Nitzan and Paroush 1982; with K values the odds
    are (K - 1) p / (1 - p)). p is smoothed by one right and one wrong verdict. A judge that is no better than chance
    counts nothing; where none is, all count the same.
    """
    tallies: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    values: dict[str, int] = {}
    for vote in votes:
        tallies[vote.criterion][vote.judge].append(vote.right)
        values[vote.criterion] = vote.values
    made = PanelWeights(vote=job.vote, judges=job.judges)
    for criterion, by_judge in tallies.items():
        smoothed = {judge: (sum(marks) + 1) / (len(marks) + 2) for judge, marks in by_judge.items()}
        weights = {judge: max(0.0, math.log((values[criterion] - 1) * p / (1 - p))) for judge, p in smoothed.items()}
        if not any(weights.values()):
            weights = dict.fromkeys(job.judges, 1.0)
        made.weights[criterion] = weights
        made.agreement[criterion] = {judge: sum(marks) / len(marks) for judge, marks in by_judge.items()}
        made.labels[criterion] = max(map(len, by_judge.values()))
    return made


def latest(records: Sequence[Judgement]) -> dict[str | None, Verdict]:
    """One judge's verdict under each criterion; a later answer counts."""
    return {verdict.criterion: verdict for record in records for verdict in record.verdicts}


def joined(
    job: CombineVerdicts, key: Asked, answers: Mapping[str, Sequence[Judgement]], counts: PanelWeights
) -> Judgement:
    """The panel's judgement: one verdict a criterion, what its judges spent, and who said what as its answer."""
    name, task, tutor, item, order = key
    rubric = read_rubric(name).rubric
    by_judge = {judge: latest(records) for judge, records in answers.items()}
    criteria = dict.fromkeys(criterion for said in by_judge.values() for criterion in said)
    verdicts, lines = [], []
    for criterion in criteria:
        own = {judge: said[criterion] for judge, said in by_judge.items() if criterion in said}
        verdicts.append(combined(job.vote, rubric, criterion, own, counts.of(criterion)))
        told = ", ".join(f"{judge} {shown(verdict)}" for judge, verdict in own.items())
        lines.append(f"{criterion}: {told}" if criterion else told)
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


def shown(verdict: Verdict) -> str:
    """A verdict as a panel's answer names it."""
    return "unreadable" if verdict.value is None else word_of(verdict.value)


def combined(
    vote: str, rubric: Rubric, criterion: str | None, said: Mapping[str, Verdict], weights: Weights
) -> Verdict:
    """One verdict of several. What cannot be read is no vote; of what is level, the judge named first decides."""
    read = {judge: verdict.value for judge, verdict in said.items() if verdict.value is not None}
    if not read:
        why = next((verdict.why_none for verdict in said.values() if verdict.why_none), "no judge was asked")
        return Verdict(criterion=criterion, value=None, why_none=f"none of {len(said)} judges: {why}")
    value = nearest_to_mean(rubric, criterion, read) if vote == "mean" else heaviest(read, weights)
    reason = next((said[judge].reason for judge in read if read[judge] == value and said[judge].reason), None)
    return Verdict(criterion=criterion, value=value, reason=reason)


def heaviest(read: Mapping[str, Value], weights: Weights) -> Value:
    """The verdict with the most weight."""
    votes = {judge: weights.get(judge, 0.0) for judge in read}
    if not any(votes.values()):  # only those who count nothing could be read
        votes = dict.fromkeys(read, 1.0)
    totals: dict[Value, float] = defaultdict(float)
    for judge, value in read.items():
        totals[value] += votes[judge]
    most = max(totals.values())
    level = {value for value, total in totals.items() if math.isclose(total, most)}
    return next(value for judge, value in read.items() if value in level)


def ordered(rubric: Rubric, criterion: str | None) -> tuple[str, ...]:
    """What may be said under a criterion, in the order of its scale; of a pair the first and the second reply."""
    own = rubric.criteria.get(criterion or "")
    return rubric.rules.words(own.labels if own else []) or ("first", "second")


def nearest_to_mean(rubric: Rubric, criterion: str | None, read: Mapping[str, Value]) -> Value:
    """The label whose place on its scale is nearest to the mean place of all."""
    places = {word: place for place, word in enumerate(ordered(rubric, criterion))}
    by_word = {word_of(value): value for value in read.values()}
    mean = sum(places[word_of(value)] for value in read.values()) / len(read)
    first = places[word_of(next(iter(read.values())))]
    nearest = min(places, key=lambda word: (round(abs(places[word] - mean), 9), abs(places[word] - first)))
    return by_word.get(nearest, nearest if not isinstance(next(iter(read.values())), bool) else nearest == "pass")
