"""The report page: what each of its parts contains, and the order of its pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from maieutic.config.cards import JUDGE, Card
from maieutic.config.models import BaselineModel
from maieutic.core import paths
from maieutic.core.extensions import listed_name
from maieutic.core.files import atomic_file
from maieutic.core.ledger import latest_spending
from maieutic.core.plugins import plugin_folders, plugin_objects
from maieutic.core.records import SCORINGS, ReportedScore
from maieutic.core.states import STATE_TABLE
from maieutic.core.visible import policy_hash, script_safe_json, visible_text
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import NOT_SHIPPED, card_paths, changed_files, changed_files_of_task
from maieutic.replies.reply_counts import poorly_answered, unhandled_changes
from maieutic.report.browser import NO_ITEMS, Browsed, Readings, criteria_words, desired_labels, write_items
from maieutic.report.comparison import against_paper
from maieutic.report.contrasts import Contrast, compact_contrasts
from maieutic.report.exports import ExportedFigure, ExportedTable, exported_figures, exported_tables, with_links
from maieutic.report.figures import BLUE, GREY, ORANGE, levels_chart, stacked_chart, value_chart
from maieutic.report.graders import grader_section
from maieutic.report.head import chips_of
from maieutic.report.overview import missing_lines, overview_section
from maieutic.report.printed_numbers import asks_models, papers_of, printed_numbers_section
from maieutic.report.ranking import NO_RANKINGS, Rankings, rank_tutors
from maieutic.report.sections import WHOLE_RUN, Page, PartRenderer, Problem, ReportInput, Section
from maieutic.report.tables import (
    display_label,
    format_share,
    items_of_task,
    metric_title,
    selected_cards,
    tutors_without_scores,
)
from maieutic.report.traffic_light import (
    LightOf,
    criterion_on,
    headline_grader,
    kind_on,
    light_lookup,
    verdict_kind_title,
)
from maieutic.report.trust import cost_rows, people_scores_of, trust_section
from maieutic.scores.anytime import read_bounds, stop_lines
from maieutic.scores.printed import paper_title

HERE = Path(__file__).parent
Link = tuple[str, str]  # address and text
HeadlineValues = Mapping[tuple[str, str, str, str], float | None]  # (benchmark, task, scoring, tutor) -> value
# Maximum size, in bytes, of the differences embedded in the page. A browser parses them before it renders anything.
MOST_CONTRASTS = 1 << 21
MOST_ROWS = 1500  # maximum number of rows of a table: a browser takes seconds to render more
PRINTED_PAGE = "#/printed"
OUTCOMES = {"right": "right", "wrong": "wrong", "none": "no answer"}


class RenderedPage(NamedTuple):
    """The rendered page, with the page's failed parts, tables (by file name), pictures and rankings."""

    html: str
    problems: list[Problem]
    tables: dict[str, pd.DataFrame]
    figures: list[ExportedFigure]
    rankings: Rankings


def tutors_in_order(plan: Plan) -> list[str]:
    """Return the run's tutors in page order: ordinary tutors, then trivial ones, then the human reference, by name."""
    ceilings = {loaded.card.baselines.ceiling for cards in plan.benchmarks.values() for loaded in cards}

    def place(name: str) -> tuple[bool, bool, str, str]:
        return name in ceilings, isinstance(plan.models[name], BaselineModel), display_label(plan, name), name

    return sorted(plan.tutors, key=place)


