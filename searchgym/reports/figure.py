"""A figure: one chart, shown live on the page, and written as PNG, SVG and data beside it."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from .palette import GRID, INK, MUTED, SERIES, Scheme, resolved

if TYPE_CHECKING:
    import altair

Row = Mapping[str, Any]
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


@dataclass(frozen=True)
class Figure:
    """A chart with what is said about it."""

    name: str
    """Stem of its files."""
    title: str
    caption: str
    """Explanation of how to read the figure."""
    alt: str
    """Text alternative for those who cannot see the figure."""
    chart: altair.TopLevelMixin
    rows: tuple[Row, ...]
    """The data behind it, one record per mark."""

    @cached_property
    def spec(self) -> dict[str, Any]:
        """Vega-Lite, with colours as CSS variables."""
        found: dict[str, Any] = self.chart.to_dict()
        found["config"] = {**found.get("config", {}), **_CONFIG}
        found["description"] = self.alt
        return found

    def themed(self, scheme: Scheme = "light") -> dict[str, Any]:
        """Vega-Lite with a scheme's colours and background."""
        spec: dict[str, Any] = resolved(self.spec, scheme)
        spec["background"] = resolved("var(--chart-paper)", scheme)
        return spec

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Shown in notebooks, also where a viewer knows pictures only."""
        import base64

        return {
            "application/vnd.vegalite.v6+json": self.themed(),
            "image/png": base64.b64encode(self.png()).decode(),
            "text/plain": self.alt,
        }

    def svg(self, scheme: Scheme | None = "light") -> str:
        """An SVG picture; None: with colours as CSS variables, for the page."""
        spec = self.spec if scheme is None else self.themed(scheme)
        drawn: str = renderer().vegalite_to_svg(spec)
        return drawn

    def png(self, scheme: Scheme = "light") -> bytes:
        drawn: bytes = renderer().vegalite_to_png(self.themed(scheme), scale=SCALE)
        return drawn

    def csv(self) -> str:
        """The data, a line per row; columns of all rows."""
        return to_csv(self.rows)

    def json(self) -> str:
        return json.dumps([clean(row) for row in self.rows], ensure_ascii=False, indent=1)

    def save(self, folder: Path) -> dict[str, Path]:
        """Write ``name.png``, ``.svg``, ``.csv`` and ``.json`` into a folder; where they are."""
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
    """Rows as CSV; what is not finite or not there is an empty field."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in clean(row).items()} for row in rows)
    return file.getvalue()


def clean(row: Row) -> dict[str, Any]:
    """JSON values: a number that is not finite becomes null."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }


def charts() -> Any:
    """Altair; ``MissingExtraError`` where it is missing."""
    try:
        import altair
    except ImportError as error:
        raise MissingExtraError("drawing figures", "report") from error
    return altair


def renderer() -> Any:
    """Return the module that draws Vega-Lite without a browser; ``MissingExtraError`` where it is
    missing."""
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("drawing figures", "report") from error
    return vl_convert
