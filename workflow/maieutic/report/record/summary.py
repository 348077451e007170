"""A run in short: Markdown for a pull request, and each benchmark's row of a leaderboard as CSV."""

from __future__ import annotations

import csv
from pathlib import Path

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel
from maieutic.core.files import safe_cell, whole_file
from maieutic.core.records import ReportedScore
from maieutic.core.visible import in_one_direction
from maieutic.report.contrasts import contrasts
from maieutic.report.overview import claim_of
from maieutic.report.record.opened import OpenRun
from maieutic.report.record.samples import hub_name
from maieutic.report.tables import label_of, leads
from maieutic.report.traffic_light import LightOf, headliner, kind_on, lights, title_of
from maieutic.scores.printed import paper_title, printed_values


def plain(text: object) -> str:
    """A text in a cell of a Markdown table."""
    return " ".join(in_one_direction(str(text)).replace("|", "\\|").replace("<", "&lt;").split())


COLOURS = {"green": "🟢", "amber": "🟡", "red": "🔴", "grey": "⚪", "none": "⚪"}


def shown(score: ReportedScore | None) -> str:
    """Return a value with its interval, and how many items it lacks."""
    if score is None or score.value is None:
        return "–" if score is None or not score.missing else f"– ({score.missing} missing)"
    interval = f" [{score.low:.2f}, {score.high:.2f}]" if score.low is not None and score.high is not None else ""
    lacking = f" ({score.missing} of {score.n + score.missing} missing)" if score.missing else ""
    return f"{score.value:.2f}{interval}{lacking}"


def head_of(run: OpenRun, card: Card, light: LightOf) -> str:
    """Return a task's title with its metric, and with the grader that it rests on and that grader's light."""
    words = f"{card.title} ({card.headline.replace('_', ' ')})"
    by = headliner(run.plan, card)
    kind = kind_on(run.plan, by, card) if by else None
    if by is None or kind is None:
        return words
    return f"{words}, by {label_of(run.plan, by)} {COLOURS[light(by, kind).colour]}"


def lights_of(run: OpenRun, light: LightOf) -> list[str]:
    """Return a line for each grader and kind of verdict on which a headline rests: its light, and why."""
    cards = [loaded.card for loaded in run.plan.cards.values()]
    used = [(by, kind) for card in cards if (by := headliner(run.plan, card)) and (kind := kind_on(run.plan, by, card))]
    found = {key: light(*key) for key in dict.fromkeys(used)}
    return [
        f"- {COLOURS[one.colour]} {plain(label_of(run.plan, by))}, {plain(title_of(kind))}: {plain(one.told)}"
        for (by, kind), one in found.items()
    ]


def markdown(run: OpenRun) -> str:
    """Every tutor's headline numbers by benchmark, and what may be said of the best two."""
    plan = run.plan
    light = lights(plan, run.results)
    commit = run.provenance.code.told if run.provenance else "code not recorded"
    limit = f", a sample of {plan.run.limit} items a task" if plan.run.limit else ""
    lines = [f"## Maieutic: {len(plan.run.tutors)} tutors, {plan.edition} data{limit}", "", f"{commit}.", ""]
    if claim := claim_of(plan, contrasts(plan, run.results)):
        first, second = (plain(label_of(plan, name)) for name in (claim.first, claim.second))
        counts = ", ".join(f"{one.how} on {one.tasks}" for one in claim.said)
        lines += [f"**{first}** against **{second}**: {counts} of {claim.tasks} tasks (Holm-corrected).", ""]
    for benchmark, loadeds in plan.benchmarks.items():
        cards = [loaded.card for loaded in loadeds]
        heads = ["Tutor", *(head_of(run, card, light) for card in cards)]
        lines += [
            f"### {paper_title(benchmark)}",
            "",
            f"| {' | '.join(map(plain, heads))} |",
            "| --- " * len(heads) + "|",
        ]
        for tutor in plan.tutors_on(benchmark):
            own = {score.task: score for score in run.headlines(tutor) if score.benchmark == benchmark}
            trivial = " (baseline)" if isinstance(plan.models[tutor], BaselineModel) else ""
            cells = [f"{label_of(plan, tutor)}{trivial}", *(shown(own.get(card.task)) for card in cards)]
            lines.append(f"| {' | '.join(map(plain, cells))} |")
        lines.append("")
    if explained := lights_of(run, light):
        lines += ["Agreement of graders with people:", "", *explained, ""]
    lines.append(
        "95 % intervals over problems; answers read by `robust`. A baseline is a trivial tutor or the human's words."
    )
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
