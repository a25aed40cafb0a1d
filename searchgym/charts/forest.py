"""Marks with intervals, one below the other, their numbers at the right margin."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from .figure import Row, altair_module, props
from .palette import MUTED, colours, shapes

WIDTH, NARROW_WIDTH = 560, 146
"""Pixels of the plotting area."""
LABELS, NARROW_LABELS = 230, 130
"""Pixels that a label on the left may take; longer ones end in an ellipsis."""
SMALL = 0.1
"""Rates that all lie below are drawn on an axis that ends here, which its title says."""
MOST_NAME = 26
"""Characters of a name at the right margin."""
_SEEDS = ", each seed"
_ROW = 22


def forest(
    rows: Sequence[Row], seeds: Sequence[Row] = (), *, by: Sequence[str], x_title: str,
    rate: bool | Collection[str] = True, columns: int = 1, width: int = WIDTH,
    own_rows: bool = False, zero: float | None = None, narrow: bool = False,
) -> Any:  # fmt: skip
    """A mark with an interval for each ``y`` and, beside each other there, each of ``by``.

    Args:
        rows: ``y``, ``by``, ``mean``, ``low``, ``high`` (or None: no interval), in the order of
            their ``y``; with ``facet`` in a panel for each.
        seeds: ``y``, ``by``, ``value``, ``seed`` (and ``facet``): rings below the mark.
        rate: The scores lie in [0, 1], and so does the axis; or the facets of which that holds.
        own_rows: ``y`` and ``by`` are the same things, so that each needs one name only.
        zero: A value to draw a line at, such as no difference.
        narrow: Draw one column of about 300 pixels, in which each ``y`` has a panel of its own.
    """
    panels = []
    for facet in dict.fromkeys(r.get("facet") for r in rows):
        marks = [r for r in rows if r.get("facet") == facet]
        rings = [r for r in seeds if r.get("facet") == facet]
        unit = rate if isinstance(rate, bool) else facet in rate
        style = _Style(by, x_title, unit, width, own_rows, zero, narrow)
        if narrow and not own_rows and len(by) > 1:
            for place in dict.fromkeys(r["y"] for r in marks):
                there, below = ([r for r in part if r["y"] == place] for part in (marks, rings))
                panels.append(style.panel(there, below, title=place, whole=[*marks, *rings]))
        else:
            panels.append(style.panel(marks, rings, title=facet or "", whole=[*marks, *rings]))
    if len(panels) == 1:
        return panels[0]
    return altair_module().concat(*panels, columns=1 if narrow else columns, spacing=22)


class _Style:
    def __init__(
        self, by: Sequence[str], x_title: str, rate: bool, width: int, own_rows: bool,
        zero: float | None, narrow: bool,
    ) -> None:  # fmt: skip
        self.by, self.x_title, self.rate, self.zero, self.narrow = by, x_title, rate, zero, narrow
        self.apart = own_rows or narrow or len(by) == 1
        """Each mark has a line of its own, named on the left."""
        self.named = "by" if narrow and not own_rows and len(by) > 1 else "y"
        self.width = NARROW_WIDTH if narrow else width

    def panel(self, rows: Sequence[Row], seeds: Sequence[Row], title: str, whole: Any) -> Any:
        alt = altair_module()
        names = list(self.by)
        colour = alt.Color("by:N", legend=None, scale=props(domain=names, range=colours(names)))
        shape = alt.Shape("by:N", legend=None, scale=props(domain=names, range=shapes(names)))
        place, step = self._places(rows, seeds)
        who = alt.Tooltip("by:N", title="agent")
        tips = [
            alt.Tooltip("y:N", title=" "), who,
            *(alt.Tooltip(f"{name}:Q", format=".3f") for name in ("mean", "low", "high")),
        ]  # fmt: skip
        x = self._x(whole)
        marks = [{**r, "slot": r["by"], "half": "mark", "said": self._said(r)} for r in rows]
        base = alt.Chart(alt.Data(values=marks)).encode(**place)
        lines = base.transform_filter("isValid(datum.low)").mark_rule(
            strokeWidth=2.6, strokeCap="round", opacity=0.75
        )
        dots = base.mark_point(filled=True, size=62, opacity=1)
        text = base.mark_text(
            align="left", baseline="middle", fontSize=10.5, color=MUTED, aria=False
        )
        layers = [
            lines.encode(x=x("low"), x2="high:Q", color=colour, tooltip=tips),
            dots.encode(x=x("mean"), color=colour, shape=shape, tooltip=tips),
            text.encode(x=alt.value(self.width + 8), text="said:N"),
        ]
        if self.zero is not None:
            rule = alt.Chart(alt.Data(values=[{"at": self.zero}]))
            rule = rule.mark_rule(color=MUTED, strokeDash=[3, 3], aria=False)
            layers.insert(0, rule.encode(x=x("at")))
        if seeds:
            values = [{**r, "slot": f"{r['by']}{_SEEDS}", "half": "seeds"} for r in seeds]
            rings = alt.Chart(alt.Data(values=values)).encode(**place)
            rings = rings.mark_point(
                filled=False, size=22, strokeWidth=1.4, opacity=1, shape="circle"
            )
            told = [who, alt.Tooltip("seed:N"), alt.Tooltip("value:Q", format=".3f")]
            layers.append(rings.encode(x=x("value"), color=colour, tooltip=told))
        named = {"title": title} if title else {}
        return alt.layer(*layers, width=self.width, height=step, **named)

    def _places(self, rows: Sequence[Row], seeds: Sequence[Row]) -> tuple[dict[str, Any], Any]:
        alt = altair_module()
        limit = NARROW_LABELS if self.narrow else LABELS
        there = list(dict.fromkeys(row[self.named] for row in rows))
        order = [n for n in self.by if n in there] if self.named == "by" else there
        axis = props(grid=False, offset=4, labelLimit=limit)
        place: dict[str, Any] = {
            "y": alt.Y(
                f"{self.named}:N", title=None, axis=axis,
                scale=props(domain=order, paddingInner=0.12),
            )
        }  # fmt: skip
        with_seeds = {row["by"] for row in seeds}
        if self.apart:
            if not with_seeds:
                return place, {"step": _ROW}
            halves = props(domain=["mark", "seeds"], paddingOuter=0.25)
            place["yOffset"] = alt.YOffset("half:N", scale=halves)
            return place, {"step": _ROW + 6, "for": "position"}
        slots = [s for n in self.by for s in ([n, n + _SEEDS] if n in with_seeds else [n])]
        offsets = props(domain=slots, paddingOuter=0.3, paddingInner=0)
        place["yOffset"] = alt.YOffset("slot:N", scale=offsets)
        return place, {"step": 12, "for": "offset"}

    def _x(self, whole: Sequence[Row]) -> Any:
        """A maker of the horizontal channel, whose axis is the same for all panels of a facet."""
        alt = altair_module()
        values = [v for r in whole for k in ("mean", "low", "high", "value")
                  if (v := r.get(k)) is not None]  # fmt: skip
        title = self.x_title
        if self.rate:
            top = max(values, default=1.0)
            end = SMALL if top < SMALL else max(1.0, top)
            title += f" (axis ends at {SMALL})" if end == SMALL else ""
            scale = props(domain=[0, end], nice=False)
        else:
            marks = [0.0, *values, *([self.zero] if self.zero is not None else [])]
            scale = props(domain=[min(marks), max(marks) or 1.0], nice=True)
        axis = props(tickCount=3 if self.narrow else 5, labelFlush=False)
        return lambda name: alt.X(f"{name}:Q", title=title, scale=scale, axis=axis)

    def _said(self, row: Row) -> str:
        """The number at the margin, with the name where marks share a place on the left."""
        number = format(row["mean"], "z.2f" if self.zero != 0 else "+z.2f")
        if self.apart:
            return number
        name = str(row["by"])
        return f"{number}  {name if len(name) <= MOST_NAME else name[: MOST_NAME - 1] + '…'}"
