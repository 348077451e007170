"""The page: what the template is given, section by section."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from maieutic.cards import JUDGE, REWARD, Card
from maieutic.judges.rubrics import read_rubric
from maieutic.models import BaselineModel
from maieutic.records import SCORINGS, Grade, Score
from maieutic.report.browser import all_grades, browse, embedded, outcome
from maieutic.report.figures import interval_chart, outcome_chart, value_chart
from maieutic.report.graders import grader_section
from maieutic.report.kmpbench import BENCHMARK as KMP_BENCH
from maieutic.report.kmpbench import kmpbench_section
from maieutic.report.lights import kind_on, lights, title_of
from maieutic.report.mrbench import mrbench_section
from maieutic.report.tables import Printed, label_of, leads, printed_values, read_items
from maieutic.report.trust import trust_section
from maieutic.report.tutorbench import tutorbench_section
from maieutic.report.tutorbench_figures import shown_level
from maieutic.settings import Config, belongs, benchmarks_of, judges_of_card, judges_of_replies, takes, tutors_of

HERE = Path(__file__).parent
OUTCOMES = {"right": "right", "wrong": "wrong", "none": "no answer"}


def tutors_in_order(config: Config) -> list[str]:
    """Tutors first, then the trivial ones, the human reference last."""
    ceilings = {loaded.card.baselines.ceiling for loadeds in benchmarks_of(config).values() for loaded in loadeds}
    return sorted(
        tutors_of(config),
        key=lambda name: (name in ceilings, isinstance(config.models[name], BaselineModel)),
    )


def leaderboard(config: Config, cards: list[Card], scores: list[Score], scoring: str) -> list[dict[str, Any]]:
    """One row a tutor, one cell a task; the best tutor that is no baseline is marked in each column."""
    found = {(score.model, score.task): score for score in scores if score.headline and score.scoring == scoring}
    best = {}
    for card in cards:
        values = [
            score.value
            for (model, task), score in found.items()
            if task == card.task and score.value is not None and not isinstance(config.models[model], BaselineModel)
        ]
        best[card.task] = max(values, default=None)
    rows = []
    for model in tutors_in_order(config):
        entry = config.models[model]
        baseline = isinstance(entry, BaselineModel)
        cells = [found.get((model, card.task)) for card in cards]
        if baseline and not any(cells):  # a floor of other benchmarks' tasks
            continue
        rows.append(
            {
                "label": label_of(config, model),
                "group": entry.group,
                "baseline": baseline,
                "absent": not any(score.model == model for score in scores),
                "cells": [
                    {
                        "score": score,
                        "takes": takes(config, card, model),
                        "best": not baseline and score is not None and score.value == best[card.task],
                        "at_floor": not baseline and at_floor(score),
                    }
                    for card, score in zip(cards, cells, strict=True)
                ],
            }
        )
    return rows


def at_floor(score: Score | None) -> bool:
    """Whether a trivial tutor does as well."""
    return score is not None and score.value is not None and score.floor is not None and score.value <= score.floor


def against_paper(config: Config, cards: list[Card], benchmark: str, scores: list[Score]) -> list[dict[str, Any]]:
    """The paper's table row by row, and under a row each of our tutors that claims it, with the difference."""
    printed = printed_values(benchmark)
    by_cell = {(one.model, one.task): one for one in printed}
    found = {
        (score.model, score.task, score.metric): score.value
        for score in scores
        if score.scoring == "paper_compat" and leads(config, score)
    }
    rows = []
    for name in dict.fromkeys(one.model for one in printed):
        cells = [by_cell.get((name, card.task)) for card in cards]
        ours = [model for model in tutors_of(config) if config.models[model].paper == name]
        rows.append(
            {
                "model": name,
                "group": next(one.group for one in printed if one.model == name),
                "cells": cells,
                "ours": [
                    {"label": label_of(config, model), "cells": differences(model, cells, found)} for model in ours
                ],
            }
        )
    return rows