def task_section(run: ReportInput, readings: Readings, card: Card) -> dict[str, Any]:
    """Return the template variables of one task's page."""
    plan = run.plan
    judges = plan.judges_of_replies  # a judge's verdicts are the same under both scorings, so only `robust` is shown
    scores = [
        score
        for score in run.scores.get(card.benchmark, [])
        if score.task == card.task and (score.by not in judges or score.scoring == "robust")
    ]
    order = tutors_in_order(plan)
    scores.sort(key=lambda score: (order.index(score.tutor), not score.headline, score.metric, score.scoring))
    outcomes, spread = outcomes_figure(plan, readings, card)
    graders = dict.fromkeys(score.by for score in scores)
    return {
        "name": card.benchmark,
        "card": card,
        "scores": scores if len(scores) <= MOST_ROWS else [],
        "too_many": len(scores) if len(scores) > MOST_ROWS else 0,
        "n": max((score.n + score.missing for score in scores), default=0),
        "intervals": intervals_figure(plan, card, scores),
        "outcomes": outcomes,
        "spread": spread,
        "headline": metric_title(card.headline),
        "matrix": judged_matrix(run, card, scores),
        "blind_judges": [name for name in plan.judges_of_card(card) if plan.is_blind(name, card)],
        "differs": unique(
            difference for grader in graders for difference in changed_files_of_task(run.provenance, plan, card, grader)
        ),
    }


def unique(names: Iterable[str]) -> list[str]:
    """Return the distinct names in order of first appearance."""
    return list(dict.fromkeys(names))


def judged_matrix(run: ReportInput, card: Card, scores: list[ReportedScore]) -> dict[str, Any] | None:
    """Return the first judge's scores by tutor and dimension; None for a task without a judge.

    A rate that people's labels correct is replaced, if no other judged task of the run has its criterion.
    """
    plan = run.plan
    if JUDGE not in card.graders:
        return None
    judge = plan.judges_of_card(card)[0]
    tasks = [other for benchmark in plan.benchmarks for other in plan.judge_cards(benchmark)]
    # The rate of the desired label, which labels correct, is not that of another label or function.
    rated = {
        name: metric.criterion
        for name, metric in card.metrics.items()
        if metric.grader == JUDGE and metric.criterion and metric.value is None
        if (metric.function or name) == "accuracy"
    }
    corrected = {
        (score.tutor, name): score
        for score in (people_scores_of(plan, run.results, judge) if len(tasks) == 1 else ())
        for name, criterion in rated.items()
        if score.metric == "ppi" and score.value is not None and score.criterion == criterion
    }
    metrics = [
        name
        for name, metric in card.metrics.items()
        if metric.grader == JUDGE and metric.higher_is_better and not metric.only
    ]
    by_cell = {
        (score.tutor, score.metric): score
        for score in scores
        if score.scoring == "robust" and score.by == judge and score.metric in metrics
    }
    rows = [
        {
            "label": display_label(plan, model),
            "baseline": isinstance(plan.models[model], BaselineModel),
            "cells": [corrected.get((model, name)) or by_cell.get((model, name)) for name in metrics],
            "corrected": [(model, name) in corrected for name in metrics],
        }
        for model in tutors_in_order(plan)
        if any((model, name) in by_cell for name in metrics)
    ]
    criteria = {metric_title(name): card.metrics[name].criterion for name in metrics}
    return {"judge": judge, "metrics": criteria, "rows": rows} if rows else None


def intervals_figure(plan: Plan, card: Card, scores: list[ReportedScore]) -> str:
    """Return a chart of each tutor's value of a task's headline metric, or an empty string if there are no values.

    Dashed lines mark the floor and the ceiling under each scoring.
    """
    drawn_scores = [score for score in scores if score.headline and score.value is not None]
    if not drawn_scores:
        return ""
    table = pd.DataFrame(
        {
            "level": display_label(plan, score.tutor),
            "series": score.scoring,
            **score.model_dump(include={"value", "low", "high"}),
        }
        for score in drawn_scores
    )
    colours = {"robust": BLUE, "paper_compat": ORANGE}
    limits = {(score.scoring, limit) for score in drawn_scores for limit in (score.floor, score.ceiling)}
    lines = {
        colour: sorted(limit for name, limit in limits if name == scoring and limit is not None)
        for scoring, colour in colours.items()
    }
    return levels_chart(table, metric_title(card.headline), list(colours), lines=lines)


