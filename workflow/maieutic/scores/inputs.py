"""Input files of the rules for scores that depend on the run's tasks and models."""

from __future__ import annotations

from maieutic.core import paths
from maieutic.plan.plan import Plan


def judge_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the grade files for one tutor's replies, one for each judge."""
    return [
        paths.JUDGE_GRADES.of(benchmark=benchmark, judge=judge, tutor=tutor)
        for judge in plan.judges_of(benchmark, tutor)
    ]


def reward_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return the grade files for one tutor's replies, one for each reward model; empty if no model scores them."""
    if benchmark not in plan.rewarded_benchmarks:
        return []
    if not any(tutor in tutors for tutors in plan.reward_batches(benchmark).values()):
        return []
    return [
        paths.REWARD_GRADES.of(benchmark=benchmark, reward_model=name, tutor=tutor) for name in plan.run.reward_models
    ]


def leading_reward_model(plan: Plan, benchmark: str) -> list[str]:
    """Return the file that names the leading reward model; empty if it is the run's first one."""
    chosen = plan.chooses_reward_model and benchmark in plan.rewarded_benchmarks
    return [paths.LEADING_REWARD_MODEL.of()] if chosen else []


def all_grades(plan: Plan, benchmark: str, tutor: str) -> list[str]:
    """Return all grade files for one tutor's replies: those of parsers, reward models and judges."""
    parsed = paths.PARSED.of(benchmark=benchmark, tutor=tutor)
    return [parsed, *reward_grades(plan, benchmark, tutor), *judge_grades(plan, benchmark, tutor)]


def compared_grades(plan: Plan, benchmark: str) -> list[str]:
    """Return all grade files of the tutors that are compared on a benchmark."""
    return [file for tutor in plan.compared_tutors(benchmark) for file in all_grades(plan, benchmark, tutor)]
