"""Definitions that the digest of a job leaves out or replaces, because the job does not use them.

Each benchmark has its own tables of plug-ins, such as a table of graders. The digest of a job covers only the tables
with an entry that the job uses, so that adding or editing a benchmark does not re-run the jobs of another benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, RecordedModel
from maieutic.config.people import TABLE_LOADER
from maieutic.core.plugins import PACKAGE, plugin_objects, plugin_packages
from maieutic.judges.rubrics import read_rubric
from maieutic.plan import digest
from maieutic.plan.plan import Plan
from maieutic.plan.syntax import Name

Replacements = dict[Name, tuple[Name, ...]]  # definitions that replace a definition; none if it is left out
Tables = Mapping[str, Mapping[str, Any]]  # tables of one kind of plug-in, by benchmark or feature
LOADERS: Tables = plugin_objects("loaders", "LOADERS")
GRADERS: Tables = plugin_objects("graders", "GRADERS")
METRICS: Tables = plugin_objects("metrics", "METRICS")
TUTORS: Tables = plugin_objects("baselines", "TUTORS")
CONDITIONS: Tables = plugin_objects("conditions", "CONDITIONS")
HEURISTICS: Tables = plugin_objects("heuristics", "HEURISTICS")
MEASURES: Tables = plugin_objects("toolkit", "MEASURES")
RELEASES: Tables = plugin_objects("releases", "RELEASES")
RECORDED: Tables = plugin_objects("recorded", "RECORDED")
# All kinds of tutors share one command. These are the definitions that one kind of tutor never uses.
UNUSED_BY_SERVED: Replacements = {Name("replies.baselines", "baseline_reply"): ()}
UNUSED_BY_BASELINES: Replacements = {
    Name("serving.backends", "backend_of"): (),
    Name("replies.generate", "run_conversations"): (),
}


def unused_tables(module: str, name: str, tables: Tables, used: Iterable[str]) -> Replacements:
    """Return replacements that leave out each plug-in's table `module.name` if it contains none of the `used` names.

    tables: the plug-ins' tables, by benchmark or feature.
    """
    packages, names = plugin_packages(), set(used)
    return {
        Name(f"{packages[owner].removeprefix(f'{PACKAGE}.')}.{module}", name): ()
        for owner, table in tables.items()
        if not table.keys() & names
    }


def unused_metrics(cards: Iterable[Card]) -> Replacements:
    """Return replacements that leave out the metrics that none of the cards names."""
    functions = {metric.function or name for card in cards for name, metric in card.metrics.items()}
    return unused_tables("metrics", "METRICS", METRICS, functions)


def unused_by_rubrics(names: Iterable[str], criteria: Iterable[str] = ()) -> Replacements:
    """Return replacements that leave out the conditions and word lists that the named rubrics do not use.

    criteria: further criteria, whose word lists are used.
    """
    rubrics = [read_rubric(name).rubric for name in names]
    conditions = {rubric.when for rubric in rubrics if rubric.when}
    used = {*criteria, *(name for rubric in rubrics for name in rubric.criteria)}
    return {
        **unused_tables("conditions", "CONDITIONS", CONDITIONS, conditions),
        **unused_tables("heuristics", "HEURISTICS", HEURISTICS, used),
    }


def used_by_make_items(plan: Plan, benchmark: str, task: str) -> Replacements:
    """Return replacements of the table of all loaders by the loader that the task's card names."""
    from maieutic.datasets.registry import LOADERS

    loader = LOADERS[plan.card(benchmark, task).loader].load
    return {Name("datasets.registry", "LOADERS"): (digest.as_definition(loader), Name("datasets.loaders", "Loader"))}


def used_by_make_pairs(plan: Plan, source: str) -> Replacements:
    """Return replacements of the table of all pair sources by the source whose pairs the job makes."""
    entry = plan.config.preferences.get(source)
    if entry is not None and entry.loader == TABLE_LOADER:
        return {Name("rewards.pairs", "PAIR_SOURCES"): (Name("rewards.sources", "PairSource"),)}
    load = plan.pair_source(source).load
    return {Name("rewards.pairs", "PAIR_SOURCES"): (digest.as_definition(load), Name("rewards.sources", "PairSource"))}


