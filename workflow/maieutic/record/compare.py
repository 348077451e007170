"""`maieutic compare`: differences between two finished runs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from maieutic.config.cards import Card
from maieutic.core import paths
from maieutic.core.errors import UserError
from maieutic.core.records import Difference, Item, Reply, ReportedScore, iter_records
from maieutic.core.terminal import say
from maieutic.core.visible import visible_text
from maieutic.core.yaml_files import read_yaml
from maieutic.record.comparison_page import (
    MOST_FLIPS,
    ChangedTask,
    counted_grades,
    flips_between,
    write_comparison,
)
from maieutic.record.finished_run import FinishedRun, load_finished_run, own_file, run_folder_at
from maieutic.report.browser import grades_of_run
from maieutic.report.contrasts import contrast_of, reversed_difference
from maieutic.report.tables import display_label, items_of_task
from maieutic.scores.differences import (
    ComparisonKey,
    items_that_decide,
    simultaneous_interval,
    tutor_differences,
)
from maieutic.scores.score import GradeIndex, Measurement, index_grades, measure_task

WORSE_CODE, OPEN_CODE = 3, 4  # exit codes of a gate
MOST_MISSING = 0.25  # items without a grade for each graded one, above which a gate decides nothing
IGNORED_KEYS = {"report", "containers", "interpreters", "servers", "limits"}  # top-level keys that do not affect scores
DIGITS = 3
NO_DIFFERENCE = ("–", "–", "–")
log = logging.getLogger(__name__)
OUTPUT_WIDTH = 160  # width of the output, in characters, if it does not go to a terminal


def compare(
    first: Path,
    second: Path,
    /,
    *,
    gate: str | None = None,
    margin: float = 0.0,
    page: Path = Path("compare.html"),
) -> None:
    """Print what differs between two finished runs: configuration, data, code, replies and scores; write it as a page.

    If a tutor answered the same items in both runs, the difference between its scores is computed on these pairs of
    replies, with an interval, a p value and a verdict. The intervals of all differences hold together with a
    probability of 95 %.

    With --gate, the exit code is 0 if every loss is smaller than the margin beyond chance; otherwise it is 3 if the
    second run is worse beyond chance, and else 4.

    Args:
        first: name or folder of the earlier run, or a folder or .zip file that `maieutic share` wrote
        second: the later run, in the same forms
        gate: task or headline metric that must not be worse
        margin: largest loss that the gate accepts
        page: page to write, with both replies to each item whose grade changed
    """
    with run_folder_at(first) as first_folder, run_folder_at(second) as second_folder:
        changes = compare_folders(first_folder, second_folder, (str(first), str(second)), page)
    if gate is not None:
        decision, lines = decide_gate(changes, gate, margin)
        for line in lines:
            say(visible_text(line))
        if decision:
            raise SystemExit(decision)


def compare_folders(first: Path, second: Path, names: tuple[str, str], page: Path) -> list[ScoreChange]:
    """Print the differences between two runs, and return the changes of scores.

    first, second: the runs' own folders; names: their names on the page that is written to `page`.
    """
    before, after = load_finished_run(first), load_finished_run(second)
    if before.results.resolve() == after.results.resolve() and before.folder.resolve() != after.folder.resolve():
        log.warning(
            "both runs share %s: they have the same files of replies and scores. Fix: pack a run with `maieutic share` "
            "before prompts or models change, and compare with the archive",
            before.results,
        )
    console = Console(width=None if sys.stdout.isatty() else OUTPUT_WIDTH)
    lists = (
        ("configuration", config_changes(first, second)),
        ("code, cards and data", provenance_changes(before, after)),
        ("items and replies", reply_changes(before, after)),
    )
    for title, lines in lists:
        console.print(title, style="bold", markup=False, highlight=False)
        for line in lines or ["the same"]:
            console.print(f"  {visible_text(line)}", markup=False, highlight=False)
    table = Table(title="scores: second run minus first", title_justify="left", box=None)
    for name in ("task", "tutor", "metric", "first", "second", "difference", "interval", "p", "verdict"):
        table.add_column(name)
    changes = list(score_changes(before, after))
    compared = sum(not isinstance(change.difference, str) for change in changes)
    rows = [change.row(after.plan.config.report.equivalence, max(1, compared)) for change in changes]
    for change, row in zip(changes, rows, strict=True):
        table.add_row(*(Text(visible_text(cell)) for cell in change.cells(row)))
    together = "the interval holds" if compared == 1 else f"the {compared} intervals hold together"
    note = f"{together} with a probability of 95 %" if compared else ""
    if changes:
        console.print(table, markup=False)
        if compared:
            console.print(f"{note}; p: of each difference alone", markup=False)
    else:
        console.print("no tutor has scores on the same task in both runs", markup=False)
    write_comparison(page, names, lists, rows, changed_tasks(before, after, changes), note)
    say(f"page: {page}")
    return changes


def changed_tasks(before: FinishedRun, after: FinishedRun, changes: Sequence[ScoreChange]) -> list[ChangedTask]:
    """Return each tutor's tasks on which the grades of some items differ between two runs, with these items."""
    by_tutor: dict[tuple[str, str], list[ScoreChange]] = {}
    for change in changes:
        if not isinstance(change.difference, str):
            by_tutor.setdefault((change.card.benchmark, str(change.first.tutor)), []).append(change)
    tasks = []
    for place, own_changes in by_tutor.items():
        grades = [counted_grades(run, *place) for run in (before, after)]
        replies = [replies_by_task_and_item(run, *place) for run in (before, after)]
        for change in own_changes:
            flips = flips_between(items_in_both(before, after, change.card), grades, replies)
            if flips:
                tasks.append(ChangedTask(change.card.title, change.label, len(flips), flips[:MOST_FLIPS]))
    return tasks


