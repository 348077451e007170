"""The page on curations and on tutors that were fine-tuned: yields beside the paper's, Figures 2 and 6, the gains."""

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
from maieutic.core import paths
from maieutic.core.records import Difference, Judgement, read_records
from maieutic.core.stats import SHARE, Sampling, estimate
from maieutic.curation.paths import EVALUATION_SHEET, FIGURES, RATINGS, TRAINING_SHEET, TUNED
from maieutic.judges.questions import merged
from maieutic.judges.rubrics import read_rubric
from maieutic.plan.plan import Plan
from maieutic.report.figures import BLUE, SERIES, to_svg
from maieutic.report.sections import Run
from maieutic.report.tables import label_of, read_json

COMPLETED = {"does": "All four components are there", "paper": "6K seeds have all four", "source": "section 2.2"}
MOST_REASONS = 4  # in the table; the results have all
COLUMNS = ("domain", "grade", "source")  # of Figure 6
ALIGNED: tuple[Literal["right", "center", "left"], ...] = ("right", "center", "left")  # their labels
GAP = 0.02  # between two bands of a column, as a share of its height
CURVE = 20  # points of a band's edge


def curated(run: Run) -> dict[str, Any] | None:
    """What the page shows; None for a run without curations and tunings."""
    config = run.plan.config
    tuned = [row for name in config.tunings if (row := tuning_row(run, name))]
    shown = [row for name in config.curations if (row := curation_part(run, name))]
    return {"curations": shown, "tunings": tuned, "gains": gains(run)} if shown or tuned else None


def curation_part(run: Run, name: str) -> dict[str, Any] | None:
    """One curation's yields, sets and figures."""
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
            {int(key): n for key, n in figures["exchanges"].items()}, "exchanges of a dialogue", 1
        ),
        "words_chart": histogram(Counter(figures["words_of_turns"]), "words of a turn, mean of a dialogue", 5),
        "principles_chart": bars(figures["principles"], "tutor's turns by principle") if figures["dialogues"] else "",
        "sankey": sankey(figures["flow_of_seeds"]),
        "ratings": [row for judge in run.plan.run.judges for row in rating_rows(run, name, judge)],
    }


def rating_rows(run: Run, curation: str, judge: str) -> list[dict[str, Any]]:
    """By dimension how many of the rated turns have the label of a good reply, with the interval over dialogues."""
    path = RATINGS.within(run.results, curation=curation, judge=judge)
    judgements = read_records(path, Judgement) if path.exists() else []
    by_case: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        by_case[judgement.id].append(judgement)
    if not judgements:
        return []
    loaded = read_rubric(judgements[0].rubric)
    verdicts = {name: merged(group, loaded.rubric.both_orders) for name, group in by_case.items()}
    sampling = Sampling(run.plan.config.report.resamples, run.plan.run.seed)
    rows = []
    for criterion, about in loaded.rubric.criteria.items():
        values = {
            name: by_criterion[criterion][0].value
            for name, by_criterion in verdicts.items()
            if criterion in by_criterion
        }
        known = {name: float(value == about.desired) for name, value in values.items() if value is not None}
        share = estimate(SHARE, list(known.values()), list(known), sampling, len(by_case) - len(known))
        rows.append({"judge": judge, "kind": loaded.name, "criterion": about.title or criterion, "estimate": share})
    return rows


def stage_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's yield with what its card says."""
    stage = row["stage"]
    card = read_stage(stage).card.model_dump() if stage in stage_names() else COMPLETED
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


def tuning_row(run: Run, name: str) -> dict[str, Any] | None:
    """What a tuning did; None where its job has not ended."""
    folder = TUNED.within(run.results, tuning=name).parent
    training = read_json(folder / "training.json")
    if training is None:
        return None
    losses = [step["loss"] for step in training["history"]]
    entry = run.plan.config.tunings[name]
    return {
        "name": name,
        "base": label_of(run.plan, entry.base) if entry.base in run.plan.models else entry.base,
        "mix": ", ".join(f"{source} {100 * share:g} %" for source, share in entry.mix.items()),
        "examples": training["counts"]["examples"],
        "tokens": training["counts"]["learned_tokens"],
        "steps": len(losses),
        "losses": (losses[0], losses[-1]) if losses else None,
        "settings": json.dumps(training["settings"]),
    }


