"""Charts as inline SVG, drawn with Altair. They need no script or network, and they scale to small screens."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd
import vl_convert

from maieutic.core.caching import cached_text
from maieutic.core.visible import visible_text

# Okabe and Ito's colours, which colour-blind readers can distinguish. Marks also differ in shape or label.
BLUE, ORANGE, GREY, GREEN, INK = "#0072B2", "#E69F00", "#8a8a8a", "#009E73", "#1b1f24"
SERIES = [BLUE, ORANGE, GREEN, GREY, "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"]
MANY_COLOURS = alt.Scale(scheme="tableau20")
# Attributes to remove: styles, which the page's security policy blocks (page.css contains the necessary ones), and
# roles and labels that do not help screen readers.
STYLE = re.compile(r' style="[^"]*"| role="graphics-[a-z]+"| aria-(?:roledescription|label)="[^"]*"')
WIDTH = 340
ROW = 26
SIDES: tuple[Literal["left", "right", "center"], ...] = ("left", "right", "center")  # alignments of radar axis titles
BINS, STEPS = 40, 200
QUANTILES = ("p05", "p25", "p50", "p75", "p95")
Array = npt.NDArray[np.float64]
# Version of the renderer, which is part of a cached chart's key. Charts are cached because rendering one takes 0.05
# seconds, and most charts are unchanged when a page is built again.
LIBRARY = f"vl-convert {version('vl-convert-python')}"
FONTS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts")
FONT_FILES = {".ttf", ".otf", ".ttc", ".otc"}
CHARTS = 4000  # maximum number of cached charts (about 10 kB each)
# The renderer underestimates the length of long labels, so the margins are wide.
CHART_PADDING = {"left": 40, "right": 10, "top": 5, "bottom": 5}

CHART_STYLE: dict[str, dict[str, Any]] = {
    "padding": CHART_PADDING,
    "view": {"stroke": None},
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "labelLimit": 360},
    "legend": {"labelFontSize": 12},
    "header": {"labelFontSize": 13, "labelFontWeight": "bold"},
}


@cache
def font_digest() -> str:
    """Return a digest of this machine's fonts. Charts depend on the fonts, with which the renderer measures texts."""
    files = [
        path for folder in FONTS for path in Path(folder).expanduser().rglob("*") if path.suffix.lower() in FONT_FILES
    ]
    sizes = sorted(f"{path} {path.stat().st_size}" for path in files if path.is_file())
    return hashlib.sha256("\n".join(sizes).encode()).hexdigest()[:16]


def to_svg(chart: alt.Chart | alt.LayerChart | alt.FacetChart) -> str:
    """Return the chart as an SVG element. On the page, it is as wide as its container."""
    # Altair's limit of 5,000 rows of data is never reached: charts show counts, quantiles and means, never single
    # items. Validation against Vega-Lite's schema would take a third of the time; the renderer rejects invalid charts.
    described = chart.to_dict(validate=False)
    for part, look in CHART_STYLE.items():  # Altair's configure methods would copy the chart's data at each call
        described["config"].setdefault(part, {}).update(look)
    # Remove control characters, since one in a label would crash the process.
    spec = json.dumps(clean_spec(described))
    svg = cached_text("charts", f"{LIBRARY} {font_digest()} {spec}", lambda: vl_convert.vegalite_to_svg(spec), CHARTS)
    return STYLE.sub("", svg.replace(JOINER, "")).replace("<svg ", '<svg role="img" ', 1)


# Properties that every JavaScript object has. Vega stores values in plain objects, so it would mistake these names for
# keys that already exist.
KNOWN_TO_SCRIPTS = frozenset(
    {
        "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "__proto__", "constructor",
        "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
    }
)  # fmt: skip
JOINER = "\u2060"  # invisible character that is appended to the names in KNOWN_TO_SCRIPTS while rendering


