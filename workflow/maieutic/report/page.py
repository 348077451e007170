"""The report page: what each of its parts contains, and the order of its pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
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
from maieutic.report.browser import NO_ITEMS, GradePass, Readings, browse, desired_labels, pass_grades, write_items
from maieutic.report.comparison import against_paper
from maieutic.report.contrasts import Contrast, Ranks, by_task, compact_contrasts, ranks
from maieutic.report.exports import ExportedFigure, ExportedTable, exported_figures, exported_tables, with_links
from maieutic.report.figures import chart_library, interval_chart, outcome_chart, value_chart
from maieutic.report.graders import grader_section
from maieutic.report.overview import Claim, claim_of, overview_section, silent_tutors
from maieutic.report.printed_numbers import printed_numbers_section
from maieutic.report.sections import WHOLE_RUN, Page, PartRenderer, Problem, ReportInput, Section
from maieutic.report.tables import (
    display_label,
    exceeds_doubt,
    format_share,
    is_silent,
    items_of_task,
    metric_title,
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
from maieutic.report.trust import cost_rows, trust_section
from maieutic.scores.printed import paper_title, printed_values

HERE = Path(__file__).parent
ScoresByTag = Mapping[str, list[ReportedScore]]  # benchmark -> scores on subsets of items that share a tag
Link = tuple[str, str]  # address and text
HeadlineValues = Mapping[tuple[str, str, str, str], float | None]  # (benchmark, task, scoring, tutor) -> value
# Maximum size, in bytes, of the differences embedded in the page. A browser parses them before it renders anything.
MOST_CONTRASTS = 1 << 21
MOST_ROWS = 1500  # maximum number of rows of a table: a browser takes seconds to render more
OUTCOMES = {"right": "right", "wrong": "wrong", "none": "no answer"}


class RenderedPage(NamedTuple):
    """The rendered page, with the page's failed parts, tables (by file name) and pictures."""

    html: str
    problems: list[Problem]
    tables: dict[str, pd.DataFrame]
    figures: list[ExportedFigure]


def tutors_in_order(plan: Plan) -> list[str]:
    """Return the run's tutors in page order: ordinary tutors, then trivial ones, then the human reference."""
    ceilings = {loaded.card.baselines.ceiling for cards in plan.benchmarks.values() for loaded in cards}
    return sorted(
        plan.tutors,
        key=lambda name: (name in ceilings, isinstance(plan.models[name], BaselineModel)),
    )


ONLY_RANK = Ranks(1, 1, 1)
RanksOf = Mapping[tuple[str, str], Mapping[str, Ranks]]  # (task, scoring) -> tutor -> range of ranks


def leaderboard(
    plan: Plan, cards: list[Card], scores: list[ReportedScore], scoring: str, ranked: RanksOf | None = None
) -> list[dict[str, Any]]:
    """Return a row per tutor with a cell per task. The best tutor on each task is marked; it is never a baseline.

    ranked: range of each tutor's ranks, by task and scoring.
    """
    ranked = ranked or {}
    headlines = [score for score in scores if score.headline or score.withheld]
    by_cell = {(score.tutor, score.task): score for score in headlines if score.scoring == scoring}
    # The share of readable replies is the same under both scorings, and only scores under `robust` record the share.
    readable = {(score.tutor, score.task): score.readable for score in headlines if score.scoring == "robust"}
    best = {
        card.task: best_tutor(plan, card, by_cell, readable, ranked.get((card.task, scoring), {})) for card in cards
    }
    rows = []
    for model in tutors_in_order(plan):
        entry = plan.models[model]
        baseline = isinstance(entry, BaselineModel)
        cells = [by_cell.get((model, card.task)) for card in cards]
        if baseline and not any(cells):  # skip a baseline that answers only other benchmarks' tasks
            continue
        rows.append(
            {
                "name": model,
                "label": display_label(plan, model),
                "group": entry.group,
                "protocol": protocol if (protocol := plan.protocol_of(model)) != plan.run.protocol else None,
                "baseline": baseline,
                "absent": not any(score.tutor == model for score in scores),
                "cells": [
                    {
                        "score": score,
                        "not_asked": plan.why_not_answerable(card, model),
                        "best": model == best[card.task],
                        "readable": readable.get((model, card.task)),
                        "silent": is_silent(plan, readable.get((model, card.task))) or (score and score.withheld),
                        "amber": score is not None and exceeds_doubt(score),
                        "at_floor": not baseline and at_floor(score),
                        "ranks": ranked.get((card.task, scoring), {}).get(model),
                    }
                    for card, score in zip(cards, cells, strict=True)
                ],
            }
        )
    return rows


