"""Every number that the benchmarks' papers print, each beside this run's value, or with the reason why it has none.

A benchmark's module `measured` computes values for the paper's tables that are not about tutors. Values for tutors come
from the comparison with the paper (`maieutic.report.comparison`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from maieutic.config.models import BaselineModel, RecordedModel
from maieutic.core.plugins import plugin_objects
from maieutic.core.records import Score
from maieutic.plan.availability import AbsentPart
from maieutic.report.comparison import ROUNDING_TOLERANCE
from maieutic.report.sections import ReportInput
from maieutic.scores.papers import PERCENT, Display, Lack, Place, PrintedRow, printed_rows
from maieutic.scores.printed import PAPERS, paper_title

Kind = Literal["data", "other release", "setting", "model", "arithmetic"]
Verdict = Literal[
    "reproduced", "differs", "another release", "settings", "not comparable", "follows", "contradicts", ""
]
VERDICTS: tuple[Verdict, ...] = (
    "reproduced", "differs", "another release", "settings", "not comparable", "follows", "contradicts",
)  # fmt: skip
LACKS: tuple[Lack, ...] = ("models", "data", "nothing")


class Measured(NamedTuple):
    """A value for a printed number, on the scale of the paper.

    kind: `data` if the value was computed from released data, labels or replies; `other release` if these are known not
    to be those of the paper; `setting` for a constant of this project; `model` if a model was asked or trained; and
    `arithmetic` if it follows from other printed numbers. low, high: ends of the value's interval; for arithmetic, of
    the range that rounding of those other numbers allows. note: reason why the two values are not comparable.
    """

    value: float
    kind: Kind = "data"
    low: float | None = None
    high: float | None = None
    note: str | None = None


MeasuredTable = Mapping[Place, Measured]
MeasureTable = Callable[[ReportInput], MeasuredTable]


def model_value(score: Score, scale: float = 1.0) -> Measured | None:
    """Return a score as the value of a printed number; None without a value. scale: factor to the paper's scale."""
    if score.value is None:
        return None
    low, high = (None if end is None else end * scale for end in (score.low, score.high))
    return Measured(score.value * scale, "model", low, high)


def computed_value(weighted: Iterable[tuple[float, PrintedRow]]) -> Measured:
    """Return the weighted sum of printed numbers, with the range that their rounding allows."""
    terms = list(weighted)
    value = sum(weight * row.value for weight, row in terms)
    error = sum(abs(weight) * rounding_error(row) for weight, row in terms)
    return Measured(value, "arithmetic", value - error, value + error)


def rounding_error(row: PrintedRow) -> float:
    """Return the largest rounding error of a printed number: half a unit of its last decimal place."""
    return 0.5 * 10.0**-row.digits


def verdict_on_cell(row: PrintedRow, measured: Measured) -> Verdict:
    """Return the verdict on a printed number that has a value.

    A value of released data must equal the printed number after rounding. If a model was asked, the printed number must
    lie in the value's interval. A constant of this project that equals the paper's is no result, and a value of another
    release that differs is no failed reproduction.
    """
    if measured.note is not None:
        return "not comparable"
    exact = measured.kind in ("data", "other release", "setting")
    low = measured.value if exact or measured.low is None else measured.low
    high = measured.value if exact or measured.high is None else measured.high
    error = rounding_error(row) + ROUNDING_TOLERANCE
    equal = low - error <= row.value <= high + error
    if measured.kind == "arithmetic":
        return "follows" if equal else "contradicts"
    if equal:
        return "settings" if measured.kind == "setting" else "reproduced"
    return "another release" if measured.kind == "other release" else "differs"


class NumberRow(NamedTuple):
    """A printed number with this run's value and the verdict; both are empty if the run has no value."""

    printed: PrintedRow
    measured: Measured | None
    verdict: Verdict


class DisplayTally(NamedTuple):
    """The numbers of one table, figure or section. counts: number of numbers by verdict."""

    display: Display
    rows: list[NumberRow]
    counts: Mapping[str, int]

    @property
    def measured(self) -> int:
        """Number of printed numbers with a value."""
        return sum(row.measured is not None for row in self.rows)


class PaperTally(NamedTuple):
    """The numbers of one paper. counts: number of numbers by verdict; lacks: number of those without a value.

    remarks: sentences on what is known of the paper's numbers beyond the verdicts.
    """

    title: str
    displays: list[DisplayTally]
    counts: Mapping[str, int]
    lacks: Mapping[str, int]
    remarks: list[str]

    @property
    def numbers(self) -> int:
        """Number of printed numbers."""
        return sum(len(display.rows) for display in self.displays)

    @property
    def measured(self) -> int:
        """Number of printed numbers with a value that do not only follow from other printed ones."""
        return sum(self.counts.values()) - self.counts["follows"] - self.counts["contradicts"]