def decide_gate(changes: Sequence[ScoreChange], gate: str, margin: float) -> tuple[int, list[str]]:
    """Return the exit code of a gate, and a line for each difference that it rests on.

    Their intervals hold together with a probability of 95 %. The code is 0 if each lies above -margin, WORSE_CODE if
    one lies below 0, and otherwise OPEN_CODE. Raises UserError if no difference has the gate's name.
    """
    if margin < 0:
        raise UserError("--margin", f"expected 0 or more, found {margin:g}", "pass the largest loss to accept")
    guarded = [
        change
        for change in changes
        if gate in (change.card.task, f"{change.card.benchmark}/{change.card.task}", change.first.metric)
    ]
    if not guarded:
        known = dict.fromkeys(f"{change.card.benchmark}/{change.card.task}" for change in changes)
        fix = f"use one of {', '.join(known)}" if known else "compare runs with a tutor and a task in common"
        raise UserError("--gate", f"no score of both runs is named {gate}", fix)
    codes, lines = list[int](), list[str]()
    for change in guarded:
        place = f"gate {change.card.benchmark}/{change.card.task}, {change.label}"
        if isinstance(change.difference, str):
            codes.append(OPEN_CODE)
            lines.append(f"{place}: open, {change.difference}")
            continue
        higher = change.card.metrics[change.first.metric].higher_is_better is not False
        gain = change.difference if higher else reversed_difference(change.difference)
        low, high = (0.0, 0.0) if gain.same else simultaneous_interval(gain, len(guarded))
        interval = f"{number_cell(gain.value)} [{number_cell(low)}, {number_cell(high)}]"
        if few := [
            score for score in (change.first, change.second) if score and score.missing > MOST_MISSING * score.n
        ]:
            codes.append(OPEN_CODE)
            lines.append(f"{place}: open, {few[0].missing} of {few[0].n + few[0].missing} items have no grade")
        elif low is not None and (low > -margin or gain.same):
            codes.append(0)
            lines.append(f"{place}: passed, {interval} lies above {-margin:g}")
        elif high is not None and high < 0:
            codes.append(WORSE_CODE)
            lines.append(f"{place}: worse, {interval} lies below 0")
        else:
            codes.append(OPEN_CODE)
            items = items_of_gate(gain, margin, len(guarded))
            lines.append(f"{place}: open, {interval}" + (f"; about {items:,} items would decide" if items else ""))
    return WORSE_CODE if WORSE_CODE in codes else max(codes), lines


def items_of_gate(gain: Difference, margin: float, comparisons: int) -> int | None:
    """Return the number of items with which the gate would decide, in either way; None if it is unknown.

    gain: difference of which more is better; comparisons: number of differences of the gate.
    """
    shifted = gain.model_copy(update={"value": None if gain.value is None else gain.value + margin})
    passing = items_that_decide(shifted, comparisons) if shifted.value is not None and shifted.value > 0 else None
    failing = items_that_decide(gain, comparisons) if gain.value is not None and gain.value < 0 else None
    return min(filter(None, (passing, failing)), default=None)