def best_tutor(
    plan: Plan,
    card: Card,
    by_cell: Mapping[tuple[str, str], ReportedScore],
    readable: Mapping[tuple[str, str], float | None],
    ranked: Mapping[str, Ranks],
) -> str | None:
    """Return the tutor to mark as best in a task's column; None if no tutor qualifies.

    The best tutor is not a baseline, its whole interval is above the floor, enough of its replies are readable, and it
    is better than every other tutor of the run by the paired test with Holm's correction. ranked: ranks by this test.
    """
    rivals = [
        model
        for (model, task), score in by_cell.items()
        if task == card.task and score.headline and score.value is not None
        if not isinstance(plan.models[model], BaselineModel)
    ]
    first = [model for model in rivals if ranked.get(model, ONLY_RANK)[:2] == (1, 1)]
    if len(first) != 1 or (len(rivals) > 1 and first[0] not in ranked):
        return None
    [best] = first
    score, low = by_cell[best, card.task], by_cell[best, card.task].low
    if is_silent(plan, readable.get((best, card.task))) or low is None:
        return None
    return None if score.floor is not None and low <= score.floor else best


def at_floor(score: ReportedScore | None) -> bool:
    """Return True if a score is not above the floor, which means that a trivial tutor does as well."""
    return score is not None and score.value is not None and score.floor is not None and score.value <= score.floor


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
        "matrix": judged_matrix(plan, card, scores),
        "blind_judges": [name for name in plan.judges_of_card(card) if plan.is_blind(name, card)],
        "differs": unique(
            difference for grader in graders for difference in changed_files_of_task(run.provenance, plan, card, grader)
        ),
    }


def unique(names: Iterable[str]) -> list[str]:
    """Return the distinct names in order of first appearance."""
    return list(dict.fromkeys(names))


def judged_matrix(plan: Plan, card: Card, scores: list[ReportedScore]) -> dict[str, Any] | None:
    """Return the first judge's scores by tutor and dimension; None for a task without a judge."""
    if JUDGE not in card.graders:
        return None
    judge = plan.judges_of_card(card)[0]
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
            "cells": [by_cell.get((model, name)) for name in metrics],
        }
        for model in tutors_in_order(plan)
        if any((model, name) in by_cell for name in metrics)
    ]
    criteria = {metric_title(name): card.metrics[name].criterion for name in metrics}
    return {"judge": judge, "metrics": criteria, "rows": rows} if rows else None


def intervals_figure(plan: Plan, card: Card, scores: list[ReportedScore]) -> str:
    """Return a chart of each tutor's value of a task's headline metric, or an empty string if there are no values."""
    rows = [
        {
            "label": display_label(plan, score.tutor),
            **score.model_dump(include={"scoring", "value", "low", "high", "floor", "ceiling"}),
        }
        for score in scores
        if score.headline and score.value is not None
    ]
    return interval_chart(pd.DataFrame(rows), metric_title(card.headline)) if rows else ""


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
                {"label": label, "outcome": outcome, "share": outcomes.get(kind, 0) / total, "rank": rank}
                for rank, (kind, outcome) in enumerate(OUTCOMES.items())
            ]
    if spread:
        return value_chart(spread, f"{metric_title(card.headline)} of each item (robust)"), True
    return outcome_chart(pd.DataFrame(shares)) if shares else "", False


