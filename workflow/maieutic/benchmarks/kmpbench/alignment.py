"""KMP-Bench's human study: how far a judge's Win, Tie and Lose are those of people, and what both make of a tutor.

Table 3 of the paper (arXiv 2603.02775): the alignment rate is the share of the 22 criteria on which judge and people
agree; the overall judgement is none of them and has a rate of its own. The levels are computed from the verdicts of
each on the same instances.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from maieutic.benchmarks.kmpbench.items import PRINCIPLES
from maieutic.core.errors import UserError
from maieutic.core.records import Judgement, Label, Score, read_records
from maieutic.core.stats import SHARE, Sampling, estimate
from maieutic.judges.grading import grades_of_reply
from maieutic.judges.kinds.win_tie_lose import COMPARISONS
from maieutic.judges.kinds.win_tie_lose import WIN_TIE_LOSE as VERDICTS
from maieutic.judges.rubrics import read_rubric, scales_of
from maieutic.people.labels import ReadsPeople, majority
from maieutic.scores.metrics.common import Graded
from maieutic.scores.metrics.registry import METRICS
from maieutic.scores.score import score_of, write_scores
from maieutic.validation.agreement import Pairing, measure
from maieutic.validation.people import annotator_scores
from maieutic.validation.trust import PEOPLE

TASK = "alignment"
ALL = "all tutors"
KAPPA = "weighted_kappa"
GENERAL, OVERALL = "general", "overall"
Reply = tuple[str, str, str]  # task, item, tutor
Verdicts = dict[Reply, dict[str, str]]  # by criterion


def criteria_of_comparisons() -> dict[str, str | None]:
    """The criteria of Win, Tie and Lose, and the level that each belongs to."""
    return {name: criterion.group for name, criterion in read_rubric(COMPARISONS).rubric.criteria.items()}


def judged_verdicts(judge: str, judgements: Iterable[Judgement]) -> Verdicts:
    """What a judge says of every reply that it compared with the reference."""
    by_reply: dict[tuple[Reply, str], list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        if judgement.tutor is not None and read_rubric(judgement.rubric).rubric.about_tutor:
            by_reply[(judgement.task, judgement.id, judgement.tutor), judgement.rubric].append(judgement)
    verdicts: Verdicts = {}
    for (reply, _), group in by_reply.items():
        grades = [grade for grade in grades_of_reply(judge, group, "robust") if grade.value in VERDICTS]
        verdicts.setdefault(reply, {}).update({str(grade.criterion): str(grade.value) for grade in grades})
    return verdicts


def people_verdicts(labels: Sequence[Label]) -> Verdicts:
    """What people say: the resolver where there is one, else most of them; criteria that divide them are left out."""
    verdicts: Verdicts = defaultdict(dict)
    for label, chosen in majority(labels):
        if chosen is not None:
            verdicts[label.task, label.id, label.tutor][label.criterion] = chosen
    return dict(verdicts)


def level_grades(verdicts: Mapping[str, str], groups: Mapping[str, str | None]) -> list[Graded | None]:
    """The win rates of one reply: the general level's, then each principle's; None where it does not apply."""
    wins: dict[str | None, list[bool]] = defaultdict(list)
    for criterion, verdict in verdicts.items():
        wins[groups.get(criterion)].append(verdict == "win")
    return [
        Graded(sum(wins[level]) / len(wins[level]), None, None) if level in wins else None
        for level in (GENERAL, *PRINCIPLES)
    ]


def level_scores(
    tutor: str, by: str, replies: Verdicts, groups: Mapping[str, str | None], sampling: Sampling
) -> list[Score]:
    """General-Level, Principle-Level, Overall and each principle, from one side's verdicts."""
    parts = {reply: level_grades(verdicts, groups) for reply, verdicts in replies.items()}
    levels = {"overall": ("kmp_overall", slice(None)), "principle_level": ("kmp_principles", slice(1, None))}
    levels |= {
        name: ("kmp_principles", slice(place, place + 1)) for place, name in enumerate(("general_level", *PRINCIPLES))
    }
    scores = []
    for name, (metric, chosen) in levels.items():
        items = {
            reply: Graded(None, None, None, tuple(grades[chosen]))
            for reply, grades in parts.items()
            if any(grades[chosen])
        }
        level = estimate(METRICS[metric], [*items.values()], [item for _, item, _ in items], sampling)
        if level.value is not None:
            scores.append(score_of(level, TASK, name, tutor=tutor, by=by))
    judged = [(item, verdicts[OVERALL] == "win") for (_, item, _), verdicts in replies.items() if OVERALL in verdicts]
    return [*scores, *rate(tutor, "overall_judgement", judged, by, sampling)]


