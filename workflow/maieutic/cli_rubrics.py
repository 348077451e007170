"""The command line of what is made of items with criteria of their own: tags, breakdowns, raters, the hard ones."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from maieutic.records import Item, Judgement, read_records

Arguments = argparse.Namespace


def items_of(given: Arguments) -> list[Item]:
    """The items of the named tasks."""
    return [item for task in given.tasks for item in read_records(given.items / f"{task}.jsonl", Item)]


def tag(given: Arguments) -> None:
    from maieutic.cli import panel_of
    from maieutic.commands import cards_of
    from maieutic.judges.judging import run_judge
    from maieutic.judges.tagging import work_on_tags

    panel = panel_of(given)
    cards = [loaded.card for loaded in cards_of(given.benchmark, given.tasks, "released")]
    work = work_on_tags(panel.judge.tags, cards, given.items)
    run_judge(panel, work, given.weights, given.journal, given.server_log, given.out, given.pictures)


def vote(given: Arguments) -> None:
    from maieutic.judges.tagging import vote_tags

    said = {name: read_records(path, Judgement) for name, path in zip(given.taggers, given.tags, strict=True)}
    vote_tags(items_of(given), said, given.out)


def breakdown(given: Arguments) -> None:
    from maieutic.breakdown import BreakDown, break_down

    job = BreakDown.model_validate_json(given.job)
    break_down(job=job, items=given.items, grades=given.grades, votes=given.votes, out=given.out)


def rate(given: Arguments) -> None:
    from maieutic.judges.raters import judge_ratings

    items = {(item.task, item.id): item for item in items_of(given)}
    judge_ratings(given.judge, given.judgements, given.people, items, given.out, given.resamples, given.seed)


def difficulty(given: Arguments) -> None:
    from maieutic.difficulty import FilterByDifficulty, filter_by_difficulty

    job = FilterByDifficulty.model_validate_json(given.job)
    filter_by_difficulty(job=job, items=given.items, grades=given.grades, out=given.out)


def add_verbs(verb: Callable[..., None], judge: dict[str, dict[str, object]]) -> None:
    """Add these verbs to the parser. judge: the arguments of every job of a judge."""
    need: dict[str, object] = {"required": True}
    names: dict[str, object] = {"nargs": "+", "required": True}
    none: dict[str, object] = {"nargs": "*", "default": []}
    files: dict[str, object] = {"nargs": "+", "type": Path, "required": True}
    number: dict[str, object] = {"type": int, "required": True}
    drawn = {"resamples": number, "seed": number}
    verb("tag-items", tag, "a judge's tags of items and criteria", "items", "journal", "server-log", "out",
         benchmark=need, tasks=names, pictures={"type": Path}, **judge)  # fmt: skip
    verb("vote-tags", vote, "Bloom levels by vote of several taggers", "items", "out",
         tasks=names, taggers=names, tags=files)  # fmt: skip
    verb("break-down", breakdown, "scores by the tags of items and criteria", "items", "out",
         job=need, grades={**none, "type": Path}, votes={"type": Path})  # fmt: skip
    verb("rate-judge", rate, "a judge and people against each other, criterion by criterion", "people", "items", "out",
         judge=need, tasks=names, judgements=files, **drawn)  # fmt: skip
    verb("filter-by-difficulty", difficulty, "which items most of some tutors fail", "items", "out",
         job=need, grades={**none, "type": Path})  # fmt: skip
