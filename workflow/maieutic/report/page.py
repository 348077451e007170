"""The page: what each of its parts is given, and in which order they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from maieutic.config.cards import JUDGE, Card
from maieutic.config.models import BaselineModel
from maieutic.core import paths
from maieutic.core.files import whole_file
from maieutic.core.ledger import latest_of
from maieutic.core.plugins import parts as plugged_in
from maieutic.core.plugins import places
from maieutic.core.records import SCORINGS, ReportedScore
from maieutic.core.visible import embedded, policy_source, visible
from maieutic.plan.plan import Plan
from maieutic.plan.provenance import card_paths, differences, told
from maieutic.plan.telling import unanswered, unheeded
from maieutic.report.browser import NO_ITEMS, GradePass, Readings, browse, pass_grades, write_items
from maieutic.report.comparison import against_paper
from maieutic.report.contrasts import Contrast, Ranks, by_task, for_page, ranks
from maieutic.report.exports import Exported, Picture, exported_figures, exported_tables, with_links
from maieutic.report.figures import chart_library, interval_chart, outcome_chart, value_chart
from maieutic.report.graders import grader_section
from maieutic.report.overview import Claim, claim_of, overview_section, silent_tutors
from maieutic.report.sections import Page, Parts, Problem, Run, Section
from maieutic.report.tables import is_silent, items_of_task, label_of
from maieutic.report.traffic_light import LightOf, criterion_on, headliner, kind_on, lights, title_of
from maieutic.report.trust import trust_section
from maieutic.scores.printed import paper_title, printed_values

HERE = Path(__file__).parent
ByTag = Mapping[str, list[ReportedScore]]  # the scores by tag of each benchmark that has some
Values = Mapping[tuple[str, str, str, str], float | None]  # by benchmark, task, scoring and tutor
MOST_CONTRASTS = 1 << 21  # bytes of differences in the page itself: a browser reads them before it shows anything
MOST_ROWS = 1500  # of one table: a browser takes seconds for more
OUTCOMES = {"right": "right", "wrong": "wrong", "none": "no answer"}


class Made(NamedTuple):
    """The finished page, the parts that could not be made, its tables by the names of their files, its pictures."""

    html: str
    problems: list[Problem]
    tables: dict[str, pd.DataFrame]
    figures: list[Picture]


def tutors_in_order(plan: Plan) -> list[str]:
    """Tutors first, then the trivial ones, the human reference last."""
    ceilings = {loaded.card.baselines.ceiling for loadeds in plan.benchmarks.values() for loaded in loadeds}
    return sorted(
        plan.tutors,
        key=lambda name: (name in ceilings, isinstance(plan.models[name], BaselineModel)),
    )


ALONE = Ranks(1, 1, 1)
RanksOf = Mapping[tuple[str, str], Mapping[str, Ranks]]  # by task and scoring, of each tutor


def leaderboard(
    plan: Plan, cards: list[Card], scores: list[ReportedScore], scoring: str, ranked: RanksOf | None = None
) -> list[dict[str, Any]]:
    """One row a tutor, one cell a task; the best tutor that is no baseline is marked in each column."""
    ranked = ranked or {}
    headlines = [score for score in scores if score.headline]
    by_cell = {(score.tutor, score.task): score for score in headlines if score.scoring == scoring}
    # What can be read of a reply is the same under both scorings, and only robust says it.
    readable = {(score.tutor, score.task): score.readable for score in headlines if score.scoring == "robust"}
    best = {card.task: best_of(plan, card, by_cell, readable, ranked.get((card.task, scoring), {})) for card in cards}
    rows = []
    for model in tutors_in_order(plan):
        entry = plan.models[model]
        baseline = isinstance(entry, BaselineModel)
        cells = [by_cell.get((model, card.task)) for card in cards]
        if baseline and not any(cells):  # a floor of other benchmarks' tasks
            continue
        rows.append(
            {
                "name": model,
                "label": label_of(plan, model),
                "group": entry.group,
                "protocol": protocol if (protocol := plan.protocol_of(model)) != plan.run.protocol else None,
                "baseline": baseline,
                "absent": not any(score.tutor == model for score in scores),
                "cells": [
                    {
                        "score": score,
                        "not_asked": plan.why_not_asked(card, model),
                        "best": model == best[card.task],
                        "readable": readable.get((model, card.task)),
                        "silent": is_silent(plan, readable.get((model, card.task))),
                        "at_floor": not baseline and at_floor(score),
                        "ranks": ranked.get((card.task, scoring), {}).get(model),
                    }
                    for card, score in zip(cards, cells, strict=True)
                ],
            }
        )
    return rows


def best_of(
    plan: Plan,
    card: Card,
    by_cell: Mapping[tuple[str, str], ReportedScore],
    readable: Mapping[tuple[str, str], float | None],
    ranked: Mapping[str, Ranks],
) -> str | None:
    """The tutor that stands out in a task's column; None where none does.

    It is no baseline, is above the floor with its whole interval, is read often enough, and is better than each other
    tutor of the run by the paired test with Holm's correction. ranked: by that test.
    """
    rivals = [
        model
        for (model, task), score in by_cell.items()
        if task == card.task and score.value is not None and not isinstance(plan.models[model], BaselineModel)
    ]
    first = [model for model in rivals if ranked.get(model, ALONE)[:2] == (1, 1)]
    if len(first) != 1 or (len(rivals) > 1 and first[0] not in ranked):
        return None
    [best] = first
    score, low = by_cell[best, card.task], by_cell[best, card.task].low
    if is_silent(plan, readable.get((best, card.task))) or low is None:
        return None
    return None if score.floor is not None and low <= score.floor else best


def at_floor(score: ReportedScore | None) -> bool:
    """Whether a trivial tutor does as well."""
    return score is not None and score.value is not None and score.floor is not None and score.value <= score.floor


def task_section(run: Run, readings: Readings, card: Card) -> dict[str, Any]:
    """What the page shows of one task."""
    plan = run.plan
    judges = plan.judges_of_replies  # both scorings show a judge's verdicts as they are: once is enough
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
        "headline": shown_metric(card.headline),
        "matrix": judged_matrix(plan, card, scores),
        "blind_judges": [name for name in plan.judges_of_card(card) if plan.is_blind(name, card)],
        "differs": unique(
            difference for grader in graders for difference in differences(run.provenance, plan, card, grader)
        ),
    }


def unique(names: Iterable[str]) -> list[str]:
    """Each name once, in order."""
    return list(dict.fromkeys(names))


def judged_matrix(plan: Plan, card: Card, scores: list[ReportedScore]) -> dict[str, Any] | None:
    """What the first judge says of every tutor, by dimension; None for a task that no judge judges."""
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
            "label": label_of(plan, model),
            "baseline": isinstance(plan.models[model], BaselineModel),
            "cells": [by_cell.get((model, name)) for name in metrics],
        }
        for model in tutors_in_order(plan)
        if any((model, name) in by_cell for name in metrics)
    ]
    shown = {shown_metric(name): card.metrics[name].criterion for name in metrics}
    return {"judge": judge, "metrics": shown, "rows": rows} if rows else None


def intervals_figure(plan: Plan, card: Card, scores: list[ReportedScore]) -> str:
    """The headline metric of every tutor."""
    rows = [
        {
            "label": label_of(plan, score.tutor),
            **score.model_dump(include={"scoring", "value", "low", "high", "floor", "ceiling"}),
        }
        for score in scores
        if score.headline and score.value is not None
    ]
    return interval_chart(pd.DataFrame(rows), shown_metric(card.headline)) if rows else ""


def outcomes_figure(plan: Plan, readings: Readings, card: Card) -> tuple[str, bool]:
    """How the readings are spread: right and wrong, or values; and whether it is values."""
    shares: list[dict[str, Any]] = []
    spread: dict[str, list[float]] = {}
    for model in (name for name in tutors_in_order(plan) if plan.belongs(card, name)):
        outcomes, values = readings.get((model, card.task), ({}, []))
        label = label_of(plan, model)
        if "value" in outcomes:
            spread[label] = values
        elif total := sum(outcomes.values()):
            shares += [
                {"label": label, "outcome": shown, "share": outcomes.get(kind, 0) / total, "rank": rank}
                for rank, (kind, shown) in enumerate(OUTCOMES.items())
            ]
    if spread:
        return value_chart(spread, f"{shown_metric(card.headline)} of each item (robust)"), True
    return outcome_chart(pd.DataFrame(shares)) if shares else "", False


def rank_ranges(found: list[Contrast], benchmark: str) -> RanksOf:
    """Where each tutor may rank on the tasks of a benchmark."""
    return {
        (task, scoring): ranks(own)
        for scoring in SCORINGS
        for (of, task), own in by_task(found, scoring).items()
        if of == benchmark
    }


def spans(cards: list[Card], scores: list[ReportedScore], scoring: str) -> dict[str, tuple[float, float]]:
    """The stretch that the whiskers of each task's column are drawn on: from 0 to 1, or further where values are."""
    ends = {card.task: (0.0, 1.0) for card in cards}
    for score in scores:
        if score.headline and score.scoring == scoring and score.task in ends:
            values = [value for value in (score.low, score.value, score.high) if value is not None]
            low, high = ends[score.task]
            ends[score.task] = min([low, *values]), max([high, *values])
    return ends


