"""Jobs of TutorBench's own rules. Each function has the name of its rule and maps wildcards to a job."""

from __future__ import annotations

from maieutic.benchmarks.tutorbench.breakdown import BreakDown
from maieutic.benchmarks.tutorbench.difficulty import FilterByDifficulty
from maieutic.benchmarks.tutorbench.inputs import difficulty_tutors
from maieutic.benchmarks.tutorbench.raters import RateJudge
from maieutic.benchmarks.tutorbench.tagging import TagItems, VoteTags
from maieutic.judges.jobs import judge_job_fields
from maieutic.plan.inputs import tasks_of
from maieutic.plan.plan import Plan
from maieutic.validation.jobs import people_label_fields


def tag_items(plan: Plan, tagger: str, benchmark: str) -> TagItems:
    fields = judge_job_fields(plan, tagger, rubrics=[], pairs=[], family=[])
    return TagItems(**fields, benchmark=benchmark, tasks=tasks_of(plan.pooled_cards(benchmark)))


def vote_tags(plan: Plan, benchmark: str) -> VoteTags:
    return VoteTags(tasks=tasks_of(plan.pooled_cards(benchmark)), taggers=plan.run.taggers)


def break_down(plan: Plan, benchmark: str, tutor: str) -> BreakDown:
    pooled, answered = tasks_of(plan.pooled_cards(benchmark)), plan.tasks_for(benchmark, tutor)
    return BreakDown(
        benchmark=benchmark,
        tutor=tutor,
        tasks=pooled,
        asked=[task for task in pooled if task in answered],
        judges=plan.judges_of(benchmark, tutor),
        **plan.bootstrap_settings,
    )


def filter_by_difficulty(plan: Plan, benchmark: str) -> FilterByDifficulty:
    return FilterByDifficulty(
        tasks=tasks_of(plan.pooled_cards(benchmark)),
        tutors=difficulty_tutors(plan, benchmark),
        below=plan.run.difficulty.below,
        at_least=plan.run.difficulty.at_least,
    )


def rate_judge(plan: Plan, judge: str, benchmark: str) -> RateJudge:
    return RateJudge(judge=judge, tasks=tasks_of(plan.pooled_cards(benchmark)), **people_label_fields(plan))