def rank_ranges(contrasts: list[Contrast], benchmark: str) -> RanksOf:
    """Return each tutor's range of ranks on each task of a benchmark, by task and scoring."""
    return {
        (task, scoring): ranks(of_task)
        for scoring in SCORINGS
        for (name, task), of_task in by_task(contrasts, scoring).items()
        if name == benchmark
    }


def whisker_ranges(cards: list[Card], scores: list[ReportedScore], scoring: str) -> dict[str, tuple[float, float]]:
    """Return the scale on which each task's intervals are drawn: from 0 to 1, or wider to include all values."""
    ends = {card.task: (0.0, 1.0) for card in cards}
    for score in scores:
        if score.headline and score.scoring == scoring and score.task in ends:
            values = [value for value in (score.low, score.value, score.high) if value is not None]
            low, high = ends[score.task]
            ends[score.task] = min([low, *values]), max([high, *values])
    return ends


def board_section(run: ReportInput, benchmark: str, cards: list[Card], contrasts: list[Contrast]) -> dict[str, Any]:
    """Return the template variables of one benchmark's leaderboard, under both scorings."""
    scores = run.scores.get(benchmark, [])
    ranked = rank_ranges(contrasts, benchmark)
    return {
        "name": benchmark,
        "spans": {scoring: whisker_ranges(cards, scores, scoring) for scoring in SCORINGS},
        "cards": cards,
        "skills": skill_spans(cards),
        "unjudged": [card.title for card in cards if card.task in run.plan.tasks_without_rubric.get(benchmark, [])],
        "boards": {scoring: leaderboard(run.plan, cards, scores, scoring, ranked) for scoring in SCORINGS},
        "limits": {scoring: column_limits(cards, scores, scoring) for scoring in SCORINGS},
        "size": sum(run.sizes.get((benchmark, card.task), 0) for card in cards),
        "differs": {
            card.task: changed_files_of_task(run.provenance, run.plan, card, headline_grader(run.plan, card))
            for card in cards
        },
    }


def in_paper_order(benchmark: str, cards: list[Card]) -> list[Card]:
    """Sort cards like the columns of the paper's table, with other tasks last. Tasks of one skill stay together."""
    columns = list(dict.fromkeys(cell.task for cell in printed_values(benchmark)))
    place = {card.task: columns.index(card.task) if card.task in columns else len(columns) for card in cards}
    skills = {card.skill: min(place[other.task] for other in cards if other.skill == card.skill) for card in cards}
    return sorted(cards, key=lambda card: (skills[card.skill], card.skill, place[card.task], card.task))


def skill_spans(cards: list[Card]) -> list[tuple[str, int]]:
    """Return each skill with its number of cards. The skill's heading in the table spans this number of columns."""
    spans: dict[str, int] = {}
    for card in cards:
        spans[card.skill] = spans.get(card.skill, 0) + 1
    return list(spans.items())


def column_limits(
    cards: list[Card], scores: list[ReportedScore], scoring: str
) -> list[tuple[float | None, float | None]]:
    """Return the floor and ceiling of each card's headline score, each None where it is unknown."""
    by_task = {score.task: score for score in scores if score.headline and score.scoring == scoring}
    return [
        (by_task[card.task].floor, by_task[card.task].ceiling) if card.task in by_task else (None, None)
        for card in cards
    ]


def format_number(value: float | None, digits: int = 2) -> str:
    """Format a number for a table; None becomes a dash."""
    return "\u2013" if value is None else f"{value:.{digits}f}"


def plain_number(value: float | None) -> str:
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
    filters: dict[str, Callable[..., Any]] = {"number": format_number, "metric": metric_title, "plain": plain_number}
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


def board_of(
    run: ReportInput, parts: PartRenderer, benchmark: str, cards: list[Card], contrasts: list[Contrast]
) -> Markup:
    """Render the leaderboard of one benchmark."""
    title = f"the leaderboard of {benchmark}"
    return parts.part(title, "board", lambda: board_section(run, benchmark, cards, contrasts))