def board_section(run: Run, benchmark: str, cards: list[Card], found: list[Contrast]) -> dict[str, Any]:
    """One benchmark's leaderboard, under both scorings."""
    scores = run.scores.get(benchmark, [])
    ranked = rank_ranges(found, benchmark)
    return {
        "name": benchmark,
        "spans": {scoring: spans(cards, scores, scoring) for scoring in SCORINGS},
        "cards": cards,
        "skills": skill_spans(cards),
        "unjudged": [card.title for card in cards if card.task in run.plan.unjudged.get(benchmark, [])],
        "boards": {scoring: leaderboard(run.plan, cards, scores, scoring, ranked) for scoring in SCORINGS},
        "limits": {scoring: limits(cards, scores, scoring) for scoring in SCORINGS},
        "size": sum(len(items_of_task(run.results, benchmark, card.task)) for card in cards),
        "differs": {
            card.task: differences(run.provenance, run.plan, card, headliner(run.plan, card)) for card in cards
        },
    }


def in_paper_order(benchmark: str, cards: list[Card]) -> list[Card]:
    """Cards in the order of the paper's columns; those that it does not print come last, each skill together."""
    columns = list(dict.fromkeys(cell.task for cell in printed_values(benchmark)))
    place = {card.task: columns.index(card.task) if card.task in columns else len(columns) for card in cards}
    skills = {card.skill: min(place[other.task] for other in cards if other.skill == card.skill) for card in cards}
    return sorted(cards, key=lambda card: (skills[card.skill], card.skill, place[card.task], card.task))