def paper_tally(run: ReportInput, benchmark: str, displays: list[DisplayTally]) -> PaperTally:
    """Return the tally of one benchmark's paper."""
    counts, lacks = Counter[str](), Counter[str]()
    for display in displays:
        counts.update(display.counts)
        lacks[display.display.lack] += len(display.rows) - display.measured
    remarks: Callable[[ReportInput], list[str]] | None = plugin_objects("measured", "REMARKS").get(benchmark)
    return PaperTally(paper_title(benchmark), displays, counts, lacks, remarks(run) if remarks else [])


def tutor_rows(comparison: Mapping[str, Any]) -> dict[PrintedRow, NumberRow]:
    """Return this run's values for the tutors in a paper. comparison: table made by `comparison.against_paper`.

    If several tutors of the run are the same model of the paper, the first one counts.
    """
    results = [result for row in comparison["rows"] for result in row["cells"] if result and result.row]
    scale = PERCENT if any(result.value != result.row.value for result in results) else 1.0
    rows: dict[PrintedRow, NumberRow] = {}
    for row in comparison["rows"]:
        for ours in row["ours"]:
            for result, cell in zip(row["cells"], ours["cells"], strict=True):
                if result is not None and result.row is not None and cell is not None:
                    measured = Measured(cell.value * scale, note=cell.note)
                    rows.setdefault(result.row, NumberRow(result.row, measured, cell.verdict))
    return rows


def printed_numbers(run: ReportInput, benchmark: str, comparison: Mapping[str, Any] | None) -> list[DisplayTally]:
    """Return every number that a benchmark's paper prints, by table, figure or section.

    comparison: the comparison of this run's tutors with the paper's, None if the run has no such tasks.
    """
    tables: Mapping[str, MeasureTable] = plugin_objects("measured", "MEASURED").get(benchmark, {})
    by_table: dict[str, list[PrintedRow]] = defaultdict(list)
    for row in printed_rows(benchmark):
        if row.value == row.value:  # some rows print words, with NaN as value
            by_table[row.table].append(row)
    tutors = tutor_rows(comparison) if comparison else {}
    tallies = []
    for table, display in PAPERS[benchmark].displays.items():
        measured = tables[table](run) if table in tables else {}
        rows = []
        for row in by_table[table]:
            value = measured.get(row.place)
            of_table = NumberRow(row, value, verdict_on_cell(row, value) if value else "")
            # The rates of labels come before those of a tutor of this run, which a judge has graded.
            rows.append(of_table if value and value.kind == "other release" else tutors.get(row) or of_table)
        tallies.append(DisplayTally(display, rows, Counter(row.verdict for row in rows if row.verdict)))
    return tallies


def papers_of(run: ReportInput) -> list[str]:
    """Return the benchmarks of a run whose paper's numbers are recorded, with those whose data are absent."""
    named = [*run.plan.benchmarks, *(part.name.split("/")[0] for part in absent_parts(run))]
    return [name for name in dict.fromkeys(named) if name in PAPERS and PAPERS[name].displays]


def absent_parts(run: ReportInput) -> list[AbsentPart]:
    """Return the parts of the run that were left out without their data files."""
    return run.provenance.absent if run.provenance else []


def printed_numbers_section(
    run: ReportInput, comparisons: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any] | None:
    """Return the variables of the page with every printed number, or None for a run without papers."""
    papers = [paper_tally(run, name, printed_numbers(run, name, comparisons.get(name))) for name in papers_of(run)]
    if not papers:
        return None
    return {
        "verdicts": VERDICTS,
        "lacks": LACKS,
        "papers": papers,
        "asks_models": asks_models(run),
        "total": sum_of_tallies(papers),
        "absent": absent_parts(run),
    }


def sum_of_tallies(papers: Sequence[PaperTally]) -> PaperTally:
    """Return the tally of all papers."""
    counts, lacks = Counter[str](), Counter[str]()
    for paper in papers:
        counts.update(paper.counts)
        lacks.update(paper.lacks)
    return PaperTally("All", [display for paper in papers for display in paper.displays], counts, lacks, [])


def asks_models(run: ReportInput) -> bool:
    """Return False for a run of released data alone: no model is asked or trained, and its replies are published."""
    models = run.plan.models
    published = [isinstance(entry := models[name], RecordedModel) and entry.dataset for name in run.plan.run.tutors]
    answering = [name for name in run.plan.used_models if not isinstance(models[name], RecordedModel | BaselineModel)]
    return not all(published) or bool(answering)