def comparison_of(run: ReportInput, parts: PartRenderer, benchmark: str, cards: list[Card]) -> Mapping[str, Any] | None:
    """Return the comparison of a benchmark's scores with the paper's; None if the paper has no matching table."""
    scores = run.scores.get(benchmark, [])
    return parts.data(
        f"the comparison of {benchmark} with its paper",
        lambda: against_paper(run.plan, run.results, benchmark, cards, scores, run.provenance),
        None,
    )


def task_pages(
    run: ReportInput, parts: PartRenderer, grades: Callable[[str], GradePass], benchmark: str, cards: list[Card]
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
            partial(lambda card: task_section(run, grades(benchmark).readings, card), card),
        )
    ]


def extra_sections() -> list[tuple[str, Section]]:
    """Return the pages that benchmarks, features and extensions add to the report, with their owners."""
    return [(owner, section) for owner, pages in plugin_objects("section", "PAGES").items() for section in pages]


def selected_cards(plan: Plan) -> dict[str, list[Card]]:
    """Return each benchmark's selected tasks: benchmarks in the run file's order, tasks in the paper's order."""
    named = [name.split("/")[0] for name in plan.run.tasks]
    order = sorted(plan.benchmarks, key=lambda name: named.index(name) if name in named else len(named))
    return {name: in_paper_order(name, [loaded.card for loaded in plan.benchmarks[name]]) for name in order}


def pages_of(
    run: ReportInput,
    parts: PartRenderer,
    runtime: pd.DataFrame,
    light: LightOf,
    grades: Callable[[str], GradePass],
    contrasts: list[Contrast],
    claim: Claim | None,
    by_tag: ScoresByTag,
) -> list[Page]:
    """Return every page: first the pages in the menu, in its order, then the pages of single tasks.

    grades: cached function that returns a benchmark's grades. contrasts: differences between tutors. claim: comparison
    of the two leading tutors, None for fewer than two. by_tag: scores by tag.
    """
    plan, results = run.plan, run.results
    selected = selected_cards(plan)
    first = parts.part(
        "the overview", "overview", lambda: overview_section(run, light, runtime, selected, by_tag, claim, contrasts)
    )
    is_one_column = len(plan.run.tutors) == 1 and any(section.opens(plan) for _, section in extra_sections())
    boards = [
        board_of(run, parts, benchmark, cards, contrasts)
        for benchmark, cards in selected.items()
        if not is_one_column  # the opening page has its numbers, and one row is no leaderboard
    ]
    comparisons = {benchmark: comparison_of(run, parts, benchmark, cards) for benchmark, cards in selected.items()}
    papers = [
        parts.part(f"the table of {benchmark}'s paper", "paper", partial(dict[str, Any], table))
        for benchmark, table in comparisons.items()
        if table
    ]
    printed = parts.data("the printed numbers", lambda: printed_numbers_section(run, comparisons), None)
    tasks = [page for benchmark, cards in selected.items() for page in task_pages(run, parts, grades, benchmark, cards)]

    def section(name: str, content: Any) -> dict[str, Any] | None:
        return {name: content} if content else None

    return [
        *parts.page(
            "#/", "Overview", "the overview page", "leaderboard",
            lambda: {"first": first, "parts": boards, "runtime": runtime.to_dict("records"), "note": note_of(plan)},
        ),
        *parts.page("#/compare", "Compare", "the comparison of two tutors", "compare",
                    lambda: {"equivalence": plan.config.report.equivalence} if contrasts else None),
        *parts.page("#/items", "Items", "the items", "items", dict),
        *parts.page("#/trust", "Trust", "the page on trust", "trust",
                    lambda: section("trust", trust_section(run, light))),
        *parts.page("#/papers", "Against the papers", "the page on the papers", "papers",
                    lambda: {"parts": papers, "printed": printed} if papers or printed else None, WHOLE_RUN),
        *parts.page("#/printed", "Every printed number", "the page on printed numbers", "printed",
                    lambda: section("printed", printed), WHOLE_RUN),
        *(page for owner, extra in extra_sections() for page in parts.page(
            extra.address, extra.menu, f"the page {extra.menu}", extra.template, partial(extra.produce, run),
            None if extra.main else owner if owner in selected else WHOLE_RUN)),
        *parts.page("#/rewards", "Reward models", "the page on reward models", "graders",
                    lambda: section("graders", grader_section(plan, results)), WHOLE_RUN),
        *parts.page("#/about", "About the numbers", "the page about the numbers", "about",
                    lambda: about_section(run)),
        *tasks,
    ]  # fmt: skip


