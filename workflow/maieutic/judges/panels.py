"""Panels of judges, whose verdicts are combined by majority or by mean."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from maieutic.config.rubrics import Rubric, read_rubric, verdict_label
from maieutic.core.jobs import Job
from maieutic.core.records import Judgement, Verdict, read_records, write_records
from maieutic.judges.questions import leads_to_follow_up

VerdictValue = str | bool
QuestionKey = tuple[str, str, str | None, str, str | None]  # rubric, task, tutor, item, order


class CombineVerdicts(Job):
    """Job that combines the verdicts of a panel's judges by a voting rule.

    vote: voting rule; rubrics: rubrics by which the panel judges.
    """

    panel: str
    judges: list[str]
    vote: Literal["majority", "mean"]
    rubrics: list[str]


def combine_verdicts(*, job: CombineVerdicts, verdicts: list[Path], out: Path) -> None:
    """Write a panel's verdicts on replies that its judges have judged.

    verdicts: one file for each judge, in the job's order, on the same replies.
    """
    by_question = judgements_by_question(job.judges, [read_records(path, Judgement) for path in verdicts])
    plain = {key: answers for key, answers in by_question.items() if key[0] in job.rubrics}
    first = [panel_judgement(job, key, answers) for key, answers in plain.items()]
    triggered = triggered_follow_ups(first)
    more = {key: answers for key, answers in by_question.items() if key[:4] in triggered}
    write_records(out, [*first, *(panel_judgement(job, key, answers) for key, answers in more.items())])


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


def combine_labelled(*, job: CombineVerdicts, verdicts: list[Path], out: Path) -> None:
    """Write a panel's verdicts on labelled replies and pairs that all of its judges judged.

    verdicts: one file for each judge.
    """
    by_question = judgements_by_question(job.judges, [read_records(path, Judgement) for path in verdicts])
    write_records(
        out,
        [
            panel_judgement(job, key, answers)
            for key, answers in by_question.items()
            if len(answers) == len(job.judges) and key[0] in job.rubrics
        ],
    )


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


def latest_verdicts(records: Sequence[Judgement]) -> dict[str | None, Verdict]:
    """Return a judge's latest verdict under each criterion. records: the judge's judgements, oldest first."""
    return {verdict.criterion: verdict for record in records for verdict in record.verdicts}


def panel_judgement(job: CombineVerdicts, key: QuestionKey, answers: Mapping[str, Sequence[Judgement]]) -> Judgement:
    """Return the panel's judgement of a question, with the judges' total usage, and their verdicts as raw answer."""
    name, task, tutor, item, order = key
    rubric = read_rubric(name).rubric
    by_judge = {judge: latest_verdicts(records) for judge, records in answers.items()}
    criteria = dict.fromkeys(criterion for verdict_of in by_judge.values() for criterion in verdict_of)
    verdicts, lines = [], []
    for criterion in criteria:
        votes = {judge: verdict_of[criterion] for judge, verdict_of in by_judge.items() if criterion in verdict_of}
        verdicts.append(combine_votes(job.vote, rubric, criterion, votes))
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


def combine_votes(vote: str, rubric: Rubric, criterion: str | None, verdicts: Mapping[str, Verdict]) -> Verdict:
    """Combine the judges' verdicts into one. A missing verdict is not a vote; ties go to the judge listed first."""
    values = {judge: verdict.value for judge, verdict in verdicts.items() if verdict.value is not None}
    if not values:
        why = next((verdict.why_none for verdict in verdicts.values() if verdict.why_none), "no judge answered")
        return Verdict(criterion=criterion, value=None, why_none=f"no verdict from {len(verdicts)} judges: {why}")
    value = nearest_to_mean(rubric, criterion, values) if vote == "mean" else most_frequent(values)
    reasons = (verdicts[judge].reason for judge in values if values[judge] == value)
    return Verdict(criterion=criterion, value=value, reason=next((reason for reason in reasons if reason), None))


def most_frequent(values: Mapping[str, VerdictValue]) -> VerdictValue:
    """Return the most frequent verdict. Ties go to the judge listed first."""
    counts = Counter(values.values())
    return max(values.values(), key=lambda value: counts[value])  # max returns the first of several


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
