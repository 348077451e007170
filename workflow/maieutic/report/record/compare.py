"""`maieutic compare`: what changed from one finished run to another."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from maieutic.config.cards import Card
from maieutic.core import paths
from maieutic.core.documents import read_yaml
from maieutic.core.records import Difference, Item, Reply, ReportedScore, each_record
from maieutic.core.visible import visible
from maieutic.report.browser import all_grades
from maieutic.report.contrasts import verdict_of
from maieutic.report.record.opened import OpenRun, open_run, own_file, received_run
from maieutic.report.tables import items_of_task, label_of
from maieutic.scores.differences import Compared, differences
from maieutic.scores.score import Index, Measured, index_of, measured_on

IGNORED = {"report", "containers", "interpreters", "servers", "limits"}  # keys that change no number
DIGITS = 3
NOTHING = ("–", "–", "–")
log = logging.getLogger(__name__)
WIDE = 160  # columns where there is no terminal to fit


def compare(first: Path, second: Path, /) -> None:
    """Print what differs between two finished runs: configuration, data, code, replies and scores.

    first, second: the runs' own folders or names (maieutic runs lists them), or what `maieutic share` wrote, a folder
    or a .zip. Where a tutor has answered the same items in both, the difference of its scores is paired, with its
    interval and p value.
    """
    with received_run(first) as one, received_run(second) as other:
        compare_folders(one, other)


def compare_folders(first: Path, second: Path) -> None:
    """Print what differs between the runs of two own folders."""
    before, after = open_run(first), open_run(second)
    if before.results.resolve() == after.results.resolve() and before.folder.resolve() != after.folder.resolve():
        log.warning("both runs share %s: what they have in common is one set of replies and scores", before.results)
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    for title, lines in (
        ("configuration", config_changes(first, second)),
        ("code, cards and data", made_changes(before, after)),
        ("items and replies", reply_changes(before, after)),
    ):
        console.print(title, style="bold", markup=False, highlight=False)
        for line in lines or ["the same"]:
            console.print(f"  {visible(line)}", markup=False, highlight=False)
    table = Table(title="scores: second run less first", title_justify="left", box=None)
    for name in ("task", "tutor", "metric", "first", "second", "difference", "95 % interval", "p", "verdict"):
        table.add_column(name)
    rows = list(score_changes(before, after))
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    if rows:
        console.print(table, markup=False)
    else:
        console.print("no tutor has scores of one task in both runs", markup=False)


def leaves(content: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a configuration with its dotted key; a list is one value."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from leaves(value, f"{place}.{name}" if place else str(name))
    else:
        yield place, content


def config_changes(first: Path, second: Path) -> list[str]:
    """The keys that differ, a line each."""
    before, after = (
        dict(
            leaves(
                {
                    name: value
                    for name, value in read_yaml(own_file(folder, paths.CONFIG)).items()
                    if name not in IGNORED
                }
            )
        )
        for folder in (first, second)
    )
    return [
        f"{name}: {before.get(name, '(not set)')} -> {after.get(name, '(not set)')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def made_changes(before: OpenRun, after: OpenRun) -> list[str]:
    """What of the records of both runs differs, a line each."""
    one, other = before.provenance, after.provenance
    if one is None or other is None:
        return ["a run has no record of what it was made of (provenance.json)"]
    lines = [f"code: {one.code.told} -> {other.code.told}"] if one.code != other.code else []
    if one.machine and other.machine and one.machine != other.machine:
        lines.append(f"machine: {one.machine.told} -> {other.machine.told}")
    lines += reader_changes(one.readers, other.readers)
    for first, second in ((one.files, other.files), (one.data, other.data)):
        for name in sorted(first.keys() | second.keys()):
            if first.get(name) != second.get(name):
                only = "first" if name in first else "second"
                how = "another one" if name in first and name in second else f"only in the {only} run"
                lines.append(f"{name}: {how}")
    return lines


def reader_changes(first: Mapping[str, int], second: Mapping[str, int]) -> list[str]:
    """Return a line for each parser whose version differs between two runs. first, second: versions by parser name."""
    if bool(first) != bool(second):
        return [f"readings: not recorded in the {'second' if first else 'first'} run, which may have read otherwise"]
    return [
        f"reading {name}: version {first[name]} -> {second[name]}: the same reply may have another grade"
        for name in sorted(first.keys() & second.keys())
        if first[name] != second[name]
    ]


def replies_of(run: OpenRun, benchmark: str, tutor: str) -> dict[tuple[str, str], Reply]:
    """A tutor's replies by task and item."""
    path = paths.REPLIES.within(run.results, benchmark=benchmark, tutor=tutor)
    return {(reply.task, reply.id): reply for reply in each_record(path, Reply)} if path.exists() else {}


