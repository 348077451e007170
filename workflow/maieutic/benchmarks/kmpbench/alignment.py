"""Alignment of a judge's Win, Tie and Lose verdicts with people's verdicts, as in KMP-Bench's human study.

As in Table 3 of the paper (arXiv 2603.02775), the alignment rate is the share of verdicts on the 22 criteria on which
judge and people agree. The overall judgement is not one of the 22 criteria and has a separate rate. The tutors' scores
at each level are computed twice: from the judge's verdicts, and from people's verdicts on the same instances.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from maieutic.benchmarks.kmpbench.items import PRINCIPLES
from maieutic.config.rubric_kinds import WIN_TIE_LOSE as VERDICTS
from maieutic.config.rubrics import annotation_scales, read_rubric
from maieutic.core.errors import UserError
from maieutic.core.records import Judgement, Label, Score, read_records, without_copies
from maieutic.core.stats import SHARE, BootstrapSettings, estimate_statistic
from maieutic.judges.grading import grades_by_rubric
from maieutic.people.labels import ReadsHumanLabels, resolved_labels
from maieutic.scores.metrics import GradedItem
from maieutic.scores.registry import METRICS
from maieutic.scores.score import score_from_estimate, write_scores
from maieutic.validation.agreement import Pairing, estimate_agreement
from maieutic.validation.corrected_rates import annotator_scores
from maieutic.validation.trust import PEOPLE

COMPARISON_RUBRIC = "kmp_dialogue"  # the rubric of the paper, which annotators use too
TASK = "alignment"
ALL_TUTORS = "all tutors"
ALIGNMENT_KAPPA = "weighted_kappa"
GENERAL, OVERALL = "general", "overall"
ComparedReply = tuple[str, str, str]  # task, item, tutor
VerdictsByReply = dict[ComparedReply, dict[str, str]]  # for each reply, its verdict on each criterion


def comparison_levels() -> dict[str, str | None]:
    """Map each criterion of the Win, Tie and Lose rubric to its level: `general`, a principle, or None."""
    return {name: criterion.group for name, criterion in read_rubric(COMPARISON_RUBRIC).rubric.criteria.items()}


def judged_verdicts(judge: str, judgements: Iterable[Judgement]) -> VerdictsByReply:
    """Return a judge's verdicts on each reply that the judge compared with the reference."""
    by_reply: dict[tuple[ComparedReply, str], list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        if judgement.tutor is not None and read_rubric(judgement.rubric).rubric.about_tutor:
            by_reply[(judgement.task, judgement.id, judgement.tutor), judgement.rubric].append(judgement)
    verdicts: VerdictsByReply = {}
    for (reply, _), group in by_reply.items():
        grades = [grade for grade in grades_by_rubric(judge, group, "robust") if grade.value in VERDICTS]
        verdicts.setdefault(reply, {}).update({str(grade.criterion): str(grade.value) for grade in grades})
    return verdicts


def people_verdicts(labels: Sequence[Label]) -> VerdictsByReply:
    """Return people's verdict on each criterion of each reply: the resolver's if there is one, else the majority's.

    A criterion with neither of them is left out."""
    verdicts: VerdictsByReply = defaultdict(dict)
    for label, chosen in resolved_labels(labels):
        if chosen is not None:
            verdicts[label.task, label.id, label.tutor][label.criterion] = chosen
    return dict(verdicts)


def level_grades(verdicts: Mapping[str, str], groups: Mapping[str, str | None]) -> list[GradedItem | None]:
    """Return one reply's win rate at the general level and under each principle, or None for a level without verdicts.

    verdicts: verdict by criterion; groups: level of each criterion.
    """
    wins: dict[str | None, list[bool]] = defaultdict(list)
    for criterion, verdict in verdicts.items():
        wins[groups.get(criterion)].append(verdict == "win")
    return [
        GradedItem(sum(wins[level]) / len(wins[level]), None, None) if level in wins else None
        for level in (GENERAL, *PRINCIPLES)
    ]


def level_scores(
    tutor: str, by: str, replies: VerdictsByReply, groups: Mapping[str, str | None], sampling: BootstrapSettings
) -> list[Score]:
    """Return a tutor's scores at each level, under each principle and in the overall judgement.

    by: name of the judge, or `people`; replies: verdicts of the judge or of people; groups: level of each criterion.
    """
    parts = {reply: level_grades(verdicts, groups) for reply, verdicts in replies.items()}
    levels = {"overall": ("kmp_overall", slice(None)), "principle_level": ("kmp_principles", slice(1, None))}
    levels |= {
        name: ("kmp_principles", slice(place, place + 1)) for place, name in enumerate(("general_level", *PRINCIPLES))
    }
    scores = []
    for name, (metric, span) in levels.items():
        items = {
            reply: GradedItem(None, None, None, tuple(grades[span]))
            for reply, grades in parts.items()
            if any(grades[span])
        }
        level = estimate_statistic(METRICS[metric], [*items.values()], [item for _, item, _ in items], sampling)
        if level.value is not None:
            scores.append(score_from_estimate(level, TASK, name, tutor=tutor, by=by))
    judged = [(item, verdicts[OVERALL] == "win") for (_, item, _), verdicts in replies.items() if OVERALL in verdicts]
    return [*scores, *score_share(tutor, "overall_judgement", judged, by, sampling)]


def score_share(
    tutor: str, name: str, marks: Sequence[tuple[str, bool]], by: str, sampling: BootstrapSettings
) -> list[Score]:
    """Return a list with one score, the share of true outcomes. Return an empty list if `marks` is empty.

    name: metric of the score; marks: pairs of an item id and an outcome; by: name of the judge, or `people`.
    """
    share = estimate_statistic(SHARE, [float(mark) for _, mark in marks], [item for item, _ in marks], sampling)
    return [score_from_estimate(share, TASK, name, tutor=tutor, by=by)] if marks else []


def alignment_scores(
    name: str, judge: VerdictsByReply, people: VerdictsByReply, sampling: BootstrapSettings
) -> list[Score]:
    """Return the alignment rate, and the level scores by the judge and by people, for each tutor and for all tutors.

    Only criteria with a verdict of the judge and a verdict of people count. The last score is the pooled kappa.

    name: name of the judge; judge, people: verdicts of the judge and of people.
    """
    groups = comparison_levels()
    both = {
        reply: {
            criterion: (judge[reply][criterion], label)
            for criterion, label in labels.items()
            if criterion in judge.get(reply, {})
        }
        for reply, labels in people.items()
    }
    both = {reply: pairs for reply, pairs in both.items() if pairs}
    tutors = list(dict.fromkeys(tutor for _, _, tutor in both))
    scores = []
    for tutor in [*tutors, ALL_TUTORS] if len(tutors) > 1 else tutors:
        by_reply = {reply: pairs for reply, pairs in both.items() if tutor in (ALL_TUTORS, reply[2])}
        marks = [
            (criterion, item, verdict == label)
            for (_, item, _), pairs in by_reply.items()
            for criterion, (verdict, label) in pairs.items()
        ]
        criteria = [(item, same) for criterion, item, same in marks if criterion != OVERALL]
        overall = [(item, same) for criterion, item, same in marks if criterion == OVERALL]
        scores += score_share(tutor, "alignment_rate", criteria, name, sampling)
        scores += score_share(tutor, "overall_alignment", overall, name, sampling)
        for place, by in enumerate((name, PEOPLE)):
            side = {
                reply: {criterion: pair[place] for criterion, pair in pairs.items()}
                for reply, pairs in by_reply.items()
            }
            scores += level_scores(tutor, by, side, groups, sampling)
    return [*scores, *([pooled_kappa(name, judge, people, sampling)] if both else [])]


def pooled_kappa(by: str, judge: VerdictsByReply, people: VerdictsByReply, sampling: BootstrapSettings) -> Score:
    """Return the quadratically weighted kappa of a judge and people over all tutors and criteria.

    If the judge has no verdict where people have a label, the judge's verdict counts as missing.

    by: name of the judge; judge, people: verdicts of the judge and of people.
    """
    pairings = []
    for reply, labels in people.items():
        for name, label in labels.items():
            verdict = judge.get(reply, {}).get(name)
            place = None if verdict is None else VERDICTS.index(verdict)
            pairings.append(Pairing(VERDICTS.index(label), place, reply[1]))
    return score_from_estimate(
        estimate_agreement(ALIGNMENT_KAPPA, pairings, len(VERDICTS), False, sampling),
        TASK,
        ALIGNMENT_KAPPA,
        tutor=ALL_TUTORS,
        by=by,
    )


class AlignJudge(ReadsHumanLabels):
    """Settings of align_judge. judge: name of a judge that has compared this run's replies with a reference."""

    judge: str


def align_judge(*, job: AlignJudge, verdicts: list[Path], people: Path, out: Path) -> None:
    """Write a judge's alignment with people. Raises UserError for labels of replies that the judge has not compared.

    verdicts: verdict files of the judge; people: CSV of people's labels (`run.human_labels`).
    """
    judge = job.judge
    judgements = without_copies(judgement for path in verdicts for judgement in read_records(path, Judgement))
    by_reply = judged_verdicts(judge, judgements)
    compared = {task for task, _, _ in by_reply}
    labels = [label for label in job.labels_in(people) if label.label in VERDICTS and label.task in compared]
    for label in labels:
        if (label.task, label.id, label.tutor) not in by_reply:
            raise UserError(
                str(people),
                f"expected labels of replies that {judge} compared with a reference, "
                f"found a label of {label.tutor}'s reply to {label.task}/{label.id}",
                "set the label's item and tutor to names in results/replies, or remove the label",
            )
    scores = (
        alignment_scores(judge, by_reply, people_verdicts(labels), BootstrapSettings(job.resamples, job.seed))
        if labels
        else []
    )
    scales = annotation_scales(read_rubric(COMPARISON_RUBRIC).rubric)
    agreed = annotator_scores(judge, [label for label in labels if not label.resolves], scales)
    scores += [score.model_copy(update={"task": TASK, "by": judge}) for score in agreed]
    write_scores(scores, out)
