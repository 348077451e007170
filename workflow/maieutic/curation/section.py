"""Report page on curations and tunings."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import altair as alt
import pandas as pd

from maieutic.config.curation import read_stage, stage_names
from maieutic.config.models import TunedWeights, VllmModel
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.records import Difference, Judgement, read_records
from maieutic.core.stats import SHARE, BootstrapSettings, estimate_statistic
from maieutic.curation.stage import EVALUATION_SHEET, FIGURES, RATINGS, TRAINING_SHEET, TUNED
from maieutic.judges.questions import verdicts_by_criterion
from maieutic.plan.plan import Plan
from maieutic.report.figures import BLUE, SERIES, to_svg
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label, read_json

COMPLETENESS_ROW = {"does": "All four components exist", "paper": "6K seeds have all four", "source": "section 2.2"}
MOST_REASONS = 4  # maximum number of reasons for rejection shown per stage; the result files list all reasons
COLUMNS = ("domain", "grade", "source")  # columns of KMP-Bench's Figure 6, from left to right
# Horizontal alignment of the block labels in each of COLUMNS.
LABEL_ALIGNMENT: tuple[Literal["right", "center", "left"], ...] = ("right", "center", "left")
GAP = 0.02  # vertical space between two blocks of a column, as a share of the chart's height
CURVE = 20  # number of straight segments that approximate a band's curved edge


def curation_page(run: ReportInput) -> dict[str, Any] | None:
    """Return the data of the curation page; None if no curation or tuning has results."""
    config = run.plan.config
    tunings = [row for name in config.tunings if (row := tuning_row(run, name))]
    curations = [row for name in config.curations if (row := curation_part(run, name))]
    return {"curations": curations, "tunings": tunings, "gains": gains(run)} if curations or tunings else None


def curation_part(run: ReportInput, name: str) -> dict[str, Any] | None:
    """Return the yields, datasheets and charts of one curation; None if it has no results yet."""
    results = run.results
    figures = read_json(FIGURES.within(results, curation=name))
    if figures is None:
        return None
    training = read_json(TRAINING_SHEET.within(results, curation=name))
    return {
        **figures,
        "name": name,
        "rows": [stage_row(row) for row in figures["stages"]],
        "sets": read_json(EVALUATION_SHEET.within(results, curation=name)),
        "training": training,
        "exchanges_chart": histogram(
            {int(key): n for key, n in figures["exchanges"].items()}, "exchanges in a dialogue", 1
        ),
        "words_chart": histogram(Counter(figures["words_of_turns"]), "words per turn, mean of a dialogue", 5),
        "principles_chart": bars(figures["principles"], "tutor's turns by principle") if figures["dialogues"] else "",
        "sankey": sankey(figures["flow_of_seeds"]),
        "ratings": [row for judge in run.plan.run.judges for row in rating_rows(run, name, judge)],
    }


def rating_rows(run: ReportInput, curation: str, judge: str) -> list[dict[str, Any]]:
    """Return one row per dimension: the share of rated turns with the desired label, and its confidence interval."""
    path = RATINGS.within(run.results, curation=curation, judge=judge)
    judgements = read_records(path, Judgement) if path.exists() else []
    by_case: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        by_case[judgement.id].append(judgement)
    if not judgements:
        return []
    loaded = read_rubric(judgements[0].rubric)
    verdicts = {name: verdicts_by_criterion(group, loaded.rubric.both_orders) for name, group in by_case.items()}
    sampling = BootstrapSettings(run.plan.config.report.resamples, run.plan.run.seed)
    rows = []
    for criterion, about in loaded.rubric.criteria.items():
        values = {
            name: by_criterion[criterion][0].value
            for name, by_criterion in verdicts.items()
            if criterion in by_criterion
        }
        known = {name: float(value == about.desired) for name, value in values.items() if value is not None}
        share = estimate_statistic(SHARE, list(known.values()), list(known), sampling, len(by_case) - len(known))
        rows.append({"judge": judge, "kind": loaded.name, "criterion": about.title or criterion, "estimate": share})
    return rows


def stage_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stage's yields, together with the texts of its card that the page shows."""
    stage = row["stage"]
    card = read_stage(stage).card.model_dump() if stage in stage_names() else COMPLETENESS_ROW
    reasons = list(row["rejected"].items())
    return {
        **row,
        "does": card["does"],
        "paper": card["paper"],
        "source": card["source"],
        "share": row["accepted"] / row["came_in"],
        "reasons": reasons[:MOST_REASONS],
        "more": sum(n for _, n in reasons[MOST_REASONS:]),
    }