def rate(tutor: str, name: str, marks: Sequence[tuple[str, bool]], by: str, sampling: Sampling) -> list[Score]:
    """A share, with an interval over instances. marks: instance, and whether it counts."""
    share = estimate(SHARE, [float(mark) for _, mark in marks], [item for item, _ in marks], sampling)
    return [score_of(share, TASK, name, tutor=tutor, by=by)] if marks else []


def aligned(name: str, judge: Verdicts, people: Verdicts, sampling: Sampling) -> list[Score]:
    """The alignment rate and both sides' levels, by tutor and over all, on the criteria that both have judged.

    name: of the judge.
    """
    groups = criteria_of_comparisons()
    both = {
        reply: {each: (judge[reply][each], label) for each, label in labels.items() if each in judge.get(reply, {})}
        for reply, labels in people.items()
    }
    both = {reply: pairs for reply, pairs in both.items() if pairs}
    tutors = list(dict.fromkeys(tutor for _, _, tutor in both))
    scores = []
    for tutor in [*tutors, ALL] if len(tutors) > 1 else tutors:
        by_reply = {reply: pairs for reply, pairs in both.items() if tutor in (ALL, reply[2])}
        marks = [
            (criterion, item, verdict == label)
            for (_, item, _), pairs in by_reply.items()
            for criterion, (verdict, label) in pairs.items()
        ]
        criteria = [(item, same) for criterion, item, same in marks if criterion != OVERALL]
        overall = [(item, same) for criterion, item, same in marks if criterion == OVERALL]
        scores += rate(tutor, "alignment_rate", criteria, name, sampling)
        scores += rate(tutor, "overall_alignment", overall, name, sampling)
        for place, by in enumerate((name, PEOPLE)):
            side = {
                reply: {criterion: pair[place] for criterion, pair in pairs.items()}
                for reply, pairs in by_reply.items()
            }
            scores += level_scores(tutor, by, side, groups, sampling)
    return [*scores, *([pooled_kappa(name, judge, people, sampling)] if both else [])]


def pooled_kappa(by: str, judge: Verdicts, people: Verdicts, sampling: Sampling) -> Score:
    """Quadratically weighted kappa over all tutors and criteria; verdicts of the judge that lack are missing."""
    pairings = []
    for reply, labels in people.items():
        for name, label in labels.items():
            verdict = judge.get(reply, {}).get(name)
            place = None if verdict is None else VERDICTS.index(verdict)
            pairings.append(Pairing(VERDICTS.index(label), place, reply[1]))
    return score_of(measure(KAPPA, pairings, len(VERDICTS), False, sampling), TASK, KAPPA, tutor=ALL, by=by)


class AlignJudge(ReadsPeople):
    """A judge that has compared this run's replies with a reference."""

    judge: str


def align_judge(*, job: AlignJudge, verdicts: list[Path], people: Path, out: Path) -> None:
    """Write a judge's alignment with people. Raises UserError for labels of replies that it has not compared.

    people: the CSV of their labels (`run.human_labels`).
    """
    judge = job.judge
    by_reply = judged_verdicts(judge, (judgement for path in verdicts for judgement in read_records(path, Judgement)))
    compared = {task for task, _, _ in by_reply}
    labels = [label for label in job.labels_in(people) if label.label in VERDICTS and label.task in compared]
    for label in labels:
        if (label.task, label.id, label.tutor) not in by_reply:
            raise UserError(
                str(people),
                f"this run has no compared reply of {label.tutor} to {label.task}/{label.id}",
                "item and tutor are named as in results/replies",
            )
    scores = aligned(judge, by_reply, people_verdicts(labels), Sampling(job.resamples, job.seed)) if labels else []
    scales = scales_of(read_rubric(COMPARISONS).rubric)
    agreed = annotator_scores(judge, [label for label in labels if not label.resolves], scales)
    scores += [score.model_copy(update={"task": TASK, "by": judge}) for score in agreed]
    write_scores(scores, out)
