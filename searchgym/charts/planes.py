"""Cost against score, predictions against measurements, what budgets buy, shares of a whole; lines
and points bear their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .figure import Row, altair_module, props
from .palette import GRID, INK, MUTED, REST, SERIES, colours, shapes

_SIZE = {False: (560, 280), True: (200, 230)}
"""Narrow → width and height."""
_LETTERS = 15
"""Characters of a name in a narrow chart."""
_NAMED = 7
"""Points named on either side of a line: with more, names stand far from their points."""


def dodged(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places for labels at ``values``, in the order given: none nearer to the next than
    ``gap``, all within ``low`` and ``high`` as far as there is room, as near as that allows."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    places = [max(low, values[i]) for i in order]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    if places and places[-1] > high:
        places[-1] = high
        for i in reversed(range(len(places) - 1)):
            places[i] = min(places[i], places[i + 1] - gap)
    out = [0.0] * len(values)
    for i, place in zip(order, places, strict=True):
        out[i] = place
    return out


def _short(name: str, narrow: bool) -> str:
    return name if not narrow or len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"


def _names(base: Any, rows: Sequence[Row], y: Any, size: float) -> list[Any]:
    """Layers of the names beside points, on the side (``left``) where there is room."""
    layers = []
    for left, align in ((True, "left"), (False, "right")):
        if any(row["left"] == left for row in rows):
            text = base.transform_filter(f"datum.left == {str(left).lower()}").mark_text(
                align=align, dx=10 if left else -10, fontSize=size, color=INK, aria=False
            )
            layers.append(text.encode(y=y, text="name:N"))
    return layers


def cost_and_score(
    rows: Sequence[Row], frontier: Sequence[Row], x_title: str, y_title: str, *,
    narrow: bool = False,
) -> Any:  # fmt: skip
    """Agents in the plane of ``cost`` and ``score``, named; the line is of those that no other
    beats in both."""
    alt = altair_module()
    width, height = _SIZE[narrow]
    names = [str(row["agent"]) for row in rows]
    most = max((float(row["cost"]) for row in rows), default=0.0) or 1.0
    at = dodged([float(r["score"]) for r in rows], 15 / height, 0.03, 0.97)
    shown = [
        {**r, "at": place, "name": _short(str(r["agent"]), narrow), "left": r["cost"] <= most / 2}
        for r, place in zip(rows, at, strict=True)
    ]  # fmt: skip
    x = alt.X("cost:Q", title=x_title, scale=props(domain=[0, most], nice=True),
              axis=props(tickCount=4 if narrow else 7))  # fmt: skip

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=y_title, scale=props(domain=[0, 1]))

    colour = alt.Color("agent:N", legend=None, scale=props(domain=names, range=colours(names)))
    shape = alt.Shape("agent:N", legend=None, scale=props(domain=names, range=shapes(names)))
    base = alt.Chart(alt.Data(values=shown)).encode(x=x)
    line = alt.Chart(alt.Data(values=[dict(row) for row in frontier]))
    line = line.mark_line(color=MUTED, strokeDash=[4, 3], interpolate="step-after")
    tips = [
        alt.Tooltip("agent:N"), alt.Tooltip("cost:Q", title=x_title, format=".2f"),
        alt.Tooltip("score:Q", title=y_title, format=".3f"),
    ]  # fmt: skip
    return alt.layer(
        line.encode(x=x, y=y("score")),
        base.mark_rule(opacity=0.6, strokeWidth=2).encode(y=y("low"), y2="high:Q", color=colour),
        base.mark_point(filled=True, size=90, opacity=1).encode(
            y=y("score"), color=colour, shape=shape, tooltip=tips
        ),
        *_names(base, shown, y("at"), 12),
    ).properties(width=width, height=height)


def predicted_and_measured(
    rows: Sequence[Row], x_title: str, y_title: str, *, narrow: bool = False
) -> Any:
    """Agents in the plane of ``predicted`` and ``real`` scores; colour and shape are of their
    ``kind``; on the line both are equal. Those farthest from it are named, on either side."""
    alt = altair_module()
    width, height = _SIZE[narrow]
    kinds = list(dict.fromkeys(str(row["kind"]) for row in rows))
    top = max((max(row["predicted"], row["real"]) for row in rows), default=0.0) * 1.1 or 1.0
    far = sorted(rows, key=lambda row: -abs(row["real"] - row["predicted"]))
    named = [
        {**row, "at": place, "name": _short(str(row["agent"]), narrow), "left": not above}
        for above in (True, False)  # away from the line, where there is room
        for some in [[r for r in far if (r["real"] >= r["predicted"]) == above][:_NAMED]]
        for row, place in zip(
            some, dodged([float(r["real"]) for r in some], top * 13 / height, 0.0, top), strict=True
        )
    ]
    scale = props(domain=[0, top])
    x = alt.X("predicted:Q", title=x_title, scale=scale, axis=props(tickCount=5))

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=y_title, scale=scale)

    line = alt.Chart(alt.Data(values=[{"predicted": v, "real": v} for v in (0.0, top)]))
    base = alt.Chart(alt.Data(values=[dict(row) for row in rows])).encode(x=x)
    names = alt.Chart(alt.Data(values=named)).encode(x=x)
    keyed = {"sort": kinds, "legend": props(title=None, columns=1 if narrow else 3)}
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        y=y("real"),
        color=alt.Color("kind:N", scale=props(domain=kinds, range=colours(kinds)), **keyed),
        shape=alt.Shape("kind:N", scale=props(domain=kinds, range=shapes(kinds)), **keyed),
        tooltip=[alt.Tooltip("agent:N"), alt.Tooltip("predicted:Q", format=".3f"),
                 alt.Tooltip("real:Q", format=".3f")],
    )  # fmt: skip
    return alt.layer(
        line.mark_line(color=MUTED, strokeDash=[4, 3]).encode(x=x, y=y("real")),
        dots, *_names(names, named, y("at"), 11),
    ).properties(width=width, height=height)  # fmt: skip


def shares(
    rows: Sequence[Row], y: Sequence[str], parts: Sequence[str], x_title: str, *,
    narrow: bool = False,
) -> Any:  # fmt: skip
    """Stacked shares of 1 for each ``y``: ``y``, ``part``, ``share``."""
    alt = altair_module()
    colour = [*SERIES[1:], SERIES[0], REST]
    legend: Mapping[str, Any] = {"columns": 1 if narrow else 4, "symbolLimit": 30}
    return (
        alt.Chart(alt.Data(values=[dict(row) for row in rows]))
        .mark_bar(height={"band": 0.7}, stroke="var(--chart-paper)", strokeWidth=1)
        .encode(
            x=alt.X("share:Q", title=x_title, stack="zero", scale=props(domain=[0, 1]),
                    axis=props(format="%", tickCount=3 if narrow else 10)),
            y=alt.Y("y:N", sort=list(y), title=None,
                    axis=props(grid=False, labelLimit=130 if narrow else 230)),
            color=alt.Color(
                "part:N", sort=list(parts), legend=props(title=None, **legend),
                scale=props(domain=list(parts), range=colour[: len(parts)]),
            ),
            order=alt.Order("place:Q"),
            tooltip=["y:N", "part:N", alt.Tooltip("share:Q", format=".1%")],
        )
        .properties(width=175 if narrow else 560, height={"step": 26})
    )  # fmt: skip


def steps(
    rows: Sequence[Row], series: Sequence[str], x_title: str, y_title: str, *,
    rate: bool = True, narrow: bool = False, discrete: bool = True,
) -> Any:  # fmt: skip
    """Draw scores over growing budgets or another setting: ``x``, ``series``, ``mean``, ``low``,
    ``high``; each line bears its name at its end."""
    alt = altair_module()
    width, height = (160, 210) if narrow else (520, 240)
    names = list(series)
    colour = alt.Color(
        "series:N", legend=None, scale=props(domain=names, range=colours(names))
    )  # fmt: skip
    shape = alt.Shape("series:N", legend=None, scale=props(domain=names, range=shapes(names)))
    axis = props(tickCount=4, gridColor=GRID)
    if discrete:
        whole = {float(row["x"]) for row in rows}
        few = min(int(max(whole, default=1) - min(whole, default=0)) or 1, 4 if narrow else 10)
        axis = props(tickMinStep=1, tickCount=few, format="d", gridColor=GRID)
        if whole and max(whole) - min(whole) <= few and all(x.is_integer() for x in whole):
            axis["values"] = list(range(int(min(whole)), int(max(whole)) + 1))
    base = alt.Chart(alt.Data(values=[dict(row) for row in rows])).encode(
        x=alt.X("x:Q", title=x_title, axis=axis), color=colour
    )
    highs = [float(row["high"]) for row in rows]
    top = max([1.0, *highs]) if rate else max(highs, default=1.0)
    scale = props(domain=[0, top], nice=not rate)
    tips = [alt.Tooltip("series:N"), alt.Tooltip("x:Q", title=x_title),
            alt.Tooltip("mean:Q", format=".3f")]  # fmt: skip
    mean = alt.Y("mean:Q", title=y_title, scale=scale)
    band = base.mark_area(opacity=0.12, aria=False)
    layers = [
        band.encode(y=alt.Y("low:Q", title=y_title, scale=scale), y2="high:Q"),
        base.mark_line(point=False, strokeWidth=2).encode(y=mean),
        base.mark_point(filled=True, size=55, opacity=1).encode(y=mean, shape=shape, tooltip=tips),
    ]
    last = {str(row["series"]): float(row["mean"]) for row in rows}
    at = dodged(list(last.values()), top * 14 / height, 0.0, top)
    ends = [{"name": f"{v:.2f}  {_short(n, narrow)}", "at": place}
            for (n, v), place in zip(last.items(), at, strict=True)]  # fmt: skip
    text = alt.Chart(alt.Data(values=ends)).mark_text(
        align="left", baseline="middle", fontSize=11, color=INK, aria=False
    )
    layers.append(text.encode(
        x=alt.value(width + 8), y=alt.Y("at:Q", title=y_title, scale=scale), text="name:N"
    ))  # fmt: skip
    return alt.layer(*layers).properties(width=width, height=height)
