"""A run in short: Markdown for a pull request, and each benchmark's row of a leaderboard as CSV."""

from __future__ import annotations

import csv
from pathlib import Path

from maieutic.core.files import safe_cell, whole_file
from maieutic.core.records import ReportedScore
from maieutic.core.visible import visible
from maieutic.report.contrasts import contrasts
from maieutic.report.overview import claim_of
from maieutic.report.record.opened import OpenRun
from maieutic.report.record.samples import hub_name
from maieutic.report.tables import label_of, leads
from maieutic.scores.printed import paper_title, printed_values


def plain(text: object) -> str:
    """A text in a cell of a Markdown table."""
    return " ".join(visible(str(text)).replace("|", "\\|").replace("<", "&lt;").split())


def shown(score: ReportedScore | None) -> str:
    """A value with its interval."""
    if score is None or score.value is None:
        return "–"
    interval = f" [{score.low:.2f}, {score.high:.2f}]" if score.low is not None and score.high is not None else ""
    return f"{score.value:.2f}{interval}"


def markdown(run: OpenRun) -> str:
    """Every tutor's headline numbers by benchmark, and what may be said of the best two."""
    plan = run.plan
    commit = run.provenance.code.told if run.provenance else "code not recorded"
    limit = f", a sample of {plan.run.limit} items a task" if plan.run.limit else ""
    lines = [f"## Maieutic: {len(plan.run.tutors)} tutors, {plan.edition} data{limit}", "", f"{commit}.", ""]
    if claim := claim_of(plan, contrasts(plan, run.results)):
        first, second = (plain(label_of(plan, name)) for name in (claim.first, claim.second))
        counts = ", ".join(f"{one.how} on {one.tasks}" for one in claim.said)
        lines += [f"**{first}** against **{second}**: {counts} of {claim.tasks} tasks (Holm-corrected).", ""]
    for benchmark, loadeds in plan.benchmarks.items():
        cards = [loaded.card for loaded in loadeds]
        heads = ["Tutor", *(f"{card.title} ({card.headline.replace('_', ' ')})" for card in cards)]
        lines += [
            f"### {paper_title(benchmark)}",
            "",
            f"| {' | '.join(map(plain, heads))} |",
            "| --- " * len(heads) + "|",
        ]
        for tutor in plan.tutors_on(benchmark):
            own = {score.task: score for score in run.headlines(tutor) if score.benchmark == benchmark}
            cells = [label_of(plan, tutor), *(shown(own.get(card.task)) for card in cards)]
            lines.append(f"| {' | '.join(map(plain, cells))} |")
        lines.append("")
    lines.append("95 % intervals over problems; answers read by `robust`.")
    return "\n".join(lines) + "\n"


def leaderboard_columns(benchmark: str, cards: list[str]) -> list[tuple[str, str]]:
    """Task and metric of each column that a benchmark's paper prints, of the selected tasks."""
    return list(dict.fromkeys((one.task, one.metric) for one in printed_values(benchmark) if one.task in cards))


def write_rows(run: OpenRun, out: Path) -> list[Path]:
    """Write a CSV a benchmark: a row a tutor, the columns of its paper's table, read as released; gives the files."""
    plan, files = run.plan, []
    for benchmark, loadeds in plan.benchmarks.items():
        columns = leaderboard_columns(benchmark, [loaded.card.task for loaded in loadeds])
        if not columns:
            continue
        values = {
            (score.tutor, score.task, score.metric): score.value
            for score in run.scores.get(benchmark, [])
            if score.scoring == "paper_compat" and score.value is not None and leads(plan, score)
        }
        path = out / f"{benchmark}.csv"
        with whole_file(path) as handle:
            writer = csv.writer(handle, lineterminator="\n")
            writer.writerow(["model", "revision", "protocol", *(f"{task}/{metric}" for task, metric in columns)])
            for tutor in (name for name in plan.run.tutors if any(key[0] == name for key in values)):
                revision = getattr(getattr(plan.models[tutor], "weights", None), "revision", None) or ""
                cells = [values.get((tutor, *column)) for column in columns]
                row = [hub_name(plan, tutor), revision, plan.protocol_of(tutor)]
                writer.writerow([*map(safe_cell, row), *("" if cell is None else f"{cell:.4f}" for cell in cells)])
        files.append(path)
    return files