def tuning_row(run: ReportInput, name: str) -> dict[str, Any] | None:
    """Return the settings, counts and losses of a tuning; None if it has no results yet."""
    folder = TUNED.within(run.results, tuning=name).parent
    training = read_json(folder / "training.json")
    if training is None:
        return None
    losses = [step["loss"] for step in training["history"]]
    entry = run.plan.config.tunings[name]
    return {
        "name": name,
        "base": display_label(run.plan, entry.base) if entry.base in run.plan.models else entry.base,
        "mix": ", ".join(f"{source} {100 * share:g} %" for source, share in entry.mix.items()),
        "examples": training["counts"]["examples"],
        "tokens": training["counts"]["learned_tokens"],
        "steps": len(losses),
        "losses": (losses[0], losses[-1]) if losses else None,
        "settings": json.dumps(training["settings"]),
    }


class Gain(NamedTuple):
    """Difference in score between a tuned tutor and its base on one task, like the gain rows in KMP-Bench's tables."""

    tutor: str
    base: str
    benchmark: str
    task: str
    metric: str
    value: float
    low: float | None
    high: float | None
    p: float | None
    n: int


def gains(run: ReportInput) -> list[Gain]:
    """Return the paired differences, under robust scoring, between each tuned tutor of the run and its base."""
    pairs = dict(tuned_pairs(run.plan))
    rows = []
    for benchmark in run.plan.benchmarks:
        for record in read_json(paths.DIFFERENCES.within(run.results, benchmark=benchmark)) or []:
            difference = Difference.model_validate(record)
            if difference.scoring != "robust" or difference.value is None:
                continue
            if pairs.get(difference.first) == difference.second:
                sign, tutor, base = 1.0, difference.first, difference.second
            elif pairs.get(difference.second) == difference.first:
                sign, tutor, base = -1.0, difference.second, difference.first
            else:
                continue
            ends = sorted(sign * end + 0.0 for end in (difference.low, difference.high) if end is not None)
            low, high = (ends[0], ends[1]) if len(ends) == 2 else (None, None)
            names = display_label(run.plan, tutor), display_label(run.plan, base)
            p = difference.p if difference.p_holm is None else difference.p_holm
            value = sign * difference.value + 0.0  # adding 0.0 turns -0.0 into 0.0, which prints without a sign
            rows.append(Gain(*names, benchmark, difference.task, difference.metric, value, low, high, p, difference.n))
    return rows


def tuned_pairs(plan: Plan) -> list[tuple[str, str]]:
    """Return (tuned tutor, base) for each tuned tutor of the run whose base model is also a tutor of the run."""
    pairs = []
    for name in plan.run.tutors:
        model = plan.models[name]
        if isinstance(model, VllmModel) and isinstance(model.weights, TunedWeights):
            base = plan.config.tunings[model.weights.tuned].base
            if base in plan.run.tutors:
                pairs.append((name, base))
    return pairs