def outcomes_figure(plan: Plan, readings: Readings, card: Card) -> tuple[str, bool]:
    """Return the chart of a task's grades, and True if the grades are numbers instead of right and wrong."""
    shares: list[dict[str, Any]] = []
    spread: dict[str, list[float]] = {}
    for model in (name for name in tutors_in_order(plan) if plan.is_answered_by(card, name)):
        outcomes, values = readings.get((model, card.task), ({}, []))
        label = display_label(plan, model)
        if "value" in outcomes:
            spread[label] = values
        elif total := sum(outcomes.values()):
            shares += [
                {"level": label, "part": outcome, "count": outcomes.get(kind, 0) / total}
                for kind, outcome in OUTCOMES.items()
            ]
    if spread:
        return value_chart(spread, f"{metric_title(card.headline)} of each item (robust)"), True
    if not shares:
        return "", False
    return stacked_chart(pd.DataFrame(shares), "share of items", (BLUE, ORANGE, GREY), shares=True), False


def format_number(value: float | None, digits: int = 2) -> str:
    """Format a number for a table; None becomes a dash."""
    return "\u2013" if value is None else f"{value:.{digits}f}"


def number_in_text(value: float | None) -> str:
    """Format a number with two decimals, or as a whole number if both are zero; None becomes a dash."""
    return "\u2013" if value is None else f"{value:.2f}".removesuffix(".00")


def not_as_shipped(run: ReportInput, benchmark: str | None = None) -> list[str]:
    """List the files that affect a benchmark's numbers and differ from the shipped files.

    benchmark: if None, list the changed files that belong to no task. These affect the numbers about graders.
    """
    if run.provenance is None:
        return []
    cards = [loaded.card for loaded_cards in run.plan.benchmarks.values() for loaded in loaded_cards]
    graders = [None, *run.plan.run.judges, *run.plan.run.reward_models]
    benchmark_cards = [card for card in cards if card.benchmark == benchmark]
    of_tasks = changed_files(
        run.provenance, (listed_name(path) for card in cards for path in card_paths(run.plan, card))
    )
    if benchmark is None:
        return [
            difference
            for difference in changed_files(run.provenance, run.provenance.differs)
            if difference not in of_tasks
        ]
    return unique(
        difference
        for card in benchmark_cards
        for by in graders
        for difference in changed_files_of_task(run.provenance, run.plan, card, by)
    )


def files_to_notice(run: ReportInput) -> dict[str, str]:
    """Return the files and data of a run that are not as shipped, with the kind of difference.

    In a run of the user's benchmarks alone, their files are left out, since they claim to be nothing else.
    """
    if run.provenance is None:
        return {}
    has_own_benchmarks_alone = not any(
        (paths.RESOURCES / "benchmarks" / benchmark).is_dir() for benchmark in run.plan.benchmarks
    )
    return {
        name: kind
        for name, kind in run.provenance.differs.items()
        if not (has_own_benchmarks_alone and kind == NOT_SHIPPED)
    }


def published_departures(run: ReportInput) -> list[str]:
    """List the run's departures from the published configuration, such as sampled items.

    Changed cards and prompts are left out; see `not_as_shipped`.
    """
    plan, edited = run.plan, run.provenance.code.n_edited if run.provenance else 0
    protocols = {name: plan.protocol_of(name) for name in plan.run.tutors if plan.protocol_of(name) != "released"}
    by_commit = [
        name
        for name, dataset in plan.datasets.items()
        if plan.config.data_dir and dataset.published.hub and not dataset.published.sha256
    ]
    return [
        *(["the items are those of the demo, written for this project"] if plan.edition == "demo" else []),
        *([f"a sample of {plan.run.limit} items per task"] if plan.run.limit else []),
        *(f"{display_label(plan, name)} uses the protocol {protocol}" for name, protocol in protocols.items()),
        *([f"{edited} file{'' if edited == 1 else 's'} of the code edited"] if edited else []),
        *([f"read from data_dir without a check of the hub's commit: {', '.join(by_commit)}"] if by_commit else []),
    ]


