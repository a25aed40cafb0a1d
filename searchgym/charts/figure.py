"""A figure: one chart, shown live on the page, and written as PNG, SVG and data beside it."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from ..storage.records import no_nan
from .palette import GRID, INK, MUTED, SERIES, Scheme, resolved

if TYPE_CHECKING:
    import altair

Row = Mapping[str, Any]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
SCALE = 2.0
"""Pixels of a PNG per point."""
_FONT = "system-ui, 'DejaVu Sans', sans-serif"
_CONFIG: Mapping[str, Any] = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "range": {"category": list(SERIES)},
    "axis": {
        "labelColor": MUTED, "titleColor": MUTED, "gridColor": GRID, "domain": False,
        "ticks": False, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal",
        "labelPadding": 6, "labelLimit": 260,
    },
    "header": {
        "labelColor": INK, "titleColor": INK, "labelFontSize": 12, "labelFontWeight": "bold",
        "labelLimit": 300,
    },
    "legend": {
        "labelColor": INK, "titleColor": MUTED, "labelFontSize": 12, "titleFontSize": 12,
        "titleFontWeight": "normal", "symbolSize": 90, "labelLimit": 320, "orient": "top",
    },
    "title": {"color": INK, "fontSize": 13, "anchor": "start", "frame": "group"},
    "text": {"color": INK, "font": _FONT},
    "aria": True,
}  # fmt: skip


WIDE, NARROW = 96, 40
"""Characters of a title's line over a wide and a narrow chart."""
Draw = Callable[..., Any]
"""Function that returns an Altair chart; ``narrow=True`` asks for one of about 300 pixels."""


@dataclass(frozen=True)
class Figure:
    """A chart with what is said about it."""

    name: str
    """Stem of its files."""
    title: str
    """The finding, as a sentence without a full stop."""
    caption: str
    """Explanation of how to read the figure."""
    alt: str
    """Text alternative for those who cannot see the figure."""
    draw: Draw
    rows: tuple[Row, ...]
    """The data behind it, one record per mark."""

    def __repr__(self) -> str:
        return f"<Figure {self.name!r}: {self.title}; save(folder) writes PNG, SVG, CSV and JSON>"

    @cached_property
    def chart(self) -> altair.TopLevelMixin:
        """The wide chart."""
        return self._drawn(narrow=False)

    def _drawn(self, narrow: bool) -> altair.TopLevelMixin:
        """A chart. Its parts are not checked one by one as they are made, for the reason given at
        :meth:`_text`: that takes a third of the time."""
        altair_module()
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            drawn: altair.TopLevelMixin = self.draw(narrow=True) if narrow else self.draw()
        return drawn

    def spec(self, narrow: bool = False) -> dict[str, Any]:
        """Vega-Lite, with colours as CSS variables; the page sets the title itself."""
        spec: dict[str, Any] = json.loads(self._narrow if narrow else self._wide)
        return spec

    @cached_property
    def _wide(self) -> str:
        return self._text(self.chart)

    @cached_property
    def _narrow(self) -> str:
        return self._text(self._drawn(narrow=True))

    def _text(self, chart: altair.TopLevelMixin) -> str:
        """The JSON of a chart. Kept, because Altair takes longer to write one than Vega to draw
        it; unchecked, because the charts are ours: tests hold them to Vega-Lite's schema."""
        spec = chart.to_dict(validate=False)
        spec["config"] = {**spec.get("config", {}), **_CONFIG}
        spec["description"] = self.alt
        return json.dumps(spec)

    def themed(self, scheme: Scheme = "light", narrow: bool = False) -> dict[str, Any]:
        """Vega-Lite with a scheme's colours, its background and the title."""
        spec: dict[str, Any] = resolved(self.spec(narrow), scheme)
        spec["background"] = resolved("var(--chart-paper)", scheme)
        spec["padding"] = 12
        lines = textwrap.wrap(self.title, NARROW if narrow else WIDE)
        spec["title"] = {
            "text": lines, "fontSize": 15, "anchor": "start", "frame": "bounds", "offset": 14,
            "color": resolved(INK, scheme),
        }  # fmt: skip
        return spec

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Shown in notebooks, also where a viewer knows pictures only."""
        import base64

        return {
            "application/vnd.vegalite.v6+json": self.themed(),
            "image/png": base64.b64encode(self.png()).decode(),
            "text/plain": self.alt,
        }

    def svg(self, scheme: Scheme | None = "light", narrow: bool = False) -> str:
        """An SVG picture; None: with colours as CSS variables and without title, for the page."""
        spec = self.spec(narrow) if scheme is None else self.themed(scheme, narrow)
        drawn: str = renderer().vegalite_to_svg(spec)
        return drawn

    def png(self, scheme: Scheme = "light", narrow: bool = False) -> bytes:
        drawn: bytes = renderer().vegalite_to_png(self.themed(scheme, narrow), scale=SCALE)
        return drawn

    def csv(self) -> str:
        """The data, a line per row; columns of all rows."""
        return to_csv(self.rows)

    def json(self) -> str:
        return json.dumps(no_nan(self.rows), ensure_ascii=False, indent=1)

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write ``name.png``, ``.svg``, ``.csv`` and ``.json`` into a folder; where they are."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        forms: dict[str, bytes] = {
            "png": self.png(), "svg": self.svg().encode(), "csv": self.csv().encode(),
            "json": self.json().encode(),
        }  # fmt: skip
        written = {}
        for form, content in forms.items():
            written[form] = folder / f"{self.name}.{form}"
            written[form].write_bytes(content)
        return written


def to_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV; what is not finite or not there is an empty field.

    A text that a spreadsheet would run as a formula gets an apostrophe in front (OWASP, CSV
    injection); numbers are left as they are.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO(newline="")
    writer = csv.writer(file)  # lines end as in RFC 4180: else a lone \r would not be quoted
    writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(no_nan(row.get(name))) for name in names] for row in rows)
    return file.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    risky = isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value)
    return f"'{value}" if risky else value


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and text[-1:].isdigit()
    except ValueError:
        return False


def altair_module() -> Any:
    """Altair; ``MissingExtraError`` where it is missing."""
    try:
        import altair
    except ImportError as error:
        raise MissingExtraError("drawing figures", "report") from error
    return altair


def props(**options: Any) -> dict[str, Any]:
    """Return options of an axis, a scale or a legend. Altair's classes for them hold a hundred
    options each, given or not, all of which it copies with every layer."""
    return options


def renderer() -> Any:
    """Return the module that draws Vega-Lite without a browser; ``MissingExtraError`` where it is
    missing."""
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("drawing figures", "report") from error
    return vl_convert
