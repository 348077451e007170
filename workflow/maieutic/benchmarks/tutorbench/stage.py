"""TutorBench's part of the plan: tags of items, scores by tag, difficult items, and agreement with raters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from maieutic.benchmarks.tutorbench.breakdown import BreakDown
from maieutic.benchmarks.tutorbench.difficulty import FilterByDifficulty
from maieutic.benchmarks.tutorbench.raters import RateJudge
from maieutic.benchmarks.tutorbench.tagging import TagItems, VoteTags
from maieutic.config.cards import JUDGE
from maieutic.config.registry import unknown_name
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.judges.stage import answering_weights, judge_job_fields
from maieutic.plan.inputs import item_files, rubric_files, tasks_of
from maieutic.plan.plan import Plan
from maieutic.plan.slice_plan import Checks, PlannedRequests, SlicePlan, used_on_benchmark
from maieutic.serving.budget import CHARS_A_TOKEN
from maieutic.validation.stage import people_label_fields

ITEM_TOKENS, TAG_TOKENS = 700, 30  # of an item in a tagger's prompt (150 published single calls), and of its answer


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


def tag_items_job(plan: Plan, tagger: str, benchmark: str) -> TagItems:
    fields = judge_job_fields(plan, tagger, rubrics=[], pairs=[], family=[])
    return TagItems(**fields, benchmark=benchmark, tasks=tasks_of(plan.pooled_cards(benchmark)))


def vote_tags_job(plan: Plan, benchmark: str) -> VoteTags:
    return VoteTags(tasks=tasks_of(plan.pooled_cards(benchmark)), taggers=plan.run.taggers)


def break_down_job(plan: Plan, benchmark: str, tutor: str) -> BreakDown:
    pooled, answered = tasks_of(plan.pooled_cards(benchmark)), plan.tasks_for(benchmark, tutor)
    return BreakDown(
        benchmark=benchmark,
        tutor=tutor,
        tasks=pooled,
        asked=[task for task in pooled if task in answered],
        judges=plan.judges_of(benchmark, tutor),
        **plan.bootstrap_settings,
    )


def filter_by_difficulty_job(plan: Plan, benchmark: str) -> FilterByDifficulty:
    return FilterByDifficulty(
        tasks=tasks_of(plan.pooled_cards(benchmark)),
        tutors=difficulty_tutors(plan, benchmark),
        below=plan.run.difficulty.below,
        at_least=plan.run.difficulty.at_least,
    )


def rate_judge_job(plan: Plan, judge: str, benchmark: str) -> RateJudge:
    return RateJudge(judge=judge, tasks=tasks_of(plan.pooled_cards(benchmark)), **people_label_fields(plan))


def report_files(plan: Plan) -> Iterator[str]:
    """Yield the files that the report shows beside the scores of pooled tasks: votes, scores by tag, hard items."""
    for benchmark in plan.pooled_benchmarks:
        if plan.run.taggers:
            yield paths.VOTES.of(benchmark=benchmark)
        for tutor in plan.tutors_on(benchmark):
            yield paths.BREAKDOWN.of(benchmark=benchmark, tutor=tutor)
        if plan.run.difficulty.tutors:
            yield paths.DIFFICULTY.of(benchmark=benchmark)
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


def planned_tags(plan: Plan) -> Iterator[PlannedRequests]:
    """Yield the estimated requests of each tagger whose tags do not exist yet: by each of its rubrics, one an item.

    Their number is unknown if that of a task's items is. A prompt has the item and the rubric's text; an answer is a
    short list of tags.
    """
    for benchmark in plan.pooled_benchmarks:
        counts = [plan.item_count(card) for card in plan.pooled_cards(benchmark)]
        items = sum(count for count in counts if count is not None)
        for tagger in plan.run.taggers:
            if Path(paths.TAGS.of(tagger=tagger, benchmark=benchmark)).is_file():
                continue
            rubrics = plan.judge_entry(tagger).tags
            texts = sum(len(read_rubric(name).prompt) for name in rubrics) / CHARS_A_TOKEN
            requests = items * len(rubrics)
            yield PlannedRequests(
                "tag_items", {"tagger": tagger, "benchmark": benchmark}, "tags", plan.answering_entry(tagger),
                requests if None not in counts else None, items * texts + requests * ITEM_TOKENS, requests * TAG_TOKENS,
            )  # fmt: skip


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


STAGE = SlicePlan(
    module=__name__,
    checks=Checks(data=lambda plan: [partial(check_taggers, plan)]),
    report_files=report_files,
    verdict_files=tags_by_tagger,
    journals=journals,
    requests=planned_tags,
    used_code={"rate_judge": used_on_benchmark},
)