def environment_of(run: ReportInput, light: LightOf) -> Environment:
    """Return the environment of the page's templates, with the filters and functions that templates call."""
    plan = run.plan
    folders = [HERE, *plugin_folders()]
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible_text(value) if isinstance(value, str) else value,
    )
    filters: dict[str, Callable[..., Any]] = {"number": format_number, "metric": metric_title, "plain": number_in_text}
    titles = {(loaded.card.benchmark, loaded.card.task): loaded.card.title for loaded in plan.cards.values()}
    filters["benchmark_title"] = paper_title
    filters["known"] = lambda value: value if value == value else None
    filters["card_title"] = lambda benchmark, task: titles.get((benchmark, task), task)
    filters |= {name: function for _, section in extra_sections() for name, function in section.filters.items()}
    environment.filters |= {**filters, "share": format_share}
    environment.globals |= {
        "label_of": lambda model: display_label(plan, model),
        "light": light,
        "kind_title": verdict_kind_title,
        "kind_on": lambda grader, card, metric=None: kind_on(plan, grader, card, metric),
        "criterion_on": criterion_on,
        "headliner": lambda card: headline_grader(plan, card),
        "why_not_graded": plan.why_not_graded,
        "not_as_shipped": partial(not_as_shipped, run),
        "blind": lambda grader, card: grader in plan.run.judges and plan.is_blind(grader, card),
    }
    return environment


def comparison_of(run: ReportInput, parts: PartRenderer, benchmark: str, cards: list[Card]) -> Mapping[str, Any] | None:
    """Return the comparison of a benchmark's scores with the paper's; None if the paper has no matching table."""
    scores = run.scores.get(benchmark, [])
    return parts.data(
        f"the comparison of {benchmark} with its paper",
        lambda: against_paper(run.plan, run.results, benchmark, cards, scores, run.provenance),
        None,
    )


def task_pages(
    run: ReportInput, parts: PartRenderer, readings: Readings, benchmark: str, cards: list[Card]
) -> list[Page]:
    """Return a page for each task of a benchmark."""
    return [
        page
        for card in cards
        for page in parts.page(
            task_address(card),
            None,
            f"{benchmark}/{card.task}",
            "task",
            partial(task_section, run, readings, card),
        )
    ]


def extra_sections() -> list[tuple[str, Section]]:
    """Return the pages that benchmarks, features and extensions add to the report, with their owners."""
    return [(owner, section) for owner, pages in plugin_objects("section", "PAGES").items() for section in pages]