def histogram(counts: Mapping[int, int], title: str, width: int) -> str:
    """Return a histogram of dialogues as SVG; an empty string if `counts` is empty.

    counts: number of dialogues by value; title: title of the horizontal axis; width: width of a bin.
    """
    if not counts:
        return ""
    classes: Counter[int] = Counter()
    for value, n in counts.items():
        classes[value // width * width] += n
    first, last = min(classes), max(classes)
    names = {start: str(start) if width == 1 else f"{start}\u2013{start + width - 1}" for start in classes}
    names |= {start: names.get(start, str(start)) for start in range(first, last + 1, width)}
    rows = [{"class": names[start], "n": classes[start]} for start in range(first, last + 1, width)]
    x = alt.X("class:N", sort=[str(row["class"]) for row in rows], title=title, axis=alt.Axis(labelAngle=0))
    chart = alt.Chart(pd.DataFrame(rows)).mark_bar(color=BLUE)
    return to_svg(chart.encode(x=x, y=alt.Y("n:Q", title="dialogues")).properties(width=260, height=160))


def bars(counts: Mapping[str, int], title: str) -> str:
    """Return a bar chart as SVG, with one bar per key in `counts`. title: title of the horizontal axis."""
    table = pd.DataFrame({"kind": list(counts), "n": list(counts.values())})
    chart = alt.Chart(table).mark_bar(color=BLUE)
    chart = chart.encode(y=alt.Y("kind:N", sort=list(counts), title=None), x=alt.X("n:Q", title=title))
    return to_svg(chart.properties(width=260, height=160))


class Block(NamedTuple):
    """A block in a column of KMP-Bench's Figure 6. low, high: its two edges, as shares of the chart's height."""

    low: float
    high: float


def block_name(row: Mapping[str, Any], column: str) -> str:
    """Return the name of the block to which a row of seed counts belongs in a column of KMP-Bench's Figure 6."""
    return f"grade {row[column]}" if column == "grade" else str(row[column])


def nodes_of(rows: Sequence[Mapping[str, Any]], column: str) -> dict[str, Block]:
    """Return the blocks in a column of KMP-Bench's Figure 6 by name. A block's height is its share of the seeds."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[block_name(row, column)] += row["n"]
    total = sum(counts.values())
    available, place, nodes = 1 - GAP * (len(counts) - 1), 0.0, {}
    for name in sorted(counts):
        height = available * counts[name] / total
        nodes[name] = Block(place, place + height)
        place += height + GAP
    return nodes


def sankey(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return KMP-Bench's Figure 6 as SVG; an empty string without rows.

    Bands lead from the domains of the seeds to their grades, and from the grades to their sources.
    """
    if not rows:
        return ""
    nodes = {column: nodes_of(rows, column) for column in COLUMNS}
    total = sum(row["n"] for row in rows)
    points: list[dict[str, Any]] = []
    for place, (left, right) in enumerate(pairwise(COLUMNS)):
        flows: Counter[tuple[str, str]] = Counter()
        for row in rows:
            flows[block_name(row, left), block_name(row, right)] += row["n"]
        tops = {(column, name): node.low for column in (left, right) for name, node in nodes[column].items()}
        for (start, end), n in sorted(flows.items()):
            heights = [n / total * (1 - GAP * (len(nodes[column]) - 1)) for column in (left, right)]
            edges = tops[left, start], tops[right, end]
            tops[left, start] += heights[0]
            tops[right, end] += heights[1]
            points += band(f"{place} {start} {end}", start, place, edges, heights)
    areas = alt.Chart(pd.DataFrame(points)).mark_area(opacity=0.55).encode(
        x=alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1.1, 2.7])),
        y=alt.Y("low:Q", axis=None, scale=alt.Scale(domain=[0, 1], reverse=True)),
        y2="high:Q",
        detail="band:N",
        color=alt.Color("from:N", legend=None, scale=alt.Scale(range=SERIES)),
    )  # fmt: skip
    layers = [areas]
    for place, (column, align) in enumerate(zip(COLUMNS, LABEL_ALIGNMENT, strict=True)):
        words = pd.DataFrame(
            {
                "x": place,
                "y": (node.low + node.high) / 2,
                "label": shorten_label(name),
            }
            for name, node in nodes[column].items()
        )
        shift = {"right": -6, "center": 0, "left": 6}[align]
        text = alt.Chart(words).mark_text(fontSize=11, align=align, dx=shift)
        layers.append(text.encode(x="x:Q", y="y:Q", text="label:N"))
    return to_svg(alt.layer(*layers).properties(width=620, height=300))


def shorten_label(name: str) -> str:
    """Return a block's name, shortened if it is too long to fit beside the block."""
    return name if len(name) <= 34 else f"{name[:33]}\u2026"


def band(
    name: str, start: str, place: int, tops: tuple[float, float], heights: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the points of a band with curved edges between two columns of KMP-Bench's Figure 6.

    name: name of the band; start: block at the band's left end, which sets its colour; place: index of the left column;
    tops, heights: top and height of the band at its left and right end.
    """
    points = []
    for step in range(CURVE + 1):
        at = step / CURVE
        eased = 3 * at**2 - 2 * at**3
        low = tops[0] + (tops[1] - tops[0]) * eased
        height = heights[0] + (heights[1] - heights[0]) * eased
        points.append({"band": name, "from": start, "x": place + at, "low": low, "high": low + height})
    return points


PAGES = (Section("#/curation", "Curation", "curation", curation_page),)