def skill_spans(cards: list[Card]) -> list[tuple[str, int]]:
    """The groups of neighbouring columns."""
    spans: dict[str, int] = {}
    for card in cards:
        spans[card.skill] = spans.get(card.skill, 0) + 1
    return list(spans.items())


def limits(cards: list[Card], scores: list[ReportedScore], scoring: str) -> list[tuple[float | None, float | None]]:
    """Floor and ceiling of each column."""
    by_task = {score.task: score for score in scores if score.headline and score.scoring == scoring}
    return [
        (by_task[card.task].floor, by_task[card.task].ceiling) if card.task in by_task else (None, None)
        for card in cards
    ]


SHOWN = {
    "f1": "F1",
    "bleu": "BLEU",
    "damr": "DAMR",
    "mathdial": "MathDial",
    "bridge": "Bridge",
    "mcc": "MCC",
    "mr": "MR",
    "arr": "ARR",
}


def shown_metric(name: str) -> str:
    """A metric's name as people write it."""
    return " ".join(SHOWN.get(word, word) for word in name.split("_"))


def number(value: float | None, digits: int = 2) -> str:
    """A number as tables show it; a dash where there is none."""
    return "\u2013" if value is None else f"{value:.{digits}f}"


def plain_number(value: float | None) -> str:
    """A number without digits that say nothing."""
    return "\u2013" if value is None else f"{value:.2f}".removesuffix(".00")


def share(value: float) -> str:
    """A share as a percentage that is never rounded up: 100 % are all of them."""
    return f"{int(1000 * value + 1e-9) / 10:.1f}".removesuffix(".0") + "\u00a0%"


