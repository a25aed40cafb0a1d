"""Colours of reports and figures, named once for light, dark and print.

A chart is written with CSS variables (``var(--c0)``): the page gives them values by scheme, files
get values written in. The first three series colours are Okabe and Ito's. All keep a contrast of
3 : 1 to their background and can be told apart with protanopia, deuteranopia and tritanopia.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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


_ROLES = {
    "trained": SERIES[0], "untrained": SERIES[4], "rules": SERIES[1], "oracle": SERIES[2],
}  # fmt: skip
SCRIPTS = ("first-hit", "best-sentence", "rules")
"""Scripted agents, the bars of an agent that has no untrained self."""
BARS = frozenset({*SCRIPTS, "random", "oracle", "always-refuse", "always-yes", "majority"})
"""Agents that others are measured against."""
CLOSED = " (closed book)"
"""Ends the name of an agent that was asked without tools."""
UNTRAINED = " untrained"
"""Ends the name of what an agent was before its training."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")


def colours(names: Sequence[str]) -> list[str]:
    """Return a colour for each name: agents that every table has keep theirs, and those that others
    are measured against are grey."""
    taken = {_ROLES[n] for n in names if n in _ROLES}
    # The colours of rules and oracle are given to others last, so that an agent's is the same
    # in the figures that show them and in those that do not.
    free = [c for c in SERIES if c not in taken] or list(SERIES)
    free.sort(key=[_ROLES["rules"], _ROLES["oracle"]].__contains__)
    out, given = [], 0
    for name in names:
        if name in _ROLES:
            out.append(_ROLES[name])
        elif name in BARS or name.endswith((CLOSED, UNTRAINED)):
            out.append(REST)
        else:
            out.append(free[given % len(free)])
            given += 1
    return out


def shapes(names: Sequence[str]) -> list[str]:
    """Return a shape for each name, so that colour is never the only difference."""
    return [SHAPES[i % len(SHAPES)] for i in range(len(names))]
