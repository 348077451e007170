"""Summaries of a run: Markdown for a pull request, and a CSV file for each benchmark's leaderboard."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from maieutic.config.cards import Card
from maieutic.config.models import BaselineModel, HostedModel, VllmModel
from maieutic.core.errors import UserError
from maieutic.core.files import atomic_file, safe_cell
from maieutic.core.records import ReportedScore
from maieutic.core.visible import without_direction_controls
from maieutic.plan.plan import Plan
from maieutic.plan.rules import RulePlan
from maieutic.record.finished_run import FinishedRun
from maieutic.report.ranking import Ranking, read_rankings
from maieutic.report.tables import display_label, is_leading
from maieutic.report.traffic_light import LightOf, headline_grader, kind_on, light_lookup, verdict_kind_title
from maieutic.scores.printed import paper_title, printed_values


def markdown_cell(text: object) -> str:
    """Return a text as a cell of a Markdown table: one line, with `|` and `<` escaped."""
    return " ".join(without_direction_controls(str(text)).replace("|", "\\|").replace("<", "&lt;").split())


LIGHT_SYMBOLS = {"green": "🟢", "amber": "🟡", "red": "🔴", "grey": "⚪", "none": "⚪"}


def score_cell(score: ReportedScore | None) -> str:
    """Format a score with its interval and the number of missing items."""
    if score is None or score.value is None:
        return "–" if score is None or not score.missing else f"– ({score.missing} missing)"
    interval = f" [{score.low:.2f}, {score.high:.2f}]" if score.low is not None and score.high is not None else ""
    missing = f" ({score.missing} of {score.n + score.missing} missing)" if score.missing else ""
    return f"{score.value:.2f}{interval}{missing}"


def task_heading(run: FinishedRun, card: Card, light: LightOf, ranking: Ranking | None = None) -> str:
    """Return a task's title and headline metric. If a model grades the metric, its name and traffic light are added.

    The light is that of the ranking, the lowest on a tutor of the run.
    """
    words = f"{card.title} ({card.headline.replace('_', ' ')})"
    by = headline_grader(run.plan, card)
    kind = kind_on(run.plan, by, card) if by else None
    if by is None or kind is None:
        return words
    ranked = {task.key: task.light for task in ranking.tasks} if ranking else {}
    colour = ranked.get((card.benchmark, card.task)) or light(by, kind).colour
    return f"{words}, by {display_label(run.plan, by)} {LIGHT_SYMBOLS[colour]}"


def light_lines(run: FinishedRun, light: LightOf) -> list[str]:
    """Return a line with traffic light and reason for each grader and kind of verdict behind a headline score."""
    cards = [loaded.card for loaded in run.plan.cards.values()]
    used = [
        (by, kind)
        for card in cards
        if (by := headline_grader(run.plan, card)) and (kind := kind_on(run.plan, by, card))
    ]
    lights_by_grader = {key: light(*key) for key in dict.fromkeys(used)}
    return [
        f"- {LIGHT_SYMBOLS[result.colour]} {markdown_cell(display_label(run.plan, by))}, "
        f"{markdown_cell(verdict_kind_title(kind))}: {markdown_cell(result.summary)}"
        for (by, kind), result in lights_by_grader.items()
    ]


def run_markdown(run: FinishedRun) -> str:
    """Return every tutor's headline scores by benchmark, and the verdicts on the two leading tutors, as Markdown."""
    plan = run.plan
    light = light_lookup(plan, run.results)
    commit = run.provenance.code.as_line if run.provenance else "code not recorded"
    limit = f", a sample of {plan.run.limit} items per task" if plan.run.limit else ""
    lines = [f"## Maieutic: {len(plan.run.tutors)} tutors, {plan.edition} data{limit}", "", f"{commit}.", ""]
    ranking = read_rankings(run.folder).get("robust")
    if ranking is not None:
        lines += [*summary_lines(ranking), ""]
    for benchmark, loaded_cards in plan.benchmarks.items():
        cards = [loaded.card for loaded in loaded_cards]
        heads = ["Tutor", *(task_heading(run, card, light, ranking) for card in cards)]
        lines += [
            f"### {paper_title(benchmark)}",
            "",
            f"| {' | '.join(map(markdown_cell, heads))} |",
            "| --- " * len(heads) + "|",
        ]
        for tutor in sorted(plan.tutors_on(benchmark), key=ranked_first(ranking)):
            by_task = {score.task: score for score in run.headlines(tutor) if score.benchmark == benchmark}
            trivial = " (baseline)" if isinstance(plan.models[tutor], BaselineModel) else ""
            bold = leaders_by_task(ranking, benchmark)
            cells = [
                f"**{markdown_cell(cell)}**" if tutor in bold.get(card.task, ()) else markdown_cell(cell)
                for card in cards
                if (cell := score_cell(by_task.get(card.task)))
            ]
            label = markdown_cell(f"{display_label(plan, tutor)}{trivial}")
            lines.append(f"| {' | '.join([label, *cells])} |")
        lines.append("")
    if explained := light_lines(run, light):
        lines += ["Agreement of graders with people:", "", *explained, ""]
    lines.append(
        "95 % intervals over problems; replies are read by the `robust` parsers. "
        "A baseline is a trivial tutor or the human reference."
    )
    return "\n".join(lines) + "\n"