def clean_spec(content: Any) -> Any:
    """Return a chart's specification without control characters, and with JOINER added to names in KNOWN_TO_SCRIPTS."""
    if isinstance(content, dict):
        return {clean_spec(str(key)): clean_spec(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [clean_spec(value) for value in content]
    if not isinstance(content, str):
        return content
    return f"{content}{JOINER}" if content in KNOWN_TO_SCRIPTS else visible_text(content)


def colours_of(names: Sequence[str]) -> alt.Scale:
    """Return a colour scale for the names. It consists of SERIES, whose colours differ most, if these suffice."""
    return alt.Scale(domain=list(names), range=SERIES) if len(names) <= len(SERIES) else MANY_COLOURS


ZERO_LINE: Mapping[str, Sequence[float]] = {GREY: (0.0,)}


def levels_chart(
    table: pd.DataFrame,
    title: str,
    series: Sequence[str],
    bars: bool = False,
    lines: Mapping[str, Sequence[float]] = ZERO_LINE,
    domain: tuple[float, float] | None = None,
) -> str:
    """Draw the value and 95 % interval of each series at each level. A diamond marks a paper's value of a level.

    table: columns level, series, value, low, high, and optionally paper (NaN if the paper publishes no value). series:
    all series, in the order of the legend. bars: draw the values as bars instead of points. lines: places of dashed
    vertical lines, by colour. domain: ends of the axis; values beyond them are drawn at the ends.
    """
    table = table if "paper" in table else table.assign(paper=np.nan)
    levels = list(dict.fromkeys(table["level"]))
    legend = alt.Legend(orient="top", title=None, columns=1, labelLimit=320) if len(series) > 1 else None
    colour = alt.Color("series:N", sort=series, scale=colours_of(series), legend=legend)
    y = alt.Y("level:N", sort=levels, title=None)
    base = alt.Chart(table).encode(y=y, yOffset=alt.YOffset("series:N", sort=series), color=colour)
    x = alt.X("value:Q", title=title, scale=alt.Scale(domain=domain, clamp=True) if domain else alt.Scale(nice=True))
    ranges = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    if bars:
        ranges = ranges.encode(color=alt.value(INK))
    marks = base.mark_bar(opacity=0.75).encode(x=x)
    if not bars:
        shape = alt.Shape("series:N", scale=alt.Scale(domain=series), legend=None)
        marks = base.mark_point(filled=True, size=60, opacity=1).encode(x=x, shape=shape)
    paper = (
        alt.Chart(table.drop_duplicates("level"))
        .transform_filter("isValid(datum.paper)")
        .mark_point(shape="diamond", size=110, filled=True, color=INK, stroke="white")
        .encode(y=y, x="paper:Q")
    )
    chart = marks + ranges + paper
    for line_colour, places in lines.items():
        at = pd.DataFrame({"at": list(places)}, dtype=float)
        chart += alt.Chart(at).mark_rule(strokeDash=[5, 4], color=line_colour).encode(x="at:Q")
    height = max(ROW, 14 * len(series)) * max(2, len(levels))
    return to_svg(chart.properties(width=WIDTH, height=height))


def stacked_chart(
    table: pd.DataFrame, title: str, colours: Sequence[str] = SERIES, shares: bool = False, facet: str | None = None
) -> str:
    """Draw stacked bars.

    table: columns level (a bar), part (a part of the bar), count. colours: of the parts, in order of appearance.
    shares: True if the counts are shares, which add up to 1 in each bar. facet: column with the panel of a row.
    """
    levels, parts = list(dict.fromkeys(table["level"])), list(dict.fromkeys(table["part"]))
    axis = alt.Axis(format="%") if shares else alt.Axis(tickMinStep=1)
    scale = alt.Scale(domain=[0, 1]) if shares else alt.Scale()
    legend = alt.Legend(orient="top", title=None) if len(parts) > 1 else None
    chart = (
        alt.Chart(table.assign(rank=table["part"].map(parts.index)))
        .mark_bar()
        .encode(
            x=alt.X("count:Q", title=title, axis=axis, scale=scale),
            y=alt.Y("level:N", sort=levels, title=None),
            color=alt.Color("part:N", scale=alt.Scale(domain=parts, range=list(colours)), legend=legend),
            order="rank:Q",
        )
        .properties(width=230 if facet else WIDTH, height=ROW * max(1 if facet else 2, len(levels)))
    )
    panels = list(dict.fromkeys(table[facet])) if facet else []
    return to_svg(chart.facet(facet=alt.Facet(f"{facet}:N", sort=panels, title=None), columns=2) if facet else chart)


def histogram(counts: Mapping[float, int], title: str, unit: str, step: float, mark: float | None = None) -> str:
    """Draw a histogram; return an empty string if `counts` is empty.

    counts: numbers by value; title: of the values; unit: plural noun for what is counted; step: width of a bin; mark:
    value at which a line is drawn.
    """
    if not counts:
        return ""
    table = pd.DataFrame({"value": list(counts), "n": list(counts.values())})
    x = alt.X("value:Q", bin=alt.Bin(step=step), title=title)
    y = alt.Y("sum(n):Q", title=unit, axis=alt.Axis(tickMinStep=1))
    chart = alt.layer(alt.Chart(table).mark_bar(color=BLUE).encode(x=x, y=y))
    if mark is not None:
        chart += alt.Chart(pd.DataFrame({"at": [mark]})).mark_rule(color=ORANGE, strokeWidth=3).encode(x="at:Q")
    return to_svg(chart.properties(width=WIDTH, height=160))


def value_chart(values: Mapping[str, Sequence[float]], title: str) -> str:
    """Draw the distribution of each tutor's numeric grades: median, middle half and middle nine tenths.

    values: the grades of all items, by the tutor's label. The chart contains only five quantiles per tutor.
    """
    order = [label for label, numbers in values.items() if len(numbers)]
    shares = dict(zip(QUANTILES, (0.05, 0.25, 0.5, 0.75, 0.95), strict=True))
    table = pd.DataFrame(
        [
            {"label": label, **{key: float(np.quantile(values[label], at)) for key, at in shares.items()}}
            for label in order
        ]
    )
    base = alt.Chart(table).encode(y=alt.Y("label:N", sort=order, title=None))
    scale = alt.Scale(nice=False, zero=False)
    ranges = base.mark_rule(strokeWidth=1.5, color=BLUE).encode(x=alt.X("p05:Q", title=title, scale=scale), x2="p95:Q")
    half = base.mark_bar(height=12, opacity=0.45, color=BLUE).encode(x=alt.X("p25:Q", title=title), x2="p75:Q")
    middle = base.mark_tick(thickness=3, size=16, color=INK).encode(x=alt.X("p50:Q", title=title))
    return to_svg((ranges + half + middle).properties(width=WIDTH, height=ROW * max(2, len(order))))


def density_chart(scores: Mapping[tuple[str, str], Sequence[float]]) -> str:
    """Draw the distributions of the scores of experts' and novices' replies, one panel per reward model.

    scores: the scores of all replies, by model and teacher (expert or novice). The chart contains no single scores: a
    model's range of scores is divided into BINS equal intervals, and the share of replies in each interval is drawn.
    """
    order = list(dict.fromkeys(model for model, _ in scores))
    rows = []
    for model in order:
        by_teacher = {
            teacher: np.asarray(numbers, dtype=float) for (name, teacher), numbers in scores.items() if name == model
        }
        everything = np.concatenate([*by_teacher.values(), np.empty(0)])
        if not len(everything):
            continue
        edges = np.histogram_bin_edges(everything, BINS)
        for teacher, values in by_teacher.items():
            counts, _ = np.histogram(values, edges)
            # The additional 0 at the last edge closes the area.
            for at, count in zip(edges, [*counts, 0], strict=True):
                rows.append({"model": model, "teacher": teacher, "score": at, "share": count / max(1, len(values))})
    colour = alt.Color(
        "teacher:N",
        scale=alt.Scale(domain=["expert", "novice"], range=[BLUE, ORANGE]),
        legend=alt.Legend(orient="top", title=None),
    )
    chart = (
        alt.Chart(pd.DataFrame(rows))
        .mark_area(opacity=0.45, interpolate="step-after")
        .encode(
            x=alt.X("score:Q", title="score", scale=alt.Scale(zero=False)),
            y=alt.Y("share:Q", title=None, stack=None, axis=alt.Axis(labels=False, ticks=False)),
            color=colour,
        )
        .properties(width=260, height=90)
        .facet(facet=alt.Facet("model:N", sort=order, title=None), columns=2)
        .resolve_scale(x="independent", y="independent")
    )
    return to_svg(chart)


def line_chart(curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw loss and accuracy over the steps of a training run.

    curves: points (step, value) of `loss` and of `accuracy`. A curve with more than STEPS points is divided into STEPS
    parts, and the mean of each part is drawn.
    """
    parts = [
        {"curve": curve, "step": float(np.mean(steps)), "value": float(np.mean(values))}
        for curve, points in curves.items()
        if points
        for steps, values in zip(*split_curve(points), strict=True)
    ]
    table = pd.DataFrame(parts)
    colour = alt.Color(
        "curve:N",
        scale=alt.Scale(domain=["loss", "accuracy"], range=[ORANGE, BLUE]),
        legend=alt.Legend(orient="top", title=None),
    )
    base = alt.Chart(table).encode(x=alt.X("step:Q", title="optimiser step"), color=colour)
    raw = base.mark_line(opacity=0.3, strokeWidth=1).encode(y=alt.Y("value:Q", title=None))
    window = max(1, table["step"].nunique() // 20)
    smooth = (
        base.transform_window(mean="mean(value)", frame=[-window, window], groupby=["curve"])
        .mark_line(strokeWidth=2)
        .encode(y="mean:Q")
    )
    return to_svg((raw + smooth).properties(width=WIDTH, height=160))


def split_curve(points: Sequence[tuple[float, float]]) -> tuple[list[Array], list[Array]]:
    """Split a curve into at most STEPS parts of consecutive points. Return the steps and the values of each part."""
    steps, values = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    parts = min(STEPS, len(steps))
    return np.array_split(steps, parts), np.array_split(values, parts)


def title_alignment(x: float) -> str:
    """Return the alignment that keeps an axis title outside a radar chart. x: the title's offset from the centre."""
    return "center" if abs(x) < 0.1 else "left" if x > 0 else "right"


def radar_chart(rings: Mapping[str, Sequence[float]], axes: Sequence[str]) -> str:
    """Draw a radar chart of values from 0 to 1, with one closed ring per name. rings: name -> value on each axis."""
    angles = [2 * np.pi * place / len(axes) for place in range(len(axes))]

    def at(place: int, radius: float) -> dict[str, float]:
        return {"x": radius * float(np.sin(angles[place])), "y": radius * float(np.cos(angles[place]))}

    around = [*range(len(axes)), 0]
    lines = [
        {"who": name, "place": step, **at(place, values[place])}
        for name, values in rings.items()
        for step, place in enumerate(around)
    ]
    grid = [
        {"level": str(level), "place": step, **at(place, level)}
        for level in (0.25, 0.5, 0.75, 1.0)
        for step, place in enumerate(around)
    ]
    titles: list[dict[str, Any]] = [{"axis": axis, **at(place, 1.1)} for place, axis in enumerate(axes)]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[-1.82, 1.82]))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-1.4, 1.4]))
    names = list(rings)
    web = (
        alt.Chart(pd.DataFrame(grid))
        .mark_line(color=GREY, strokeWidth=0.6)
        .encode(x=x, y=y, order="place:O", detail="level:N")
    )
    legend = alt.Legend(title=None, labelLimit=320)
    curves = (
        alt.Chart(pd.DataFrame(lines))
        .mark_line(strokeWidth=2, opacity=0.85, point=True)
        .encode(
            x=x, y=y, order="place:O",
            color=alt.Color("who:N", sort=names, scale=colours_of(names), legend=legend),
            strokeDash=alt.StrokeDash("who:N", sort=names, legend=None),
        )
    )  # fmt: skip
    chart = web + curves
    for side in SIDES:
        titles_of_side = [title for title in titles if side == title_alignment(title["x"])]
        named = alt.Chart(pd.DataFrame(titles_of_side, columns=["axis", "x", "y"]))
        chart += named.mark_text(fontSize=12, color=INK, align=side).encode(x=x, y=y, text="axis:N")
    return to_svg(chart.properties(width=560, height=430))