def reply_changes(before: OpenRun, after: OpenRun) -> list[str]:
    """How many items and replies of each benchmark and tutor of both runs differ."""
    lines = []
    for benchmark in (name for name in before.plan.benchmarks if name in after.plan.benchmarks):
        for tutor in (name for name in before.plan.run.tutors if name in after.plan.run.tutors):
            one, other = replies_of(before, benchmark, tutor), replies_of(after, benchmark, tutor)
            shared = one.keys() & other.keys()
            changed = sum(one[place].text != other[place].text for place in shared)
            if changed or len(shared) < max(len(one), len(other)):
                lines.append(
                    f"{benchmark}, {label_of(after.plan, tutor)}: {changed} of {len(shared)} shared replies differ, "
                    f"{len(one) - len(shared)} only in the first run, {len(other) - len(shared)} only in the second"
                )
    return lines


def score_changes(before: OpenRun, after: OpenRun) -> Iterator[tuple[str, ...]]:
    """The headline scores of each task and tutor of both runs, and their difference."""
    both = [name for name in before.plan.benchmarks if name in after.plan.benchmarks]
    for benchmark in both:
        cards = {loaded.card.task: loaded.card for loaded in after.plan.benchmarks[benchmark]}
        shared = {task: items_in_both(before, after, card) for task, card in cards.items()}
        for tutor in (name for name in before.plan.run.tutors if name in after.plan.run.tutors):
            firsts = {score.task: score for score in before.headlines(tutor) if score.benchmark == benchmark}
            indexes = [index_of(all_grades(run.plan, run.results, benchmark, tutor)) for run in (after, before)]
            for score in after.headlines(tutor):
                first = firsts.get(score.task)
                if score.benchmark != benchmark or first is None or score.task not in cards:
                    continue
                yield change_of(after, cards[score.task], first, score, shared[score.task], indexes)


def items_in_both(before: OpenRun, after: OpenRun, card: Card) -> list[Item]:
    """The items of a task that are the same in both runs."""
    first = {item.id: item for item in items_of_task(before.results, card.benchmark, card.task)}
    return [item for item in items_of_task(after.results, card.benchmark, card.task) if first.get(item.id) == item]


def change_of(
    after: OpenRun,
    card: Card,
    first: ReportedScore,
    second: ReportedScore,
    shared: list[Item],
    indexes: Sequence[Index],
) -> tuple[str, ...]:
    """One row: both values, and the paired difference on the items that are the same.

    indexes: the tutor's grades in the later run and in the earlier one.
    """
    label = label_of(after.plan, str(second.tutor))
    row = (f"{card.benchmark}/{card.task}", label, second.metric, number(first.value), number(second.value))
    if first.metric != second.metric:
        return (*row, *NOTHING, f"another headline: {first.metric}")
    if first.by != second.by:
        return (*row, *NOTHING, f"another grader: {first.by or 'parser'}, {second.by or 'parser'}")
    if not shared:
        return (*row, *NOTHING, "no item is the same")
    found = paired(card, second.by, shared, indexes)
    if found is None:
        return (*row, *NOTHING, "no grades of the same items")
    higher = card.metrics[second.metric].higher_is_better is not False
    word = verdict_of(found.model_copy(update={"p_holm": found.p}), higher, after.plan.config.report.equivalence)
    return (*row, number(found.value), f"{number(found.low)} to {number(found.high)}", number(found.p), word)


def paired(card: Card, by: str | None, items: list[Item], indexes: Sequence[Index]) -> Difference | None:
    """The difference of a task's headline on some items, later less earlier; None where a side has no grade of them.

    by: the judge or reward model behind it.
    """
    measured: dict[str, Measured] = {}
    for name, index in zip(("later", "earlier"), indexes, strict=True):
        for measurement in measured_on(card, items, index):
            if (measurement.metric.headline, measurement.scoring, measurement.by) == (True, "robust", by):
                measured[name] = measurement
    if len(measured) < 2:
        return None
    compared = Compared(card.task, "robust", by)
    return next(differences(card, compared, measured), None)


def number(value: float | None) -> str:
    """A number as the table shows it."""
    return "–" if value is None else f"{value:.{DIGITS}f}"