def used_by_make_labels(plan: Plan, release: str) -> Replacements:
    """Return replacements that leave out the labelled releases of other benchmarks."""
    return unused_tables("releases", "RELEASES", RELEASES, {plan.label_sets[release].loader})


def used_by_generate_replies(plan: Plan, tutor: str, **others: str) -> Replacements:
    """Return replacements that leave out code of other kinds of tutors, and other benchmarks' baselines."""
    entry = plan.models[tutor]
    if not isinstance(entry, BaselineModel):
        return UNUSED_BY_SERVED
    return {**UNUSED_BY_BASELINES, **unused_tables("baselines", "TUTORS", TUTORS, {entry.tutor})}


def used_by_read_replies(plan: Plan, tutor: str, **others: str) -> Replacements:
    """Return replacements that leave out the formats and loaders that the job for a recorded tutor does not use."""
    entry = plan.models[tutor]
    assert isinstance(entry, RecordedModel)
    loaders = {loaded.card.loader for loaded in plan.cards.values()}
    return {
        **unused_tables("recorded", "RECORDED", RECORDED, {entry.form} if entry.form else set()),
        **unused_tables("loaders", "LOADERS", LOADERS, loaders),
    }


def used_on_benchmark(plan: Plan, benchmark: str, **others: str) -> Replacements:
    """Return replacements that leave out the graders and metrics that no card of a benchmark names."""
    cards = [loaded.card for loaded in plan.benchmarks[benchmark]]
    graders = {name for card in cards for name in card.graders}
    return {**unused_tables("graders", "GRADERS", GRADERS, graders), **unused_metrics(cards)}


def used_by_judge_replies(plan: Plan, judge: str, benchmark: str, **others: str) -> Replacements:
    """Return replacements that leave out conditions and word lists that the rubrics for a benchmark do not use."""
    return unused_by_rubrics(plan.reply_rubrics(judge, benchmark))


def used_by_judge_all_replies(plan: Plan, judge: str, **others: str) -> Replacements:
    """Return replacements that leave out conditions and word lists that a judge's rubrics do not use."""
    return unused_by_rubrics(
        {rubric for benchmark in plan.judged_benchmarks(judge) for rubric in plan.reply_rubrics(judge, benchmark)}
    )


def used_by_judge_labelled(plan: Plan, judge: str) -> Replacements:
    """Return replacements that leave out conditions and word lists that rubrics for labelled data do not use."""
    entry = plan.judge_entry(judge)
    return unused_by_rubrics([*(plan.label_rubrics(judge) or entry.rubrics), *entry.pairs])


def used_by_validation(plan: Plan, judge: str = "", classifier: str = "") -> Replacements:
    """Return replacements that leave out the word lists for criteria that the labelled sets of a grader do not have."""
    return unused_by_rubrics((), criteria_of_labels(plan, plan.validating_releases(judge or classifier)))


def used_by_score_labels(plan: Plan, release: str) -> Replacements:
    """Return replacements that leave out the measures of criteria that a labelled set does not have."""
    return unused_tables("toolkit", "MEASURES", MEASURES, criteria_of_labels(plan, [release]))


def criteria_of_labels(plan: Plan, releases: Iterable[str]) -> set[str]:
    """Return the criteria of labelled sets."""
    return {criterion for release in releases for criterion in plan.label_source(release).scales}


REPLACEMENTS: dict[str, Callable[..., Replacements]] = {
    "make_items": used_by_make_items,
    "make_pairs": used_by_make_pairs,
    "make_labels": used_by_make_labels,
    "generate_replies": used_by_generate_replies,
    "read_replies": used_by_read_replies,
    "parse_replies": used_on_benchmark,
    "score_replies": used_on_benchmark,
    "compare_tutors": used_on_benchmark,
    "judge_replies": used_by_judge_replies,
    "judge_by_words": used_by_judge_replies,
    "judge_all_replies": used_by_judge_all_replies,
    "judge_labelled": used_by_judge_labelled,
    "judge_labelled_by_words": used_by_judge_labelled,
    "validate_judge": used_by_validation,
    "validate_criteria_on_labels": used_by_validation,
    "score_labels": used_by_score_labels,
}


@cache
def code_with_replacements(command: str, instead: tuple[tuple[Name, tuple[Name, ...]], ...]) -> str:
    """Return the digest of a command's code with some definitions replaced by others."""
    return digest.code_of(command, dict(instead))