def not_as_shipped(run: Run, benchmark: str | None = None) -> list[str]:
    """What is not as shipped behind a benchmark's numbers; without one: behind those of the graders."""
    if run.provenance is None:
        return []
    cards = [loaded.card for loadeds in run.plan.benchmarks.values() for loaded in loadeds]
    graders = [None, *run.plan.run.judges, *run.plan.run.reward_models]
    own_cards = [card for card in cards if card.benchmark == benchmark]
    asked = told(run.provenance, (paths.shipped_name(path) for card in cards for path in card_paths(run.plan, card)))
    if benchmark is None:
        return [difference for difference in told(run.provenance, run.provenance.differs) if difference not in asked]
    return unique(
        difference
        for card in own_cards
        for by in graders
        for difference in differences(run.provenance, run.plan, card, by)
    )


def reservations(run: Run) -> list[str]:
    """Why a run whose cards, prompts, rubrics and files are as shipped is not the published configuration in full."""
    plan, edited = run.plan, run.provenance.code.n_edited if run.provenance else 0
    own = {name: plan.protocol_of(name) for name in plan.run.tutors if plan.protocol_of(name) != "released"}
    by_commit = [
        name
        for name, dataset in plan.datasets.items()
        if plan.config.data_dir and dataset.published.hub and not dataset.published.sha256
    ]
    return [
        *(["the items are the demo's, written for this project"] if plan.edition == "demo" else []),
        *([f"a sample of {plan.run.limit} items a task"] if plan.run.limit else []),
        *(f"{label_of(plan, name)} is asked by the protocol {protocol}" for name, protocol in own.items()),
        *([f"{edited} file{'' if edited == 1 else 's'} of the code edited"] if edited else []),
        *([f"read from data_dir, where nothing checks the hub's commit: {', '.join(by_commit)}"] if by_commit else []),
    ]


def environment_of(run: Run, light: LightOf) -> Environment:
    """The templates, with what all of them may call."""
    plan = run.plan
    folders = [HERE, *(HERE.parent / place for place in places())]
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if isinstance(value, str) else value,
    )
    filters: dict[str, Callable[..., Any]] = {"number": number, "metric": shown_metric, "plain": plain_number}
    titles = {(loaded.card.benchmark, loaded.card.task): loaded.card.title for loaded in plan.cards.values()}
    filters["benchmark_title"] = paper_title
    filters["known"] = lambda value: value if value == value else None
    filters["card_title"] = lambda benchmark, task: titles.get((benchmark, task), task)
    filters |= {name: shown for section in sections() for name, shown in section.filters.items()}
    environment.filters |= {**filters, "share": share}
    environment.globals |= {
        "label_of": lambda model: label_of(plan, model),
        "light": light,
        "kind_title": title_of,
        "kind_on": lambda grader, card, metric=None: kind_on(plan, grader, card, metric),
        "criterion_on": criterion_on,
        "headliner": lambda card: headliner(plan, card),
        "why_not_graded": plan.why_not_graded,
        "not_as_shipped": partial(not_as_shipped, run),
        "blind": lambda grader, card: grader in plan.run.judges and plan.is_blind(grader, card),
    }
    return environment


def board_of(run: Run, parts: Parts, benchmark: str, cards: list[Card], found: list[Contrast]) -> Markup:
    """One benchmark's part of the leaderboard."""
    return parts.part(f"the leaderboard of {benchmark}", "board", lambda: board_section(run, benchmark, cards, found))


def paper_of(run: Run, parts: Parts, benchmark: str, cards: list[Card]) -> Markup:
    """One benchmark against its paper; nothing without a table on file."""

    def produce() -> dict[str, Any] | None:
        scores = run.scores.get(benchmark, [])
        return against_paper(run.plan, run.results, benchmark, cards, scores, run.provenance)

    return parts.part(f"{benchmark} against its paper", "paper", produce)


def task_pages(
    run: Run, parts: Parts, grades: Callable[[str], GradePass], benchmark: str, cards: list[Card]
) -> list[Page]:
    """A page for each task of a benchmark."""
    return [
        page
        for card in cards
        for page in parts.page(
            f"#/task/{benchmark}/{card.task}",
            None,
            f"{benchmark}/{card.task}",
            "task",
            partial(lambda card: task_section(run, grades(benchmark).readings, card), card),
        )
    ]


