"""Input files of TutorBench's own rules that depend on the run's tasks and models (as in `maieutic.plan.inputs`)."""

from __future__ import annotations

from maieutic.core import paths
from maieutic.judges.inputs import answering_weights
from maieutic.plan.inputs import item_files, rubric_files, tasks_of
from maieutic.plan.plan import Plan


def pooled_items(plan: Plan, benchmark: str) -> list[str]:
    """Return the item files of those tasks of a benchmark that are scored together."""
    return item_files(benchmark, tasks_of(plan.pooled_cards(benchmark)))


def tagger_weights(plan: Plan, tagger: str) -> list[str]:
    """Return the weights manifest of a tagger's model; empty unless this run serves the model."""
    return answering_weights(plan, tagger)


def tag_rubrics(plan: Plan, tagger: str) -> list[str]:
    """Return the files of the rubrics by which a model tags items."""
    return rubric_files(plan.judge_entry(tagger).tags)


def tag_files(plan: Plan, benchmark: str) -> list[str]:
    """Return the files with tags of a benchmark's items, one file for each tagger."""
    return [paths.TAGS.of(tagger=name, benchmark=benchmark) for name in plan.run.taggers]


def tag_votes(plan: Plan, benchmark: str) -> list[str]:
    """Return the file of the taggers' votes; empty in a run without taggers."""
    return [paths.VOTES.of(benchmark=benchmark)] if plan.run.taggers else []


def difficulty_tutors(plan: Plan, benchmark: str) -> list[str]:
    """Return the tutors of `run.difficulty.tutors` whose replies to a benchmark are judged."""
    judged = [tutor for tutors in plan.judge_batches(benchmark).values() for tutor in tutors]
    return [tutor for tutor in plan.run.difficulty.tutors if tutor in judged]


def difficulty_grades(plan: Plan, benchmark: str) -> list[str]:
    """Return the files of the leading judge's grades, one for each tutor of the difficulty filter."""
    judge = plan.leading_judge(benchmark)
    return [
        paths.JUDGE_GRADES.of(benchmark=benchmark, judge=judge, tutor=tutor)
        for tutor in difficulty_tutors(plan, benchmark)
    ]