def dotted_values(content: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value of a configuration with its key in dotted form (`run.tutors`). A list counts as one value."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from dotted_values(value, f"{place}.{name}" if place else str(name))
    else:
        yield place, content


def config_changes(first: Path, second: Path) -> list[str]:
    """Return a line for each configuration key that differs. first, second: the runs' own folders."""
    before, after = (
        dict(
            dotted_values(
                {
                    name: value
                    for name, value in read_yaml(own_file(folder, paths.CONFIG)).items()
                    if name not in IGNORED_KEYS
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


def provenance_changes(before: FinishedRun, after: FinishedRun) -> list[str]:
    """Return a line for each difference in code, machine, parsers, cards and data between two runs' provenances."""
    earlier, later = before.provenance, after.provenance
    if earlier is None or later is None:
        return ["not compared, because one of the runs has no record of its code, cards and data (provenance.json)"]
    lines = [f"code: {earlier.code.as_line} -> {later.code.as_line}"] if earlier.code != later.code else []
    if earlier.machine and later.machine and earlier.machine != later.machine:
        lines.append(f"machine: {earlier.machine.summary} -> {later.machine.summary}")
    lines += parser_changes(earlier.readers, later.readers)
    if (earlier.extensions is None) != (later.extensions is None):
        which = "first" if earlier.extensions is None else "second"
        if earlier.extensions or later.extensions:
            lines.append(f"extensions: their files are not recorded in the {which} run, so their code may differ")
        first_code, second_code = dict[str, str](), dict[str, str]()
    else:
        first_code, second_code = earlier.code_files, later.code_files
    for first, second in (
        (earlier.files, later.files),
        (first_code, second_code),
        (earlier.data, later.data),
    ):
        for name in sorted(first.keys() | second.keys()):
            if first.get(name) != second.get(name):
                only = "first" if name in first else "second"
                how = "changed" if name in first and name in second else f"only in the {only} run"
                lines.append(f"{name}: {how}")
    return lines


def parser_changes(first: Mapping[str, int], second: Mapping[str, int]) -> list[str]:
    """Return a line for each parser whose version differs between two runs. first, second: versions by parser name."""
    if bool(first) != bool(second):
        return [f"parsers: versions not recorded in the {'second' if first else 'first'} run, so grades may differ"]
    return [
        f"parser {name}: version {first[name]} -> {second[name]}, so the same reply may get a different grade"
        for name in sorted(first.keys() & second.keys())
        if first[name] != second[name]
    ]


def replies_by_task_and_item(run: FinishedRun, benchmark: str, tutor: str) -> dict[tuple[str, str], Reply]:
    """Return a tutor's replies by task and item. Copies of items that only other tutors answer are left out."""
    path = paths.REPLIES.within(run.results, benchmark=benchmark, tutor=tutor)
    if not path.exists():
        return {}
    repeats = run.plan.repeats_of(tutor)
    left_out = {
        (loaded.card.task, item.id)
        for loaded in run.plan.benchmarks[benchmark]
        for item in items_of_task(run.results, benchmark, loaded.card.task)
        if item.repeat >= repeats
    }
    replies = ((reply.task, reply.id, reply) for reply in iter_records(path, Reply))
    return {(task, name): reply for task, name, reply in replies if (task, name) not in left_out}


def reply_changes(before: FinishedRun, after: FinishedRun) -> list[str]:
    """Return a line for each benchmark and tutor whose replies differ between two runs, with the number of changes."""
    lines = []
    for benchmark in (name for name in before.plan.benchmarks if name in after.plan.benchmarks):
        for tutor in (name for name in before.plan.run.tutors if name in after.plan.run.tutors):
            earlier, later = (
                replies_by_task_and_item(before, benchmark, tutor),
                replies_by_task_and_item(after, benchmark, tutor),
            )
            shared = earlier.keys() & later.keys()
            changed = sum(earlier[place].text != later[place].text for place in shared)
            if changed or len(shared) < max(len(earlier), len(later)):
                lines.append(
                    f"{benchmark}, {display_label(after.plan, tutor)}: "
                    f"{changed} of {len(shared)} shared replies differ, "
                    f"{len(earlier) - len(shared)} only in the first run, {len(later) - len(shared)} only in the second"
                )
    return lines


class ScoreChange(NamedTuple):
    """A tutor's headline score on a task in two runs.

    second: None if the second run has none; difference: the later score minus the earlier one, or the reason for its
    absence.
    """

    card: Card
    label: str
    first: ReportedScore
    second: ReportedScore | None
    difference: Difference | str

    def row(self, equivalence: float, comparisons: int) -> dict[str, Any]:
        """Return the row of the score comparison. comparisons: number of differences, whose intervals hold together."""
        row: dict[str, Any] = {
            "task": f"{self.card.benchmark}/{self.card.task}",
            "label": self.label,
            "metric": self.first.metric,
            "first": number_cell(self.first.value),
            "second": number_cell(self.second.value if self.second else None),
        }
        if isinstance(self.difference, str):
            return row | {"value": None, "low": None, "high": None, "verdict": self.difference}
        higher = self.card.metrics[self.first.metric].higher_is_better is not False
        contrast = contrast_of(self.difference, higher, equivalence, comparisons)
        return row | {
            "value": self.difference.value,
            "low": contrast.low,
            "high": contrast.high,
            "verdict": contrast.verdict,
        }

    def cells(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Return a row of the score comparison as texts for the terminal."""
        names = tuple(row[name] for name in ("task", "label", "metric", "first", "second"))
        if isinstance(self.difference, str):
            return (*names, *NO_DIFFERENCE, self.difference)
        interval = f"{number_cell(row['low'])} to {number_cell(row['high'])}"
        return (*names, number_cell(row["value"]), interval, number_cell(self.difference.p), row["verdict"])


def score_changes(before: FinishedRun, after: FinishedRun) -> Iterator[ScoreChange]:
    """Yield the change of each headline score of the first run."""
    for benchmark, loaded_cards in before.plan.benchmarks.items():
        cards = {loaded.card.task: loaded.card for loaded in loaded_cards}
        shared = {task: items_in_both(before, after, card) for task, card in cards.items()}
        for tutor in before.plan.run.tutors:
            seconds = {score.task: score for score in after.headlines(tutor) if score.benchmark == benchmark}
            runs = (after, before) if seconds else ()
            indexes = [index_grades(grades_of_run(run.plan, run.results, benchmark, tutor)) for run in runs]
            for first in before.headlines(tutor):
                if first.benchmark == benchmark and first.task in cards:
                    card, second = cards[first.task], seconds.get(first.task)
                    change = difference_of_runs(card, first, second, shared[first.task], indexes)
                    yield ScoreChange(card, display_label(before.plan, tutor), first, second, change)


def items_in_both(before: FinishedRun, after: FinishedRun, card: Card) -> list[Item]:
    """Return the items of a task that are identical in both runs."""
    first = {item.id: item for item in items_of_task(before.results, card.benchmark, card.task)}
    return [item for item in items_of_task(after.results, card.benchmark, card.task) if first.get(item.id) == item]


def difference_of_runs(
    card: Card, first: ReportedScore, second: ReportedScore | None, shared: list[Item], indexes: Sequence[GradeIndex]
) -> Difference | str:
    """Return the paired difference on the items in both runs, or the reason for its absence.

    first, second: the score in the earlier and in the later run; shared: items in both runs; indexes: the tutor's
    grades in the later run, then in the earlier run.
    """
    if second is None:
        return "no score in the second run"
    if first.metric != second.metric:
        return f"different headline metric in the first run: {first.metric}"
    if first.by != second.by:
        return f"different graders: {first.by or 'parser'}, {second.by or 'parser'}"
    if not shared:
        return "no identical items"
    return paired_headline_difference(card, second.by, shared, indexes) or "no grades of identical items"


def paired_headline_difference(
    card: Card, by: str | None, items: list[Item], indexes: Sequence[GradeIndex]
) -> Difference | None:
    """Return the headline metric on `items` in the later run minus that in the earlier; None if a run lacks grades.

    by: judge or reward model whose grades the metric uses, None for a parser; indexes: grades of the later run, then of
    the earlier run.
    """
    measured: dict[str, Measurement] = {}
    for name, index in zip(("later", "earlier"), indexes, strict=True):
        for measurement in measure_task(card, items, index):
            if (measurement.metric.headline, measurement.scoring, measurement.by) == (True, "robust", by):
                measured[name] = measurement
    if len(measured) < 2:
        return None
    compared = ComparisonKey(card.task, "robust", by)
    return next(tutor_differences(card, compared, measured), None)


def number_cell(value: float | None) -> str:
    """Format a number with DIGITS decimals; None becomes a dash."""
    return "–" if value is None else f"{value:.{DIGITS}f}"