def pages_of(
    run: ReportInput,
    parts: PartRenderer,
    runtime: pd.DataFrame,
    light: LightOf,
    browsed: Browsed,
    rankings: Rankings,
    lacking: list[str],
) -> list[Page]:
    """Return every page: first the pages in the menu, in its order, then the pages of single tasks.

    browsed: what was counted while the items were written. lacking: lines on missing headline scores.
    """
    plan, results = run.plan, run.results
    selected = selected_cards(plan)
    # The page that such a run opens on has its numbers, and one row is no ranked table.
    is_one_column = len(plan.run.tutors) == 1 and any(section.opens(plan) for _, section in extra_sections())
    first = parts.part(
        "the overview",
        "overview",
        lambda: {
            **overview_section(run, runtime, selected, rankings, lacking),
            "shown": not is_one_column,
            "note": note_of(plan),
        },
    )
    comparisons = {benchmark: comparison_of(run, parts, benchmark, cards) for benchmark, cards in selected.items()}
    papers = [
        parts.part(f"the table of {benchmark}'s paper", "paper", partial(dict[str, Any], table))
        for benchmark, table in comparisons.items()
        if table
    ]
    printed = parts.data("the printed numbers", lambda: printed_numbers_section(run, comparisons), None)
    tasks = [
        page
        for benchmark, cards in selected.items()
        for page in task_pages(run, parts, browsed.readings.get(benchmark, {}), benchmark, cards)
    ]

    def section(name: str, content: Any) -> dict[str, Any] | None:
        return {name: content} if content else None

    return [
        *parts.page(
            "#/", "Overview", "the overview page", "leaderboard",
            lambda: {"first": first, "runtime": runtime.to_dict("records")},
        ),
        *parts.page("#/compare", "Compare", "the comparison of two tutors", "compare",
                    lambda: {"equivalence": plan.config.report.equivalence} if rankings.contrasts else None),
        *parts.page("#/items", "Items", "the items", "items", dict),
        *parts.page("#/trust", "Trust", "the page on trust", "trust",
                    lambda: section("trust", trust_section(run, light, browsed))),
        *parts.page("#/papers", "Against the papers", "the page on the papers", "papers",
                    lambda: {"parts": papers, "printed": printed} if papers or printed else None, WHOLE_RUN),
        *parts.page(PRINTED_PAGE, "Every printed number", "the page on printed numbers", "printed",
                    lambda: section("printed", printed), WHOLE_RUN),
        *(page for owner, extra in extra_sections() for page in parts.page(
            extra.address, extra.menu, f"the page {extra.menu}", extra.template, partial(extra.produce, run),
            None if extra.main else owner if owner in selected else WHOLE_RUN)),
        *parts.page("#/stopping", "Where the run stopped", "the page on the stop", "stopping",
                    lambda: stopping_section(plan, results), WHOLE_RUN),
        *parts.page("#/rewards", "Reward models", "the page on reward models", "graders",
                    lambda: section("graders", grader_section(plan, results)), WHOLE_RUN),
        *parts.page("#/about", "About the numbers", "the page about the numbers", "about",
                    lambda: about_section(run)),
        *tasks,
    ]  # fmt: skip


def stopping_section(plan: Plan, results: Path) -> dict[str, Any] | None:
    """Return the bounds of a run that stops at a width, worst known first; None for any other run."""
    if plan.run.stop_width is None:
        return None
    rows = read_bounds(paths.MEAN_BOUNDS.within(results, benchmark=name) for name in plan.benchmarks)
    ordered = sorted(rows, key=lambda row: (row.low is None, (row.low or 0.0) - (row.high or 0.0)))
    return {"rows": ordered, "lines": stop_lines(rows, plan.run.stop_width)} if rows else None


def note_of(plan: Plan) -> Markup:
    """Return the author's note (`report.note`, Markdown) as HTML. HTML in the note is shown as text."""
    from markdown_it import MarkdownIt

    return Markup(MarkdownIt("commonmark", {"html": False}).disable("image").render(plan.config.report.note or ""))


def run_title(plan: Plan) -> str:
    """Return the heading of a run's page: its title, else its name."""
    return plan.config.report.title or plan.run.name or "Results"


def about_section(run: ReportInput) -> dict[str, Any]:
    """Return the template variables of the page that explains the report's numbers."""
    names = run.plan.run.reward_models[:1]
    return {
        "provenance": run.provenance,
        "reservations": published_departures(run),
        "headline": display_label(run.plan, names[0]) if names else None,
        "states": STATE_TABLE,
    }


def content_policy(style: str, *scripts: str) -> str:
    """Return a content security policy that allows the given style and scripts, and script files beside the page."""
    own_style, own_scripts = policy_hash(style), " ".join(map(policy_hash, scripts))
    return f"default-src 'none'; style-src {own_style}; script-src {own_scripts} 'self' file:; img-src data:"


SCRIPTS = (
    "page.js",
    "grids.js",
    "pictures.js",
    "texts.js",
    "items.js",
    "compare.js",
    "start.js",
)  # joined in this order
DATATABLES = HERE / "vendor/dataTables.min.js"  # DataTables, downloaded by `make vendor`
# Temml sets formulas as MathML, without fonts or styles; markdown-it divides replies into blocks.
TEXT_LIBRARIES = (HERE / "vendor/temml.min.js", HERE / "vendor/markdown-it.umd.min.js")


