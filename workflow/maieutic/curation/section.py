"""Report page on curations and tunings."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd

from maieutic.config.curation import read_stage, stage_names
from maieutic.config.models import TunedWeights, VllmModel
from maieutic.config.rubrics import read_rubric
from maieutic.core import paths
from maieutic.core.records import Difference, Judgement, read_records
from maieutic.core.stats import SHARE, BootstrapSettings, estimate_statistic
from maieutic.curation.stage import EVALUATION_SHEET, FIGURES, RATINGS, TRAINING_SHEET, TUNED
from maieutic.judges.questions import verdicts_by_criterion
from maieutic.report.contrasts import reversed_difference
from maieutic.report.figures import SERIES, histogram, stacked_chart, to_svg
from maieutic.report.sections import ReportInput, Section
from maieutic.report.tables import display_label, read_json

COMPLETENESS_ROW = {"does": "All four components exist", "paper": "6K seeds have all four", "source": "section 2.2"}
MOST_REASONS = 4  # maximum number of reasons for rejection shown per stage; the result files list all reasons
COLUMNS = ("domain", "grade", "source")  # columns of KMP-Bench's Figure 6, from left to right
# Horizontal alignment of the block labels in each of COLUMNS.
LABEL_ALIGNMENT: tuple[Literal["right", "center", "left"], ...] = ("right", "center", "left")
GAP = 0.02  # vertical space between two blocks of a column, as a share of the chart's height
# Places between two columns at which a band has the height of its left end, then of its right end
BAND_ENDS = ((0.0, 0.35), (0.65, 1.0))


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
            {int(key): n for key, n in figures["exchanges"].items()}, "exchanges in a dialogue", "dialogues", 1
        ),
        "words_chart": histogram(
            Counter(figures["words_of_turns"]), "words per turn, mean of a dialogue", "dialogues", 5
        ),
        "principles_chart": principles_chart(figures["principles"]) if figures["dialogues"] else "",
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


def gains(run: ReportInput) -> list[Difference]:
    """Return the paired differences, under robust scoring, between each tuned tutor of the run and its base.

    The tuned tutor is the first of each pair, like in the gain rows of KMP-Bench's tables.
    """
    bases = {
        name: run.plan.config.tunings[model.weights.tuned].base
        for name, model in run.plan.models.items()
        if isinstance(model, VllmModel) and isinstance(model.weights, TunedWeights)
    }
    rows = []
    for benchmark in run.plan.benchmarks:
        for record in read_json(paths.DIFFERENCES.within(run.results, benchmark=benchmark)) or []:
            difference = Difference.model_validate(record)
            if bases.get(difference.second) == difference.first:
                difference = reversed_difference(difference)
            is_gain = bases.get(difference.first) == difference.second
            if is_gain and difference.scoring == "robust" and difference.value is not None:
                rows.append(difference)
    return rows


def principles_chart(counts: Mapping[str, int]) -> str:
    """Return a chart of the tutor's turns by principle."""
    rows = [{"level": name, "part": "turns", "count": n} for name, n in counts.items()]
    return stacked_chart(pd.DataFrame(rows), "tutor's turns by principle")


def sankey(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return KMP-Bench's Figure 6 as SVG; an empty string without rows.

    Bands lead from the domains of the seeds to their grades, and from the grades to their sources.
    """
    if not rows:
        return ""
    table = pd.DataFrame(rows)
    table["grade"] = "grade " + table["grade"].astype(str)
    counts = {name: table.groupby(name)["n"].sum() for name in COLUMNS}
    height = {name: (1 - GAP * (len(blocks) - 1)) / table["n"].sum() for name, blocks in counts.items()}  # of one seed
    tops = {name: height[name] * (n.cumsum() - n) + GAP * np.arange(len(n)) for name, n in counts.items()}
    points = []
    for place, pair in enumerate(pairwise(COLUMNS)):
        flows = table.groupby(list(pair), as_index=False)["n"].sum()
        flows = flows.assign(start=flows[pair[0]], band=[f"{place} {number}" for number in flows.index])
        for name, offsets in zip(pair, BAND_ENDS, strict=True):
            low = flows[name].map(tops[name]) + height[name] * (flows.groupby(name)["n"].cumsum() - flows["n"])
            edges = flows.assign(low=low, high=low + height[name] * flows["n"])
            points += [edges.assign(x=place + offset) for offset in offsets]
    areas = alt.Chart(pd.concat(points)).mark_area(opacity=0.55, interpolate="monotone").encode(
        x=alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1.1, 2.7])),
        y=alt.Y("low:Q", axis=None, scale=alt.Scale(domain=[0, 1], reverse=True)),
        y2="high:Q",
        detail="band:N",
        color=alt.Color("start:N", legend=None, scale=alt.Scale(range=SERIES)),
    )  # fmt: skip
    layers = [areas]
    for place, (name, align) in enumerate(zip(COLUMNS, LABEL_ALIGNMENT, strict=True)):
        centres = tops[name] + height[name] * counts[name] / 2
        words = pd.DataFrame({"x": place, "y": centres, "label": [shorten_label(str(text)) for text in centres.index]})
        shift = {"right": -6, "center": 0, "left": 6}[align]
        text = alt.Chart(words).mark_text(fontSize=11, align=align, dx=shift)
        layers.append(text.encode(x="x:Q", y="y:Q", text="label:N"))
    return to_svg(alt.layer(*layers).properties(width=620, height=300))


def shorten_label(name: str) -> str:
    """Return a block's name, shortened if it is too long to fit beside the block."""
    return name if len(name) <= 34 else f"{name[:33]}\u2026"


PAGES = (Section("#/curation", "Curation", "curation", curation_page),)
