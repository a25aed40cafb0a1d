"""The charts: small multiples over training, marks with intervals, cost against score, shares.

Each takes plain records and returns an Altair chart in the colours of ``palette``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .figure import Row, charts
from .palette import GRID, INK, MUTED, REST, SERIES

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
_ROLES = {
    "trained": SERIES[0], "untrained": SERIES[4], "rules": SERIES[1], "oracle": SERIES[2],
}  # fmt: skip
_BARS = ("random", "first-hit", "best-sentence", "majority", "always-yes", "always-refuse")
"""Agents that others are measured against."""
_CLOSED = ", closed book"
UNTRAINED = " untrained"
"""Ends the name of what an agent was before its training."""
_SEEDS = ", each seed"
LEGEND: Mapping[str, Any] = {"columns": 6, "symbolLimit": 30, "symbolOpacity": 1}
BAND = 3
"""Seeds from which on an interval is drawn over training: of two, Student's t says next to
nothing, and the scale would show nothing else."""


def colours(names: Sequence[str]) -> list[str]:
    """A colour for each name: agents that every table has keep theirs, bars are grey."""
    taken = {_ROLES[n] for n in names if n in _ROLES}
    # The colours of rules and oracle are given to others last, so that an agent's is the same
    # in the figures that show them and in those that do not.
    free = [c for c in SERIES if c not in taken] or list(SERIES)
    free.sort(key=[_ROLES["rules"], _ROLES["oracle"]].__contains__)
    out, given = [], 0
    for name in names:
        if name in _ROLES:
            out.append(_ROLES[name])
        elif name in _BARS or name.endswith((_CLOSED, UNTRAINED)):
            out.append(REST)
        else:
            out.append(free[given % len(free)])
            given += 1
    return out


def shapes(names: Sequence[str]) -> list[str]:
    """A shape for each name, so that colour is never the only difference."""
    return [SHAPES[i % len(SHAPES)] for i in range(len(names))]


def multiples(
    rows: Sequence[Row], x_title: str, series: Sequence[str], measures: Sequence[str],
    *, marks: Sequence[Row] = (), columns: int = 3, width: int = 300, height: int = 150,
) -> Any:  # fmt: skip
    """A panel per measure, a line per series, thin ones for single seeds.

    Args:
        rows: ``measure``, ``series``, ``x`` and either ``value`` and ``seed`` (a seed's own) or
            ``mean``, ``low``, ``high`` (of all seeds).
        marks: ``x`` and ``name`` of what happened there, drawn as a line through every panel.
        series: Their order; one is drawn without legend.
    """
    alt = charts()
    several = len(series) > 1
    chosen = alt.selection_point(name="chosen", fields=["series"], bind="legend")
    legend = alt.Legend(title=None, **LEGEND) if several else None
    colour = alt.Color(
        "series:N", sort=list(series), legend=legend,
        scale=alt.Scale(domain=list(series), range=colours(series)),
    )  # fmt: skip
    dash = alt.StrokeDash(
        "series:N", sort=list(series), legend=legend,
        scale=alt.Scale(domain=list(series), range=[[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]]),
    )  # fmt: skip
    x = alt.X(
        "x:Q", title=x_title,
        axis=alt.Axis(tickCount=5, tickMinStep=1, format="~s", grid=False, labelFlush=False),
    )  # fmt: skip
    scale = alt.Scale(zero=False, nice=True)
    data = _alone(rows)
    # A scale of one value has no ticks that tell it; the value stands beside its dot.
    lines = any("mean" in row and "alone" not in row for row in data)
    axis = alt.Axis(title=None, tickCount=4, labels=lines)

    def y(name: str) -> Any:
        return alt.Y(f"{name}:Q", axis=axis, scale=scale)

    plain = alt.Chart().encode(x=x)
    thin = plain.transform_filter("isValid(datum.value)").mark_line(
        strokeWidth=1, opacity=0.4, aria=False
    )
    thin = thin.encode(y=y("value"), color=colour, detail="seed:N")
    band = plain.transform_filter(f"isValid(datum.low) && datum.seeds >= {BAND}")
    band = band.mark_area(opacity=0.16, aria=False).encode(y=y("low"), y2="high:Q", color=colour)
    mean = plain.transform_filter("isValid(datum.mean)").mark_line(strokeWidth=2.2, aria=False)
    mean = mean.encode(y=y("mean"), color=colour)
    if several:
        mean = mean.encode(
            strokeDash=dash, opacity=alt.condition(chosen, alt.value(1), alt.value(0.12))
        ).add_params(chosen)
    layers = [thin, mean]
    if any(row.get("seeds", 0) >= BAND for row in rows):
        layers.insert(0, band)
    tips = [
        alt.Tooltip("series:N"), alt.Tooltip("x:Q", title=x_title, format=",.0f"),
        alt.Tooltip("mean:Q", format=".4~g"), alt.Tooltip("low:Q", format=".4~g"),
        alt.Tooltip("high:Q", format=".4~g"),
    ]  # fmt: skip
    hover = plain.transform_filter("isValid(datum.mean)")
    hover = hover.mark_point(opacity=0, size=140, filled=True, aria=False)
    layers.append(hover.encode(y=y("mean"), tooltip=tips))
    if any("alone" in row for row in data):
        dot = plain.transform_filter("datum.alone").mark_point(filled=True, size=50, aria=False)
        layers.append(dot.encode(y=y("mean"), color=colour, opacity=alt.value(1)))
        worth = plain.transform_filter("datum.alone").mark_text(dy=-12, color=MUTED, aria=False)
        layers.append(worth.encode(y=y("mean"), text=alt.Text("mean:Q", format=".4~g")))
    if marks:
        data += [{**mark, "measure": m} for mark in marks for m in measures]
        told = plain.transform_filter("isValid(datum.name)")
        layers.append(
            told.mark_rule(color=MUTED, strokeDash=[3, 3], strokeWidth=1.2).encode(
                tooltip=[alt.Tooltip("name:N", title="warning"), alt.Tooltip("x:Q", title=x_title)]
            )
        )
    drawn = alt.layer(*layers).properties(width=width, height=height)
    header = alt.Header(title=None, labelAnchor="start", labelPadding=4)
    return (
        drawn.facet(
            facet=alt.Facet("measure:N", sort=list(measures), header=header), columns=columns,
            data=alt.Data(values=data), spacing={"row": 22, "column": 26},
        )
        .resolve_scale(y="independent")
        .resolve_axis(x="independent")
    )  # fmt: skip


def _alone(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows, marked ``alone`` where a series has one point, of which no line can be drawn."""
    points = Counter((r["measure"], r["series"]) for r in rows if r.get("mean") is not None)
    return [
        {**r, "alone": True}
        if r.get("mean") is not None and points[r["measure"], r["series"]] == 1
        else dict(r)
        for r in rows
    ]


def forest(
    rows: Sequence[Row], seeds: Sequence[Row] = (), *, by: Sequence[str], x_title: str,
    domain: Sequence[float] | None = (0, 1), columns: int = 1, width: int = 700,
    step: float = 11, own_rows: bool = False,
) -> Any:  # fmt: skip
    """A mark with an interval for each ``y`` and, beside each other there, each of ``by``.

    Args:
        rows: ``y``, ``by``, ``mean``, ``low``, ``high``, in the order of their ``y``; with
            ``facet`` in a panel for each.
        seeds: ``y``, ``by``, ``value``, ``seed`` (and ``facet``): rings below the mark.
        domain: Of the scores; None: as wide as each panel needs.
        own_rows: ``y`` and ``by`` are the same things: no legend is needed.
    """
    alt = charts()
    panels = [
        _panel(
            [r for r in rows if r.get("facet") == facet],
            [r for r in seeds if r.get("facet") == facet],
            by, x_title, domain, width, step, own_rows,
        ).properties(**({"title": facet} if facet else {}))
        for facet in dict.fromkeys(r.get("facet") for r in rows)
    ]  # fmt: skip
    if len(panels) == 1:
        return panels[0]
    return alt.concat(*panels, columns=columns, spacing=24)


def _panel(
    rows: Sequence[Row], seeds: Sequence[Row], by: Sequence[str], x_title: str,
    domain: Sequence[float] | None, width: int, step: float, own_rows: bool,
) -> Any:  # fmt: skip
    alt = charts()
    names, with_seeds = list(by), {row["by"] for row in seeds}
    slots = [slot for n in names for slot in ([n, n + _SEEDS] if n in with_seeds else [n])]
    beside = len(slots) > 1 and not own_rows
    legend = alt.Legend(title=None, **LEGEND) if len(names) > 1 and not own_rows else None
    colour = alt.Color("by:N", legend=legend, scale=alt.Scale(domain=names, range=colours(by)))
    shape = alt.Shape("by:N", legend=legend, scale=alt.Scale(domain=names, range=shapes(by)))
    scale = alt.Scale(domain=list(domain)) if domain else alt.Scale(zero=True)
    order = list(dict.fromkeys(row["y"] for row in rows))
    place: dict[str, Any] = {
        "y": alt.Y(
            "y:N", title=None, axis=alt.Axis(grid=False, offset=4),
            scale=alt.Scale(domain=order, paddingInner=0.12),
        )
    }  # fmt: skip
    if beside:
        offsets = alt.Scale(domain=slots, paddingOuter=0.3, paddingInner=0)
        place["yOffset"] = alt.YOffset("slot:N", scale=offsets)
    who = alt.Tooltip("by:N", title="agent")
    tips = [alt.Tooltip("y:N", title=" "), who, *_interval_tips()]

    def x(name: str) -> Any:
        axis = alt.Axis(tickCount=5, labelFlush=False)
        return alt.X(f"{name}:Q", title=x_title, scale=scale, axis=axis)

    whole = alt.Chart(alt.Data(values=[{**r, "slot": r["by"]} for r in rows])).encode(**place)
    lines = whole.mark_rule(strokeWidth=2.6, strokeCap="round", opacity=0.75)
    dots = whole.mark_point(filled=True, size=62, opacity=1)
    text = whole.mark_text(align="left", dx=8, fontSize=10.5, color=MUTED, aria=False)
    layers = [
        lines.encode(x=x("low"), x2="high:Q", color=colour, tooltip=tips),
        dots.encode(x=x("mean"), color=colour, shape=shape, tooltip=tips),
        text.encode(x=x("high"), text=alt.Text("mean:Q", format=".2f")),
    ]
    if seeds:
        values = [{**r, "slot": f"{r['by']}{_SEEDS}"} for r in seeds]
        rings = alt.Chart(alt.Data(values=values)).encode(**place)
        rings = rings.mark_point(filled=False, size=22, strokeWidth=1.4, opacity=1, shape="circle")
        told = [who, alt.Tooltip("seed:N"), alt.Tooltip("value:Q", format=".3f")]
        layers.append(rings.encode(x=x("value"), color=colour, tooltip=told))
    height: Any = {"step": step, "for": "offset"} if beside else {"step": 22}
    return alt.layer(*layers).properties(width=width, height=height)


def _interval_tips() -> list[Any]:
    alt = charts()
    return [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("mean", "low", "high")]


def cost_and_score(
    rows: Sequence[Row], frontier: Sequence[Row], x_title: str, y_title: str
) -> Any:  # fmt: skip
    """Agents in the plane of ``cost`` and ``score``, named; the line is of those that no other
    beats in both."""
    alt = charts()
    names = [str(row["agent"]) for row in rows]
    x = alt.X("cost:Q", title=x_title, scale=alt.Scale(zero=True, nice=True))
    y = alt.Y("score:Q", title=y_title, scale=alt.Scale(domain=[0, 1]))
    colour = alt.Color(
        "agent:N", sort=names, legend=None, scale=alt.Scale(domain=names, range=colours(names))
    )
    shape = alt.Shape(
        "agent:N", sort=names, legend=None, scale=alt.Scale(domain=names, range=shapes(names))
    )
    values = alt.Data(values=[dict(row) for row in rows])
    line = alt.Chart(alt.Data(values=[dict(row) for row in frontier]))
    line = line.mark_line(color=MUTED, strokeDash=[4, 3], interpolate="step-after")
    base = alt.Chart(values).encode(x=x, y=y)
    tips = [
        alt.Tooltip("agent:N"), alt.Tooltip("cost:Q", title=x_title, format=".2f"),
        alt.Tooltip("score:Q", title=y_title, format=".3f"),
    ]  # fmt: skip
    ranges = alt.Chart(values).mark_rule(opacity=0.6, strokeWidth=2)
    ranges = ranges.encode(
        x=x, y=alt.Y("low:Q", title=y_title, scale=alt.Scale(domain=[0, 1])), y2="high:Q",
        color=colour,
    )  # fmt: skip
    dots = base.mark_point(filled=True, size=90, opacity=1)
    text = base.mark_text(align="left", dx=9, dy=-7, fontSize=12, color=INK)
    return alt.layer(
        line.encode(x=x, y=y), ranges, dots.encode(color=colour, shape=shape, tooltip=tips),
        text.encode(text="agent:N"),
    ).properties(width=560, height=280)  # fmt: skip


def shares(rows: Sequence[Row], y: Sequence[str], parts: Sequence[str], x_title: str) -> Any:
    """Stacked shares of 1 for each ``y``: ``y``, ``part``, ``share``."""
    alt = charts()
    colour = [*SERIES[1:], SERIES[0], REST]
    return (
        alt.Chart(alt.Data(values=[dict(row) for row in rows]))
        .mark_bar(height={"band": 0.7}, stroke="var(--chart-paper)", strokeWidth=1)
        .encode(
            x=alt.X("share:Q", title=x_title, axis=alt.Axis(format="%"), stack="zero",
                    scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("y:N", sort=list(y), title=None, axis=alt.Axis(grid=False)),
            color=alt.Color(
                "part:N", sort=list(parts), legend=alt.Legend(title=None, **LEGEND),
                scale=alt.Scale(domain=list(parts), range=colour[: len(parts)]),
            ),
            order=alt.Order("place:Q"),
            tooltip=["y:N", "part:N", alt.Tooltip("share:Q", format=".1%")],
        )
        .properties(width=560, height={"step": 26})
    )  # fmt: skip


def steps(rows: Sequence[Row], series: Sequence[str], x_title: str, y_title: str) -> Any:
    """Draw scores over growing budgets: ``x``, ``series``, ``mean``, ``low``, ``high``."""
    alt = charts()
    names = list(series)
    colour = alt.Color(
        "series:N", sort=names, legend=alt.Legend(title=None, **LEGEND),
        scale=alt.Scale(domain=names, range=colours(names)),
    )  # fmt: skip
    shape = alt.Shape(
        "series:N", sort=names, legend=alt.Legend(title=None, **LEGEND),
        scale=alt.Scale(domain=names, range=shapes(names)),
    )  # fmt: skip
    base = alt.Chart(alt.Data(values=[dict(row) for row in rows])).encode(
        x=alt.X("x:Q", title=x_title, axis=alt.Axis(tickMinStep=1, format="d", gridColor=GRID)),
        color=colour,
    )
    scale = alt.Scale(domain=[0, 1])
    band = base.mark_area(opacity=0.12, aria=False)
    line = base.mark_line(point=False, strokeWidth=2)
    dots = base.mark_point(filled=True, size=55, opacity=1)
    tips = [alt.Tooltip("series:N"), alt.Tooltip("x:Q", title=x_title),
            alt.Tooltip("mean:Q", format=".3f")]  # fmt: skip
    mean = alt.Y("mean:Q", title=y_title, scale=scale)
    return alt.layer(
        band.encode(y=alt.Y("low:Q", title=y_title, scale=scale), y2="high:Q"),
        line.encode(y=mean), dots.encode(y=mean, shape=shape, tooltip=tips),
    ).properties(width=560, height=240)  # fmt: skip
