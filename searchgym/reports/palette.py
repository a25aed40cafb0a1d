"""Colours of reports and figures, named once for light, dark and print.

A chart is written with CSS variables (``var(--c0)``): the page gives them values by scheme, files
get values written in. The first three series colours are Okabe and Ito's. All keep a contrast of
3 : 1 to their background and can be told apart with protanopia, deuteranopia and tritanopia.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

Scheme = Literal["light", "dark"]

SCHEMES: Mapping[Scheme, Mapping[str, str]] = {
    "light": {
        "chart-ink": "#1d2228", "chart-muted": "#565d66", "chart-grid": "#dcdfe3",
        "chart-paper": "#ffffff",
        "c0": "#d55e00", "c1": "#0072b2", "c2": "#009e73", "c3": "#7a1f4f", "c4": "#b07cd8",
        "c5": "#26215e", "c6": "#767c83",
    },
    "dark": {
        "chart-ink": "#e8eaed", "chart-muted": "#a9b0b8", "chart-grid": "#363c44",
        "chart-paper": "#15181c",
        "c0": "#ff8a3d", "c1": "#4aa8e0", "c2": "#16a07a", "c3": "#ffc9e3", "c4": "#a85cff",
        "c5": "#fff3b0", "c6": "#8f959d",
    },
}  # fmt: skip
SERIES = tuple(f"var(--c{i})" for i in range(6))
"""Colours of series, in the order in which they are given out."""
REST = "var(--c6)"
"""Colour of what is there for comparison."""
INK, MUTED, GRID = "var(--chart-ink)", "var(--chart-muted)", "var(--chart-grid)"

_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")


def css() -> str:
    """A rule that gives the variables their values in both schemes."""
    pairs = zip(SCHEMES["light"].items(), SCHEMES["dark"].values(), strict=True)
    declared = " ".join(f"--{name}: light-dark({a}, {b});" for (name, a), b in pairs)
    return f":root {{ {declared} }}"


def resolved(value: Any, scheme: Scheme) -> Any:
    """A chart's JSON with its variables replaced by a scheme's colours."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda m: SCHEMES[scheme][m[1]], value)
    if isinstance(value, Mapping):
        return {key: resolved(inner, scheme) for key, inner in value.items()}
    if isinstance(value, list):
        return [resolved(inner, scheme) for inner in value]
    return value
