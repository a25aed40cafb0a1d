"""A part's report as lines of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

WIDTH = 80
HIDDEN = ("passes", "curve", "packages", "host", "config")


def lines(part: str, report: Mapping[str, Any]) -> Iterator[str]:
    """Yield a heading, then each table within the report: its name, and its numbers."""
    yield f"\n{part} ".ljust(WIDTH + 1, "-")
    for name, table in tables(report):
        text = "  ".join(f"{key}\u00a0{_cell(value)}" for key, value in table.items())
        yield from textwrap.wrap(
            f"{name}: {text}" if name else text, WIDTH, subsequent_indent="    "
        )
    if report.get("curve"):
        yield from curve(report["curve"])


def tables(report: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the report and the tables within it, by name; each without those within it."""
    shown = {key: value for key, value in report.items() if key not in HIDDEN and value is not None}
    if plain := {key: value for key, value in shown.items() if not isinstance(value, Mapping)}:
        yield name, plain
    for key, value in shown.items():
        if isinstance(value, Mapping):
            yield from tables(value, f"{name}: {key}" if name else key)


def curve(steps: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the learning curve, about 20 of its steps."""
    heads = ("reward", "em", "searches", "written", "play s", "update s")
    yield f"{'step':>6}" + "".join(f"{head:>11}" for head in heads)
    for entry in steps[:: max(1, len(steps) // 20)]:
        names = ("reward", "em", "searches", "written", "rollout_s", "update_s")
        numbers = [float(entry.get(name) or 0.0) for name in names]
        yield f"{entry['step']:>6}" + "".join(f"{number:>11,.3f}" for number in numbers)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return " ".join(str(value).split())
