"""Jobs of the rules for judges. The function named like a rule returns the rule's job."""

from __future__ import annotations

from typing import Any

from maieutic.config.job_entries import entry_for_asking
from maieutic.judges.grading import GradeVerdicts
from maieutic.judges.judging import STOP_ABOVE
from maieutic.judges.panels import CombineVerdicts
from maieutic.judges.verdicts import JudgeAllReplies, JudgeLabelled, JudgeReplies
from maieutic.plan.inputs import tasks_of
from maieutic.plan.plan import Plan


def judge_job_fields(plan: Plan, judge: str, **rubrics: list[str]) -> dict[str, Any]:
    """Return the fields of a job that sends requests to a judge.

    rubrics: values that replace the entry's lists of rubrics. They leave out the rubrics that the job does not use, so
    that editing those re-runs nothing.
    """
    return {
        "judge": judge,
        "entry": entry_for_asking(plan.judge_entry(judge).model_copy(update=rubrics)),
        "answering": entry_for_asking(plan.models[plan.answering_entry(judge)]),
        "seed": plan.run.seed,
        "stop_above": max(STOP_ABOVE, plan.unreadable_limit(judge)),
    }


def judge_replies(plan: Plan, judge: str, benchmark: str, batch: str) -> JudgeReplies:
    fields = judge_job_fields(plan, judge, rubrics=plan.reply_rubrics(judge, benchmark), pairs=[], tags=[], family=[])
    return JudgeReplies(**fields, benchmark=benchmark, tasks=tasks_of(plan.judge_cards(benchmark, judge)))


def judge_all_replies(plan: Plan, judge: str, batch: str) -> JudgeAllReplies:
    judged = plan.benchmarks_of_batch(judge, batch)
    names = plan.judged_benchmarks()
    return JudgeAllReplies(
        judge=judge,
        parts=[judge_replies(plan, judge, name, batch) if name in judged else None for name in names],
        tutors=[len(plan.judge_batches(name)[batch]) if name in judged else 0 for name in names],
    )


def judge_labelled(plan: Plan, judge: str) -> JudgeLabelled:
    rubrics = plan.label_rubrics(judge) or plan.judge_entry(judge).rubrics
    return JudgeLabelled(
        **judge_job_fields(plan, judge, rubrics=rubrics, tags=[], family=[]),
        limit=plan.label_limit(judge),
        probes=plan.run.probes,
        probed=plan.validating_releases(judge) if plan.run.probes else [],
    )


def combine_verdicts(plan: Plan, judge: str, benchmark: str, batch: str) -> CombineVerdicts:
    entry, rubrics = plan.judge_entry(judge), plan.reply_rubrics(judge, benchmark)
    return CombineVerdicts(panel=judge, judges=entry.judges, vote=entry.vote, rubrics=rubrics)


def combine_labelled(plan: Plan, judge: str) -> CombineVerdicts:
    entry = plan.judge_entry(judge)
    return CombineVerdicts(
        panel=judge,
        judges=entry.judges,
        vote=entry.vote,
        rubrics=[*plan.label_rubrics(judge), *entry.pairs],
    )


def grade_verdicts(plan: Plan, judge: str, benchmark: str, tutor: str) -> GradeVerdicts:
    """Return the job that grades a tutor's replies by a judge's verdicts.

    `negative_weights` is set only if a task has weighted criteria.
    """
    answered = plan.tasks_for(benchmark, tutor)
    weighted = [task for task in plan.weighted_tasks(judge, benchmark) if task in answered]
    reading = plan.run.negative_weights if weighted else None
    return GradeVerdicts(judge=judge, tutor=tutor, weighted=weighted, negative_weights=reading)