SCATTER_WIDTH, SCATTER_HEIGHT = 560, 340
LETTER_WIDTH, LINE_HEIGHT, LABEL_GAP = 6.4, 13.0, 9.0  # in pixels, for labels of 11 pixels


def label_places(
    points: Sequence[tuple[float, float]], texts: Sequence[str], width: float, height: float
) -> list[tuple[float, float]]:
    """Return the left end and the middle height of each point's label so that labels do not overlap, in pixels.

    A label is to the right of its point, or to the left at the right edge, and is moved up or down if it would cover
    another label, a point or the axis below. points: positions in pixels; width, height: of the plot in pixels.
    """
    taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    taken.append((-width, height - 1, 2 * width, 2 * height))
    places: list[tuple[float, float]] = []
    for (x, y), text in zip(points, texts, strict=True):
        length = LETTER_WIDTH * len(text)
        left = x + LABEL_GAP if x + LABEL_GAP + length <= width + 40 else x - LABEL_GAP - length
        steps = (sign * step * LINE_HEIGHT for step in range(2 * len(points) + 2) for sign in (1, -1))
        boxes = ((left, y + step - LINE_HEIGHT / 2, left + length, y + step + LINE_HEIGHT / 2) for step in steps)
        box = next(box for box in boxes if not any(overlap(box, other) for other in taken))
        taken.append(box)
        places.append((left, (box[1] + box[3]) / 2))
    return places