def sections() -> list[Section]:
    """The pages that benchmarks and extensions add, in their order."""
    return [section for pages in plugged_in("section", "PAGES").values() for section in pages]


def selected_cards(plan: Plan) -> dict[str, list[Card]]:
    """The selected tasks of each benchmark: benchmarks in the order of the run file, tasks in that of the paper."""
    named = [name.split("/")[0] for name in plan.run.tasks]
    order = sorted(plan.benchmarks, key=lambda name: named.index(name) if name in named else len(named))
    return {name: in_paper_order(name, [loaded.card for loaded in plan.benchmarks[name]]) for name in order}


def pages_of(
    run: Run,
    parts: Parts,
    runtime: pd.DataFrame,
    light: LightOf,
    grades: Callable[[str], GradePass],
    found: list[Contrast],
    claim: Claim | None,
    by_tag: ByTag,
) -> list[Page]:
    """Every page in the order of the menu; those of single tasks come after it.

    grades: of a benchmark; found, claim: the differences of tutors, and what may be said of two; by_tag: scores by tag.
    """
    plan, results = run.plan, run.results
    selected = selected_cards(plan)
    first = parts.part(
        "the first screen",
        "overview",
        lambda: overview_section(
            plan,
            {name: paper_title(name) for name in selected},
            selected,
            run.scores,
            by_tag,
            claim,
            run.unanswered,
            run.unheeded,
        ),
    )
    boards = [board_of(run, parts, benchmark, cards, found) for benchmark, cards in selected.items()]
    papers = [html for benchmark, cards in selected.items() if (html := paper_of(run, parts, benchmark, cards))]
    tasks = [page for benchmark, cards in selected.items() for page in task_pages(run, parts, grades, benchmark, cards)]

    def section(name: str, made: Any) -> dict[str, Any] | None:
        return {name: made} if made else None

    return [
        *parts.page(
            "#/", "Leaderboard", "the leaderboard", "leaderboard",
            lambda: {"first": first, "parts": boards, "runtime": runtime.to_dict("records")},
        ),
        *parts.page("#/compare", "Compare", "the page of two tutors", "compare",
                    lambda: {"equivalence": plan.config.report.equivalence} if found else None),
        *parts.page("#/papers", "Against the papers", "the page on the papers", "papers",
                    lambda: section("parts", papers)),
        *parts.page("#/trust", "Trust", "the page on trust", "trust",
                    lambda: section("trust", trust_section(plan, results, light))),
        *(page for extra in sections() for page in parts.page(
            extra.address, extra.menu, f"the page {extra.menu}", extra.template, partial(extra.produce, run))),
        *parts.page("#/rewards", "Reward models", "the page on reward models", "graders",
                    lambda: section("graders", grader_section(plan, results))),
        *parts.page("#/items", "Items", "the items", "items", dict),
        *parts.page("#/about", "About the numbers", "the page about the numbers", "about",
                    lambda: about_section(run)),
        *tasks,
    ]  # fmt: skip


def about_section(run: Run) -> dict[str, Any]:
    """How to read the numbers, and what the run was made of."""
    names = run.plan.run.reward_models[:1]
    return {
        "provenance": run.provenance,
        "reservations": reservations(run),
        "headline": label_of(run.plan, names[0]) if names else None,
    }


def policy(style: str, *scripts: str) -> str:
    """The page's content security policy: its own style and scripts by their hashes, and files beside it."""
    own_style, own_scripts = policy_source(style), " ".join(map(policy_source, scripts))
    return f"default-src 'none'; style-src {own_style}; script-src {own_scripts} 'self' file:; img-src data:"


SCRIPTS = ("page.js", "grids.js", "pictures.js", "items.js", "compare.js", "start.js")  # one after the other
GRID = HERE / "vendor/dataTables.min.js"  # DataTables, by `make vendor`