def differences(
    model: str, cells: list[Printed | None], found: dict[tuple[str, str, str], float | None]
) -> list[tuple[float, float] | None]:
    """Our value and its difference from the paper's, for each printed cell that we have measured."""
    result: list[tuple[float, float] | None] = []
    for cell in cells:
        value = found.get((model, cell.task, cell.metric)) if cell else None
        result.append((value, value - cell.value) if cell and value is not None else None)
    return result


def task_section(config: Config, readings: Readings, card: Card, scores: list[Score]) -> dict[str, Any]:
    """What the page shows of one task."""
    judges = judges_of_replies(config)  # both scorings show a judge's verdicts as they are: once is enough
    mine = [
        score
        for score in scores
        if score.task == card.task and (score.grader not in judges or score.scoring == "robust")
    ]
    order = tutors_in_order(config)
    mine.sort(key=lambda score: (order.index(score.model), not score.headline, score.metric, score.scoring))
    return {
        "card": card,
        "scores": mine,
        "n": max((score.n + score.missing for score in mine), default=0),
        "intervals": intervals_figure(config, card, mine),
        "outcomes": outcomes_figure(config, readings, card),
        "headline": shown_metric(card.headline),
        "matrix": judged_matrix(config, card, mine),
    }


def judged_matrix(config: Config, card: Card, scores: list[Score]) -> dict[str, Any] | None:
    """What the first judge says of every tutor, by dimension; None for a task that no judge judges."""
    if JUDGE not in card.graders:
        return None
    judge = judges_of_card(config, card)[0]
    metrics = [
        name
        for name, metric in card.metrics.items()
        if metric.grader == JUDGE and metric.higher_is_better and not metric.only
    ]
    found = {
        (one.model, one.metric): one
        for one in scores
        if one.scoring == "robust" and one.grader == judge and one.metric in metrics
    }
    rows = [
        {
            "label": label_of(config, model),
            "baseline": isinstance(config.models[model], BaselineModel),
            "cells": [found.get((model, name)) for name in metrics],
        }
        for model in tutors_in_order(config)
        if any((model, name) in found for name in metrics)
    ]
    return {"judge": judge, "metrics": [shown_metric(name) for name in metrics], "rows": rows} if rows else None


def intervals_figure(config: Config, card: Card, scores: list[Score]) -> str:
    """The headline metric of every tutor."""
    rows = [
        {
            "label": label_of(config, score.model),
            **score.model_dump(include={"scoring", "value", "low", "high", "floor", "ceiling"}),
        }
        for score in scores
        if score.headline and score.value is not None
    ]
    return interval_chart(pd.DataFrame(rows), shown_metric(card.headline)) if rows else ""


Readings = dict[tuple[str, str], list[Grade]]


def headline_readings(config: Config, results: Path, benchmark: str, cards: list[Card]) -> Readings:
    """The robust readings behind each card's headline, by model and task; every file is read once."""
    wanted = set()
    for card in cards:
        metric = card.metrics[card.headline]
        wanted.add((card.task, f"{metric.grader or card.graders[0]}/robust", metric.criterion))
    readings: Readings = defaultdict(list)
    for model in tutors_in_order(config):
        for grade in all_grades(config, results, benchmark, model):
            if (grade.task, grade.grader, grade.criterion) in wanted:
                readings[model, grade.task].append(grade)
    return readings


def outcomes_figure(config: Config, readings: Readings, card: Card) -> str:
    """How the readings are spread: right and wrong, or values."""
    shares, values = [], []
    for model in (name for name in tutors_in_order(config) if belongs(config, card, name)):
        grades = readings.get((model, card.task), [])
        label = label_of(config, model)
        found = [outcome(grade) for grade in grades]
        if "value" in found:
            values += [{"label": label, "value": grade.value} for grade in grades if grade.value is not None]
        elif found:
            shares += [
                {"label": label, "outcome": shown, "share": found.count(kind) / len(found), "rank": rank}
                for rank, (kind, shown) in enumerate(OUTCOMES.items())
            ]
    if values:
        return value_chart(pd.DataFrame(values), f"{shown_metric(card.headline)} of each item (robust)")
    return outcome_chart(pd.DataFrame(shares)) if shares else ""