def summary_lines(ranking: Ranking) -> list[str]:
    """Return the finding of a run, the ranks of its tutors, and what limits its numbers, as Markdown."""
    ranks = [
        f"{row.best}{'' if row.best == row.worst else f'–{row.worst}'} {markdown_cell(row.label)}"
        for row in ranking.ranked
    ]
    limits = [f"- {markdown_cell(chip.text)}" for chip in ranking.chips if chip.state in ("bad", "doubtful")]
    return [
        f"**{markdown_cell(ranking.sentence)}.**",
        *(["", f"Ranks: {'; '.join(ranks)}."] if len(ranks) > 1 else []),
        *(["", *limits] if limits else []),
    ]


def ranked_first(ranking: Ranking | None) -> Callable[[str], tuple[int, str]]:
    """Return a sort key of tutors: their place in the ranking, then the others by name."""
    places = {row.tutor: place for place, row in enumerate(ranking.tutors)} if ranking else {}
    return lambda tutor: (places.get(tutor, len(places)), tutor)


def leaders_by_task(ranking: Ranking | None, benchmark: str) -> dict[str, list[str]]:
    """Return the tutors that no other one is better than, by task of a benchmark."""
    return {task.task: task.leaders for task in ranking.tasks if task.benchmark == benchmark} if ranking else {}


def public_model_name(plan: Plan, name: str) -> str:
    """Return a model's public name: its repository on the hub, its name at the endpoint or, without both, `name`."""
    model = plan.models[name]
    if isinstance(model, VllmModel):
        return getattr(model.weights, "repo", None) or name
    return model.model if isinstance(model, HostedModel) else name


LEADERBOARDS = "leaderboards"  # folder in a submission: a CSV file for each benchmark, with its paper's columns


def leaderboard_columns(benchmark: str, cards: list[str]) -> list[tuple[str, str]]:
    """Return task and metric of each column in the paper's table, leaving out tasks that are not in `cards`."""
    return list(dict.fromkeys((cell.task, cell.metric) for cell in printed_values(benchmark) if cell.task in cards))


def check_is_whole(plan: RulePlan) -> None:
    """Raise UserError for a run of a sample, whose numbers are not those of a leaderboard."""
    if plan.run.limit is not None:
        problem = f"a leaderboard counts all items, and this run has at most {plan.run.limit} of each task"
        raise UserError("run.limit", problem, "remove the limit and run again; answers on file are kept")


def leaderboard_rows(run: FinishedRun, by_name: bool = False) -> dict[str, list[list[str]]]:
    """Return the rows of each benchmark's leaderboard with a header: a row per tutor, columns and scoring of the paper.

    by_name: begin rows with the tutor's name in the run, not its model's. Raises UserError for a run of a sample.
    """
    check_is_whole(run.plan)
    plan, tables = run.plan, {}
    for benchmark, loaded_cards in plan.benchmarks.items():
        columns = leaderboard_columns(benchmark, [loaded.card.task for loaded in loaded_cards])
        if not columns:
            continue
        values = {
            (score.tutor, score.task, score.metric): score.value
            for score in run.scores.get(benchmark, [])
            if score.scoring == "paper_compat" and score.value is not None and is_leading(plan, score)
        }
        rows = [["model", "revision", "protocol", *(f"{task}/{metric}" for task, metric in columns)]]
        for tutor in (name for name in plan.run.tutors if any(key[0] == name for key in values)):
            revision = getattr(getattr(plan.models[tutor], "weights", None), "revision", None) or ""
            cells = [values.get((tutor, *column)) for column in columns]
            row = [tutor if by_name else public_model_name(plan, tutor), revision, plan.protocol_of(tutor)]
            rows.append(
                [*(str(safe_cell(cell)) for cell in row), *("" if cell is None else f"{cell:.4f}" for cell in cells)]
            )
        tables[benchmark] = rows
    return tables


def write_leaderboards(run: FinishedRun, out: Path) -> list[Path]:
    """Write a CSV file for each benchmark's leaderboard, and return the paths. Raises UserError for a sample's run."""
    files = []
    for benchmark, rows in leaderboard_rows(run).items():
        path = out / f"{benchmark}.csv"
        with atomic_file(path) as handle:
            csv.writer(handle, lineterminator="\n").writerows(rows)
        files.append(path)
    return files