def embedded_library(path: Path) -> str:
    """Return a library without signs that would end a script of the page, or that the page would make visible."""
    code = path.read_text(encoding="utf-8").replace("<!--", "\\x3c!--")
    hidden = {sign for sign in set(code) - {"\n"} if visible_text(sign) != sign}
    return code.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in hidden})


def write_contrasts(contrasts: list[Contrast], values: HeadlineValues, folder: Path, most: float) -> dict[str, Any]:
    """Return the data of the differences between tutors. If its rows exceed `most` bytes, write a file per tutor.

    In that case, the returned data contains no rows, and `beside` maps each tutor to its file.
    """
    described = compact_contrasts(contrasts, values)
    if len(script_safe_json(described["rows"])) <= most:
        return described
    files = {}
    for place, tutor in enumerate(described["tutors"]):
        rows = [row for row in described["rows"] if place in row[:2]]
        name = f"differences-{place + 1}.js"
        with atomic_file(folder / name) as handle:
            handle.write(f"contrasts({script_safe_json(tutor)}, {script_safe_json(rows)});\n")
        files[tutor] = f"{folder.name}/{name}"
    return {**described, "rows": [], "beside": files}


def task_sizes(plan: Plan, results: Path) -> dict[tuple[str, str], int]:
    """Return the number of items of each selected task, by benchmark and task."""
    cards = [loaded.card for loaded in plan.cards.values()]
    return {
        (card.benchmark, card.task): sum(not item.repeat for item in items_of_task(results, card.benchmark, card.task))
        for card in cards
    }


def further_pages(pages: Iterable[Page], selected: Mapping[str, Sequence[Card]]) -> list[tuple[str, list[Link]]]:
    """Return the links to the pages outside the main menu, grouped under the run and under each benchmark's title."""
    links: dict[str, list[Link]] = {name: [] for name in (WHOLE_RUN, *selected)}
    for page in pages:
        if page.group is not None:
            links[page.group].append((page.address, str(page.menu)))
    for benchmark, cards in selected.items():
        links[benchmark] += [(task_address(card), card.title) for card in cards]
    titles = {WHOLE_RUN: "This run", **{name: paper_title(name) for name in selected}}
    return [(titles[group], group_links) for group, group_links in links.items() if group_links]


def task_address(card: Card) -> str:
    """Return the address of a task's page."""
    return f"#/task/{card.benchmark}/{card.task}"


def headline_values(run: ReportInput) -> HeadlineValues:
    """Return the values of the headline metrics by benchmark, task, scoring and tutor."""
    return {
        (benchmark, score.task, score.scoring, score.tutor): score.value
        for benchmark, scores in run.scores.items()
        for score in scores
        if score.headline
    }


def names_for_scripts(plan: Plan) -> dict[str, Any]:
    """Return the names, titles and settings of a run that the page's scripts show."""
    cards = {f"{card.benchmark}/{card.task}": card for own_cards in selected_cards(plan).values() for card in own_cards}
    graders = (*plan.run.judges, *plan.run.reward_models)
    return {
        "labels": {name: visible_text(display_label(plan, name)) for name in tutors_in_order(plan)},
        "titles": {task: card.title for task, card in cards.items()},
        "sizes": {task: card.items for task, card in cards.items()},
        "names": {benchmark: paper_title(benchmark) for benchmark in plan.benchmarks},
        "desired": desired_labels(plan),
        "criteria": criteria_words(plan),
        "baselines": [name for name in plan.tutors if isinstance(plan.models[name], BaselineModel)],
        "graders": {name: visible_text(display_label(plan, name)) for name in graders},
        "equivalence": plan.config.report.equivalence,
    }