def note_of(plan: Plan) -> Markup:
    """Return the author's note (`report.note`, Markdown) as HTML. HTML in the note is shown as text."""
    from markdown_it import MarkdownIt

    return Markup(MarkdownIt("commonmark", {"html": False}).disable("image").render(plan.config.report.note or ""))


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


SCRIPTS = ("page.js", "grids.js", "pictures.js", "items.js", "compare.js", "start.js")  # joined in this order
DATATABLES = HERE / "vendor/dataTables.min.js"  # DataTables, downloaded by `make vendor`


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
        "graders": {name: visible_text(display_label(plan, name)) for name in graders},
        "equivalence": plan.config.report.equivalence,
    }


def render_page(
    run: ReportInput, runtime: pd.DataFrame, contrasts: list[Contrast], by_tag: ScoresByTag, items: Path
) -> RenderedPage:
    """Render the whole page as one HTML document.

    contrasts: differences between the run's tutors. by_tag: scores by tag. items: folder beside the page for data that
    is too large to embed.
    """
    plan = run.plan
    light = light_lookup(plan, run.results)
    grades = cache(partial(pass_grades, plan, run.results))
    most = plan.config.report.items_mb * 2**20
    environment = environment_of(run, light)
    shared = {
        "config": plan.config,
        "scorings": SCORINGS,
        "all_differs": files_to_notice(run),
        "start": next((section.address for _, section in extra_sections() if section.opens(run.plan)), "#/"),
    }
    parts = PartRenderer(environment, shared)
    # Prepare the item browser first. No other page needs the grades of each reply, which the browser frees after use.
    browsed = parts.data(
        "the items of the browser",
        lambda: write_items(browse(plan, run.results, grades), items, most),
        NO_ITEMS,
    )
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
    claim = parts.data(
        "the comparison of the two leading tutors",
        lambda: claim_of(plan, contrasts, silent_tutors(plan, run.unanswered)),
        None,
    )
    compare = parts.data(
        "the differences between tutors",
        lambda: write_contrasts(contrasts, headline_values(run), items, min(most, MOST_CONTRASTS)),
        compact_contrasts([], {}),
    )
    table_names: Counter[str] = Counter()
    figure_names: Counter[str] = Counter()
    pages: list[Page] = []
    tables: dict[str, pd.DataFrame] = {}
    figures: list[ExportedFigure] = []
    for page in pages_of(run, parts, runtime, light, grades, contrasts, claim, by_tag):
        read = partial(exported_tables, page, table_names)
        exported: list[ExportedTable] = parts.data(f"the tables of {page.address}", read, [])
        pages.append(with_links(page, exported))
        figures += parts.data(f"the pictures of {page.address}", partial(exported_figures, page, figure_names), [])
        tables |= {table.name: table.rows for table in exported}
    models = {name: plan.models[name] for name in plan.tutors}
    selected = selected_cards(plan)
    data = {**browsed, **names_for_scripts(plan), "compare": compare, "leading": claim[:2] if claim else None}
    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    grid = DATATABLES.read_text(encoding="utf-8")
    charts = chart_library() if contrasts else ""
    html = environment.get_template("page.html.jinja").render(
        **shared,
        policy=content_policy(style, grid, script, *([charts] if charts else [])),
        grid=grid,
        charts=charts,
        models=models,
        absent=[display_label(plan, name) for name in tutors_without_scores(plan, run.scores)],
        pages=pages,
        further=further_pages(pages, selected),
        problems=parts.problems,
        style=style,
        script=script,
        data=script_safe_json(data),
    )
    return RenderedPage(html, parts.problems, tables, figures)
