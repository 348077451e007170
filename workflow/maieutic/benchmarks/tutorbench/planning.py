"""TutorBench's part of the plan: tags of items, scores by tag, difficult items, and agreement with raters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from maieutic.benchmarks.tutorbench import inputs, jobs
from maieutic.benchmarks.tutorbench.breakdown import break_down
from maieutic.benchmarks.tutorbench.difficulty import filter_by_difficulty
from maieutic.benchmarks.tutorbench.tagging import vote_tags
from maieutic.config.cards import JUDGE
from maieutic.config.registry import unknown_name
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, SlicePlan
from maieutic.plan.steps import Step, one_output_step
from maieutic.plan.used_code import used_on_benchmark


def pooled_steps(plan: Plan) -> Iterator[Step]:
    """Yield the steps of benchmarks whose tasks are scored together: votes on tags, scores by tag, difficult items."""
    for benchmark in plan.pooled_benchmarks:
        if plan.run.taggers:
            yield one_output_step(vote_tags, paths.VOTES, benchmark=benchmark)
        for tutor in plan.tutors_on(benchmark):
            yield one_output_step(break_down, paths.BREAKDOWN, benchmark=benchmark, tutor=tutor)
        if plan.run.difficulty.tutors:
            yield one_output_step(filter_by_difficulty, paths.DIFFICULTY, benchmark=benchmark)


def report_files(plan: Plan) -> Iterator[str]:
    """Yield the files that the report shows beside the scores of pooled tasks."""
    for step in pooled_steps(plan):
        yield str(step.outputs["out"])
    for benchmark in plan.pooled_benchmarks if plan.run.human_labels else ():
        yield from (paths.RATERS.of(judge=judge, benchmark=benchmark) for judge in plan.pooled_judges(benchmark))


def tags_by_tagger(plan: Plan) -> dict[str, list[str]]:
    """Map each tagger to its files of tags."""
    benchmarks = plan.pooled_benchmarks
    return {name: [paths.TAGS.of(tagger=name, benchmark=place) for place in benchmarks] for name in plan.run.taggers}


def journals(plan: Plan) -> Iterator[str]:
    """Yield the journals of taggers."""
    for benchmark in plan.pooled_benchmarks:
        yield from (paths.TAG_JOURNAL.of(tagger=name, benchmark=benchmark) for name in plan.run.taggers)


def check_taggers(plan: Plan) -> None:
    """Raise UserError unless the run has the tasks and tutors that taggers and the difficulty filter need."""
    difficulty = plan.run.difficulty
    if difficulty.tutors and difficulty.at_least > len(difficulty.tutors):
        raise UserError(
            "run.difficulty.at_least",
            f"expected at most {len(difficulty.tutors)} (number of run.difficulty.tutors), found {difficulty.at_least}",
            "lower this number, or add tutors",
        )
    pooled = [loaded.card for loaded in plan.cards.values() if loaded.card.pool and JUDGE in loaded.card.graders]
    if (difficulty.tutors or plan.run.taggers) and not pooled:
        raise UserError(
            "run.difficulty" if difficulty.tutors else "run.taggers",
            "no selected task has judged items that define their own criteria",
            "add tutorbench to run.tasks and its judge to run.judges, or remove the key",
        )
    for number, name in enumerate(difficulty.tutors):
        if name not in plan.run.tutors:
            raise unknown_name(f"run.difficulty.tutors[{number}]", name, plan.run.tutors, "run.tutors")


PLANNING = SlicePlan(
    inputs=inputs,
    jobs=jobs,
    checks=Checks(data=lambda plan: [partial(check_taggers, plan)]),
    report_files=report_files,
    verdict_files=tags_by_tagger,
    journals=journals,
    steps=pooled_steps,
    used_code={"rate_judge": used_on_benchmark},
)