def ranked_with_chips(run: ReportInput, light: LightOf, lacking: list[str]) -> Rankings:
    """Return the rankings of a run's tutors, with the chips of its first screen under the robust scoring."""
    rankings = rank_tutors(run.plan, run.results, run.scores, light)
    robust = rankings.by_scoring["robust"]
    chips = chips_of(run, robust, selected_cards(run.plan), light, lacking)
    return rankings._replace(by_scoring={**rankings.by_scoring, "robust": robust.model_copy(update={"chips": chips})})


def render_page(run: ReportInput, runtime: pd.DataFrame, items: Path) -> RenderedPage:
    """Render the whole page as one HTML document. items: folder beside the page for data that is too large to embed."""
    plan = run.plan
    light = light_lookup(plan, run.results)
    most = plan.config.report.items_mb * 2**20
    environment = environment_of(run, light)
    shared = {
        "config": plan.config,
        "scorings": SCORINGS,
        "all_differs": files_to_notice(run),
        "run_title": run_title(plan),
        "start": next((section.address for _, section in extra_sections() if section.opens(run.plan)), "#/"),
    }
    if not asks_models(run) and papers_of(run):
        shared["start"] = PRINTED_PAGE  # what the run was made for; its recorded tutors are a by-product
    parts = PartRenderer(environment, shared)
    browsed = parts.data("the items of the browser", lambda: write_items(plan, run.results, items, most), NO_ITEMS)
    run = run._replace(
        unanswered=parts.data("the tutors that did not answer", lambda: list(poorly_answered(plan, run.results)), []),
        unheeded=parts.data(
            "the silent changes of endpoints",
            lambda: unhandled_changes(plan, latest_spending(paths.JOURNALS.within(run.results))),
            [],
        ),
        sizes=parts.data("the numbers of items", lambda: task_sizes(plan, run.results), {}),
        costs=parts.data("the cost of judging", lambda: cost_rows(plan, run.results), []),
    )
    selected = selected_cards(plan)
    lacking: list[str] = parts.data("the missing scores", lambda: missing_lines(plan, selected, run.scores), [])
    rankings = parts.data("the ranking", lambda: ranked_with_chips(run, light, lacking), NO_RANKINGS)
    compare = parts.data(
        "the differences between tutors",
        lambda: write_contrasts(rankings.contrasts, headline_values(run), items, min(most, MOST_CONTRASTS)),
        compact_contrasts([], {}),
    )
    table_names: Counter[str] = Counter()
    figure_names: Counter[str] = Counter()
    pages: list[Page] = []
    tables: dict[str, pd.DataFrame] = {}
    figures: list[ExportedFigure] = []
    for page in pages_of(run, parts, runtime, light, browsed, rankings, lacking):
        read = partial(exported_tables, page, table_names)
        exported: list[ExportedTable] = parts.data(f"the tables of {page.address}", read, [])
        pages.append(with_links(page, exported))
        figures += parts.data(f"the pictures of {page.address}", partial(exported_figures, page, figure_names), [])
        tables |= {table.name: table.rows for table in exported}
    models = {name: plan.models[name] for name in plan.tutors}
    robust = rankings.by_scoring.get("robust")
    ordered = [row.tutor for row in robust.tutors if row.tutor in compare["tutors"]] if robust else []
    leading = unique([*ordered, *compare["tutors"]])
    data = {**browsed.data, **names_for_scripts(plan), "compare": compare, "leading": leading}
    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    grid = DATATABLES.read_text(encoding="utf-8")
    texts = "\n".join(map(embedded_library, TEXT_LIBRARIES))
    html = environment.get_template("page.html.jinja").render(
        **shared,
        policy=content_policy(style, grid, script, texts),
        grid=grid,
        texts=texts,
        models=models,
        absent=[display_label(plan, name) for name in tutors_without_scores(plan, run.scores)],
        pages=pages,
        further=further_pages(pages, selected),
        problems=parts.problems,
        style=style,
        script=script,
        data=script_safe_json(data),
    )
    return RenderedPage(html, parts.problems, tables, figures, rankings)