def sections(config: Config, results: Path, scores: dict[str, list[Score]]) -> list[dict[str, Any]]:
    """Everything the page shows, benchmark by benchmark."""
    shown = []
    for benchmark, loadeds in benchmarks_of(config).items():
        cards = in_paper_order(benchmark, [loaded.card for loaded in loadeds])
        of = scores.get(benchmark, [])
        readings = headline_readings(config, results, benchmark, cards)
        shown.append(
            {
                "name": benchmark,
                "cards": cards,
                "skills": skill_spans(cards),
                "boards": {scoring: leaderboard(config, cards, of, scoring) for scoring in SCORINGS},
                "limits": {scoring: limits(cards, of, scoring) for scoring in SCORINGS},
                "paper": against_paper(config, cards, benchmark, of),
                "tasks": [task_section(config, readings, card, of) for card in cards],
                "size": sum(len(read_items(results, benchmark, card.task)) for card in cards),
            }
        )
    return shown


def in_paper_order(benchmark: str, cards: list[Card]) -> list[Card]:
    """Cards in the order of the paper's columns; those that it does not print come last, each skill together."""
    columns = list(dict.fromkeys(one.task for one in printed_values(benchmark)))
    place = {card.task: columns.index(card.task) if card.task in columns else len(columns) for card in cards}
    skills = {card.skill: min(place[other.task] for other in cards if other.skill == card.skill) for card in cards}
    return sorted(cards, key=lambda card: (skills[card.skill], card.skill, place[card.task], card.task))


def skill_spans(cards: list[Card]) -> list[tuple[str, int]]:
    """The groups of neighbouring columns."""
    spans: dict[str, int] = {}
    for card in cards:
        spans[card.skill] = spans.get(card.skill, 0) + 1
    return list(spans.items())


def limits(cards: list[Card], scores: list[Score], scoring: str) -> list[tuple[float | None, float | None]]:
    """Floor and ceiling of each column."""
    found = {score.task: score for score in scores if score.headline and score.scoring == scoring}
    return [
        (found[card.task].floor, found[card.task].ceiling) if card.task in found else (None, None) for card in cards
    ]


def headliner(config: Config, card: Card) -> str | None:
    """The reward model or judge on which a task's headline rests: the run's first that grades it."""
    first = {REWARD: config.run.reward_models[:1], JUDGE: judges_of_card(config, card)[:1]}
    return next(iter(first.get(str(card.metrics[card.headline].grader), [])), None)


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


def render_page(config: Config, results: Path, scores: dict[str, list[Score]], runtime: pd.DataFrame) -> str:
    """The whole page as one self-contained HTML document."""
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"number": number, "metric": shown_metric, "plain": plain_number, "level": shown_level}
    light = lights(config, results)
    environment.globals |= {
        "label_of": lambda model: label_of(config, model),
        "light": light,
        "kind_title": title_of,
        "kind_on": lambda grader, card, metric=None: kind_on(config, grader, card, metric),
        "headliner": lambda card: headliner(config, card),
    }
    models = {name: config.models[name] for name in tutors_of(config)}
    labels = {name: label_of(config, name) for name in tutors_in_order(config)}
    titles = {
        f"{benchmark}/{loaded.card.task}": loaded.card.title
        for benchmark, loadeds in benchmarks_of(config).items()
        for loaded in loadeds
    }
    data = {**browse(config, results), "labels": labels, "titles": titles}
    return environment.get_template("page.html.jinja").render(
        config=config,
        models=models,
        absent=[
            label_of(config, name) for name in models if not any(s.model == name for of in scores.values() for s in of)
        ],
        sections=sections(config, results, scores),
        graders=grader_section(config, results),
        trust=trust_section(config, results, light),
        releases=mrbench_section(config, results),
        tutorbench=tutorbench_section(config, results),
        kmpbench=kmpbench_section(config, results, scores.get(KMP_BENCH, [])),
        dimensions=list(read_rubric("mrbench_taxonomy").rubric.criteria.values()),
        runtime=runtime.to_dict("records"),
        scorings=SCORINGS,
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        script=(HERE / "page.js").read_text(encoding="utf-8"),
        data=embedded(data),
    )