Box = tuple[float, float, float, float]  # left, top, right, bottom


def overlap(first: Box, second: Box) -> bool:
    """Return True if two boxes have more than an edge in common."""
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]


def scatter_chart(
    table: pd.DataFrame,
    x: str,
    y: str,
    axes: tuple[str, str],
    ends: tuple[float, float] = (1.0, 1.0),
    log: bool = False,
) -> str:
    """Draw one labelled point per row. Kinds differ in colour and shape. x, y: names of columns in `table`.

    table: columns label, kind, and the two columns with the coordinates; axes: titles of both axes; ends: upper ends of
    the axes, which begin at 0. log: draw x, which is positive, on a logarithmic scale that includes all points; a line
    then joins the points that no other one is to the left of and above.
    """
    kinds = list(dict.fromkeys(table["kind"]))
    start, end, axis = 0.0, ends[0], alt.Axis()
    if log:
        table = table.assign(**{x: np.log10(table[x].astype(float))})
        start, end = float(table[x].min()) - 0.2, float(table[x].max()) + 0.2
        axis = alt.Axis(labelExpr="format(pow(10, datum.value), '.2~g')", tickCount=4)
    scales = (SCATTER_WIDTH / (end - start), SCATTER_HEIGHT / ends[1])
    points = [
        ((a - start) * scales[0], SCATTER_HEIGHT - b * scales[1]) for a, b in zip(table[x], table[y], strict=True)
    ]
    places = label_places(points, list(table["label"]), SCATTER_WIDTH, SCATTER_HEIGHT)
    lengths = [LETTER_WIDTH * len(label) for label in table["label"]]
    named = table.assign(
        left=[start + left / scales[0] for left, _ in places],
        near=[
            start + (left if left > at else left + length) / scales[0]
            for (left, _), (at, _), length in zip(places, points, lengths, strict=True)
        ],
        middle=[(SCATTER_HEIGHT - at) / scales[1] for _, at in places],
    )
    legend = alt.Legend(orient="top", title=None, labelFontSize=12) if len(kinds) > 1 else None
    across = alt.X(f"{x}:Q", title=axes[0], scale=alt.Scale(domain=[start, end], nice=False), axis=axis)
    up = alt.Y(f"{y}:Q", title=axes[1], scale=alt.Scale(domain=[0, ends[1]], nice=False))
    base = alt.Chart(named)
    marks = base.mark_point(filled=True, size=70, opacity=0.9).encode(
        x=across, y=up,
        color=alt.Color("kind:N", sort=kinds, scale=colours_of(kinds), legend=legend),
        shape=alt.Shape("kind:N", sort=kinds, scale=alt.Scale(domain=kinds), legend=legend),
    )  # fmt: skip
    leaders = base.mark_rule(color=GREY, strokeWidth=0.7).encode(x=across, y=up, x2="near:Q", y2="middle:Q")
    labels = base.mark_text(align="left", fontSize=11, color=INK, clip=False).encode(
        x=alt.X("left:Q", title=axes[0]), y=alt.Y("middle:Q", title=axes[1]), text="label:N"
    )
    chart = leaders + marks + labels
    if log:
        order = named.sort_values([x, y], ascending=[True, False])
        frontier = order[order[y] > order[y].cummax().shift(fill_value=-1.0)]
        chart = alt.Chart(frontier).mark_line(color=GREEN).encode(x=across, y=up) + chart
    return to_svg(chart.properties(width=SCATTER_WIDTH, height=SCATTER_HEIGHT))
