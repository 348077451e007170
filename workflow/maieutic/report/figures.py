"""Charts as inline SVG (Altair): they need no script, no network, and scale to a phone."""

from __future__ import annotations

import altair as alt
import pandas as pd
import vl_convert

# Okabe and Ito's colours, told apart by colour-blind readers; every mark differs in shape or label too.
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#8a8a8a"
OUTCOME_COLOURS = {"right": BLUE, "wrong": ORANGE, "no answer": GREY}
WIDTH = 340
ROW = 26


def to_svg(chart: alt.Chart | alt.LayerChart | alt.FacetChart) -> str:
    """The chart as an SVG element that takes the width it is given."""
    themed = chart.configure_view(stroke=None).configure_axis(labelFontSize=12, titleFontSize=12, labelLimit=220)
    svg = vl_convert.vegalite_to_svg(themed.to_json())
    return svg.replace("<svg ", '<svg role="img" style="width:100%;height:auto;max-width:720px" ', 1)


def interval_chart(table: pd.DataFrame, title: str) -> str:
    """Value and 95 % interval of every tutor, one mark a scoring; dashed lines at each scoring's floor and ceiling.

    table: label, scoring, value, low, high, floor, ceiling.
    """
    order = list(dict.fromkeys(table["label"]))
    x = alt.X("value:Q", title=title, scale=alt.Scale(zero=True, nice=False))
    colour = alt.Color(
        "scoring:N",
        scale=alt.Scale(domain=["paper_compat", "robust"], range=[ORANGE, BLUE]),
        legend=alt.Legend(orient="top", title=None),
    )
    base = alt.Chart(table).encode(
        y=alt.Y("label:N", sort=order, title=None),
        yOffset=alt.YOffset("scoring:N", sort=["paper_compat", "robust"]),
        color=colour,
    )
    ranges = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title), x2="high:Q")
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x, shape=alt.Shape("scoring:N", scale=alt.Scale(range=["square", "circle"]), legend=None)
    )
    limits = table.drop_duplicates("scoring")[["scoring", "floor", "ceiling"]]
    limits = limits.melt(id_vars="scoring", value_name="at", var_name="limit").dropna()
    lines = alt.Chart(limits).mark_rule(strokeDash=[5, 4], opacity=0.8).encode(x="at:Q", color=colour)
    return to_svg((lines + ranges + points).properties(width=WIDTH, height=ROW * max(2, len(order))))


def outcome_chart(table: pd.DataFrame) -> str:
    """Shares of right, wrong and unanswered items of every tutor. table: label, outcome, share."""
    order = list(dict.fromkeys(table["label"]))
    domain = list(OUTCOME_COLOURS)
    chart = (
        alt.Chart(table)
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="share of items", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("label:N", sort=order, title=None),
            color=alt.Color(
                "outcome:N",
                scale=alt.Scale(domain=domain, range=list(OUTCOME_COLOURS.values())),
                legend=alt.Legend(orient="top", title=None),
            ),
            order=alt.Order("rank:Q"),
        )
    )
    return to_svg(chart.properties(width=WIDTH, height=ROW * max(2, len(order))))


def value_chart(table: pd.DataFrame, title: str) -> str:
    """How a numeric grade is spread over the items of every tutor. table: label, value."""
    order = list(dict.fromkeys(table["label"]))
    chart = (
        alt.Chart(table)
        .mark_tick(thickness=2, opacity=0.55, color=BLUE)
        .encode(
            x=alt.X("value:Q", title=title, scale=alt.Scale(nice=False)), y=alt.Y("label:N", sort=order, title=None)
        )
    )
    return to_svg(chart.properties(width=WIDTH, height=ROW * max(2, len(order))))