def write_contrasts(found: list[Contrast], values: Values, folder: Path, most: float) -> dict[str, Any]:
    """The differences for the page: all of them, or where they take more than `most` bytes a file a tutor.

    folder: for these files.
    """
    described = for_page(found, values)
    if len(embedded(described["rows"])) <= most:
        return described
    files = {}
    for place, tutor in enumerate(described["tutors"]):
        own = [row for row in described["rows"] if place in row[:2]]
        name = f"differences-{place + 1}.js"
        with whole_file(folder / name) as handle:
            handle.write(f"contrasts({embedded(tutor)}, {embedded(own)});\n")
        files[tutor] = f"{folder.name}/{name}"
    return {**described, "rows": [], "beside": files}


def headline_values(run: Run) -> Values:
    """The headline values by benchmark, task, scoring and tutor."""
    return {
        (benchmark, score.task, score.scoring, score.tutor): score.value
        for benchmark, own in run.scores.items()
        for score in own
        if score.headline
    }


def render_page(run: Run, runtime: pd.DataFrame, found: list[Contrast], by_tag: ByTag, items: Path) -> Made:
    """The whole page as one HTML document.

    found: the differences of the run's tutors; by_tag: its scores by tag; items: the folder beside the page for what is
    too much to be in it.
    """
    plan = run.plan
    light = lights(plan, run.results)
    grades = cache(partial(pass_grades, plan, run.results))
    most = plan.config.report.items_mb * 2**20
    environment = environment_of(run, light)
    shared = {
        "config": plan.config,
        "scorings": SCORINGS,
        "all_differs": run.provenance.differs if run.provenance else {},
    }
    parts = Parts(environment, shared)
    # First, since only the browser needs the grades themselves: the other pages take sums of them.
    browsed = parts.data(
        "the items of the browser",
        lambda: write_items(browse(plan, run.results, grades), items, most),
        NO_ITEMS,
    )
    run = run._replace(
        unanswered=parts.data("the tutors that did not answer", lambda: list(unanswered(plan, run.results)), []),
        unheeded=parts.data(
            "what endpoints changed in silence",
            lambda: unheeded(plan, latest_of(paths.JOURNALS.within(run.results))),
            [],
        ),
    )
    claim = parts.data(
        "what may be said of two tutors", lambda: claim_of(plan, found, silent_tutors(plan, run.unanswered)), None
    )
    compare = parts.data(
        "the page of two tutors",
        lambda: write_contrasts(found, headline_values(run), items, min(most, MOST_CONTRASTS)),
        for_page([], {}),
    )
    named: Counter[str] = Counter()
    pages: list[Page] = []
    tables: dict[str, pd.DataFrame] = {}
    figures: list[Picture] = []
    drawn: Counter[str] = Counter()
    for page in pages_of(run, parts, runtime, light, grades, found, claim, by_tag):
        read = partial(exported_tables, page, named)
        exported: list[Exported] = parts.data(f"the tables of {page.address}", read, [])
        pages.append(with_links(page, exported))
        figures += parts.data(f"the pictures of {page.address}", partial(exported_figures, page, drawn), [])
        tables |= {table.name: table.rows for table in exported}
    models = {name: plan.models[name] for name in plan.tutors}
    tutors = {score.tutor for own_scores in run.scores.values() for score in own_scores}
    tasks = {
        f"#/task/{benchmark}/{card.task}": card.title
        for benchmark, cards in selected_cards(plan).items()
        for card in cards
    }
    data = {
        **browsed,
        "labels": {name: visible(label_of(plan, name)) for name in tutors_in_order(plan)},
        "titles": {address.removeprefix("#/task/"): title for address, title in tasks.items()},
        "names": {benchmark: paper_title(benchmark) for benchmark in plan.benchmarks},
        "compare": compare,
        "leading": claim[:2] if claim else None,
        "equivalence": plan.config.report.equivalence,
    }
    style = (HERE / "page.css").read_text(encoding="utf-8")
    script = "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    grid = GRID.read_text(encoding="utf-8")
    charts = chart_library() if found else ""
    html = environment.get_template("page.html.jinja").render(
        **shared,
        policy=policy(style, grid, script, *([charts] if charts else [])),
        grid=grid,
        charts=charts,
        models=models,
        absent=[label_of(plan, name) for name in models if name not in tutors],
        pages=pages,
        tasks=tasks,
        problems=parts.problems,
        style=style,
        script=script,
        data=embedded(data),
    )
    return Made(html, parts.problems, tables, figures)