class Gain(NamedTuple):
    """A tuned tutor against its base on one task, as the paper's rows of differences."""

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


def gains(run: Run) -> list[Gain]:
    """The paired differences of every tuned tutor of the run from its base, by the robust reading."""
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
            names = label_of(run.plan, tutor), label_of(run.plan, base)
            p = difference.p if difference.p_holm is None else difference.p_holm
            value = sign * difference.value + 0.0  # without a sign before zero
            rows.append(Gain(*names, benchmark, difference.task, difference.metric, value, low, high, p, difference.n))
    return rows


def tuned_pairs(plan: Plan) -> list[tuple[str, str]]:
    """The tutors of the run that are tuned, each with its base, where that is a tutor of the run too."""
    pairs = []
    for name in plan.run.tutors:
        model = plan.models[name]
        if isinstance(model, VllmModel) and isinstance(model.weights, TunedWeights):
            base = plan.config.tunings[model.weights.tuned].base
            if base in plan.run.tutors:
                pairs.append((name, base))
    return pairs


def whole_numbers(counts: Mapping[str, int]) -> dict[int, int]:
    """Counts by numbers, which JSON keeps as texts."""
    return {int(value): n for value, n in counts.items()}


def histogram(counts: Mapping[int, int], title: str, width: int) -> str:
    """How often numbers occur, in classes of a width; nothing of none."""
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
    """A bar for each kind."""
    table = pd.DataFrame({"kind": list(counts), "n": list(counts.values())})
    chart = alt.Chart(table).mark_bar(color=BLUE)
    chart = chart.encode(y=alt.Y("kind:N", sort=list(counts), title=None), x=alt.X("n:Q", title=title))
    return to_svg(chart.properties(width=260, height=160))


class Node(NamedTuple):
    """A block of a column: from where to where it goes, as shares of the height."""

    low: float
    high: float


def named(row: Mapping[str, Any], column: str) -> str:
    """The block that a row is in."""
    return f"grade {row[column]}" if column == "grade" else str(row[column])


def nodes_of(rows: Sequence[Mapping[str, Any]], column: str) -> dict[str, Node]:
    """The blocks of a column, as high as their seeds are many."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[named(row, column)] += row["n"]
    total = sum(counts.values())
    room, place, nodes = 1 - GAP * (len(counts) - 1), 0.0, {}
    for name in sorted(counts):
        height = room * counts[name] / total
        nodes[name] = Node(place, place + height)
        place += height + GAP
    return nodes


def sankey(rows: Sequence[Mapping[str, Any]]) -> str:
    """Figure 6: domains, grades and sources of the seeds, as bands from column to column; nothing of none."""
    if not rows:
        return ""
    nodes = {column: nodes_of(rows, column) for column in COLUMNS}
    total = sum(row["n"] for row in rows)
    points: list[dict[str, Any]] = []
    for place, (left, right) in enumerate(pairwise(COLUMNS)):
        flows: Counter[tuple[str, str]] = Counter()
        for row in rows:
            flows[named(row, left), named(row, right)] += row["n"]
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
    for place, (column, align) in enumerate(zip(COLUMNS, ALIGNED, strict=True)):
        words = pd.DataFrame(
            {
                "x": place,
                "y": (node.low + node.high) / 2,
                "label": short(name),
            }
            for name, node in nodes[column].items()
        )
        shift = {"right": -6, "center": 0, "left": 6}[align]
        text = alt.Chart(words).mark_text(fontSize=11, align=align, dx=shift)
        layers.append(text.encode(x="x:Q", y="y:Q", text="label:N"))
    return to_svg(alt.layer(*layers).properties(width=620, height=300))


def short(name: str) -> str:
    """A name of a length that a block has room for."""
    return name if len(name) <= 34 else f"{name[:33]}\u2026"


def band(
    name: str, start: str, place: int, tops: tuple[float, float], heights: Sequence[float]
) -> list[dict[str, Any]]:
    """A band between two columns, its edges smooth."""
    points = []
    for step in range(CURVE + 1):
        at = step / CURVE
        eased = 3 * at**2 - 2 * at**3
        low = tops[0] + (tops[1] - tops[0]) * eased
        height = heights[0] + (heights[1] - heights[0]) * eased
        points.append({"band": name, "from": start, "x": place + at, "low": low, "high": low + height})
    return points
