"""Small multiples over training: a panel per measure, a line per series."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .figure import Row, altair_module, props
from .forest import SMALL
from .palette import MUTED, colours

LEGEND: Mapping[str, Any] = {"symbolLimit": 30, "symbolOpacity": 1, "labelLimit": 260}
WIDTH, NARROW_WIDTH, HEIGHT = 286, 262, 150
"""Pixels of a panel's plotting area."""
LETTERS = 40
"""Characters of a line of a panel's title."""
MARKS = "marks"
"""Name of the data of marks."""


def multiples(
    rows: Sequence[Row], x_title: str, series: Sequence[str], measures: Sequence[str],
    *, marks: Sequence[Row] = (), rates: Collection[str] = (), columns: int = 3,
    narrow: bool = False,
) -> Any:  # fmt: skip
    """A panel per measure, a line per series, thin ones for single seeds.

    Args:
        rows: ``measure``, ``series``, ``x`` and either ``value`` and ``seed`` (a seed's own) or
            ``mean``, ``low``, ``high`` (of all seeds).
        marks: ``x`` and ``name`` of what happened there, drawn as a line through every panel.
        series: Their order; one is drawn without legend.
        rates: Measures in [0, 1], whose axes are so, too; where all values are below
            :data:`searchgym.charts.forest.SMALL` the axis ends there, and the panel says so.
    """
    alt = altair_module()
    chosen = alt.selection_point(name="chosen", fields=["series"], bind="legend")
    data = _alone(rows)
    by_measure = {m: [r for r in data if r["measure"] == m] for m in measures}
    panels = [
        _panel(
            by_measure[measure], f"panel-{place}", measure, x_title, series, bool(marks),
            measure in rates, chosen, narrow, first=place == 0,
        )
        for place, measure in enumerate(measures)
    ]  # fmt: skip
    # Layers name their data, which stand here once: Altair copies what a layer holds many times.
    named = {f"panel-{i}": panel_rows for i, panel_rows in enumerate(by_measure.values())}
    if marks:
        named[MARKS] = [dict(mark) for mark in marks]
    apart = alt.Resolve(scale=alt.ScaleResolveMap(x="independent", y="independent"))
    return alt.concat(
        *panels, columns=1 if narrow else columns, spacing={"row": 22, "column": 26},
        resolve=apart, datasets=named,
    )  # fmt: skip


def _panel(
    rows: Sequence[Row], name: str, measure: str, x_title: str, series: Sequence[str],
    marked: bool, rate: bool, chosen: Any, narrow: bool, *, first: bool,
) -> Any:  # fmt: skip
    alt = altair_module()
    several = len(series) > 1
    legend = props(title=None, columns=1 if narrow else 6, **LEGEND) if several else None
    names = list(series)
    colour = alt.Color(
        "series:N", sort=names, legend=legend,
        scale=props(domain=names, range=colours(names)),
    )  # fmt: skip
    dash = alt.StrokeDash(
        "series:N", sort=names, legend=legend,
        scale=props(domain=names, range=[[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]]),
    )  # fmt: skip
    x = alt.X(
        "x:Q", title=x_title,
        axis=props(tickCount=4, tickMinStep=1, format="~s", grid=False, labelFlush=False),
    )  # fmt: skip
    values = [v for r in rows for k in ("value", "mean", "low", "high")
              if (v := r.get(k)) is not None]  # fmt: skip
    # An axis that begins at 0 does not make a small change look like a large one.
    title, scale = measure, props(zero=min(values, default=0) >= 0, nice=True)
    if rate:
        small = max(values, default=1.0) < SMALL
        title += f" (axis ends at {SMALL})" if small else ""
        scale = props(domain=[0, SMALL if small else 1])
    # A scale of one value has no ticks that tell it; the value stands beside its dot.
    lines = rate or any("mean" in row and "alone" not in row for row in rows)
    axis = props(title=None, tickCount=4, labels=lines)

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", axis=axis, scale=scale)

    plain = alt.Chart(alt.NamedData(name)).encode(x=x)
    thin = plain.transform_filter("isValid(datum.value)").mark_line(
        strokeWidth=1, opacity=0.4, aria=False
    )
    layers = [thin.encode(y=y("value"), color=colour, detail="seed:N")]
    if any(row.get("low") is not None for row in rows):
        band = plain.transform_filter("isValid(datum.low)")
        band = band.mark_area(opacity=0.16, aria=False)
        layers.insert(0, band.encode(y=y("low"), y2="high:Q", color=colour))
    mean = plain.transform_filter("isValid(datum.mean)").mark_line(strokeWidth=2.2, aria=False)
    mean = mean.encode(y=y("mean"), color=colour)
    if several:
        mean = mean.encode(
            strokeDash=dash, opacity=alt.condition(chosen, alt.value(1), alt.value(0.12))
        )
        if first:  # one selection is for all panels
            mean = mean.add_params(chosen)
    layers.append(mean)
    tips = [
        alt.Tooltip("series:N"), alt.Tooltip("x:Q", title=x_title, format=",.0f"),
        alt.Tooltip("mean:Q", format=".4~g"), alt.Tooltip("low:Q", format=".4~g"),
        alt.Tooltip("high:Q", format=".4~g"),
    ]  # fmt: skip
    hover = plain.transform_filter("isValid(datum.mean)")
    hover = hover.mark_point(opacity=0, size=140, filled=True, aria=False)
    layers.append(hover.encode(y=y("mean"), tooltip=tips))
    if any("alone" in row for row in rows):
        dot = plain.transform_filter("datum.alone").mark_point(filled=True, size=50, aria=False)
        layers.append(dot.encode(y=y("mean"), color=colour, opacity=alt.value(1)))
        worth = plain.transform_filter("datum.alone").mark_text(dy=-12, color=MUTED, aria=False)
        layers.append(worth.encode(y=y("mean"), text=alt.Text("mean:Q", format=".4~g")))
    if marked:
        told = alt.Chart(alt.NamedData(MARKS)).encode(x=x)
        layers.append(
            told.mark_rule(color=MUTED, strokeDash=[3, 3], strokeWidth=1.2).encode(
                tooltip=[alt.Tooltip("name:N", title="warning"), alt.Tooltip("x:Q", title=x_title)]
            )
        )
    width = NARROW_WIDTH if narrow else WIDTH
    return alt.layer(*layers, width=width, height=HEIGHT, title=textwrap.wrap(title, LETTERS))


def _alone(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows, marked ``alone`` where a series has one point, of which no line can be drawn."""
    points = Counter((r["measure"], r["series"]) for r in rows if r.get("mean") is not None)
    return [
        {**r, "alone": True}
        if r.get("mean") is not None and points[r["measure"], r["series"]] == 1
        else dict(r)
        for r in rows
    ]
