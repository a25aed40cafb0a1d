"""The laboratory's table of gradients: measured, printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .results import resumed

SIZE, SUCCESS = 8, 0.4
"""Group size and success rate of the rows that are shown first."""
MEASURES = ("cosine", "step_cosine", "factor", "bias", "variance", "per_call", "per_token")
HEADS = {
    "cosine": "expected", "step_cosine": "one step", "bias": "bias", "variance": "variance",
    "per_call": "/100 calls", "per_token": "/1k tokens",
}  # fmt: skip
"""Columns of the table: cosine with the true gradient (of the expected gradient, of one step's),
bias (to it, and to the gradient of what the recipe pays where that is not the return) and variance
relative to the useful length, signal-to-noise."""


def measure(
    names: Sequence[str], path: Path | None = None, *, sizes: Sequence[int] | None = None,
    successes: Sequence[float] | None = None, steps: int | None = None, few: int | None = None,
    enumerate_groups: bool = True, seed: int = 0, progress: Callable[[str], object] = str,
) -> dict[str, Any]:  # fmt: skip
    """Measure methods by the exact laboratory; resumes from ``path``.

    Args:
        names: Of :func:`~searchgym_agents.lab.methods.methods`.
        sizes, successes: Group sizes and rates of exact match; by default 4, 8, 16 and .1, .4, .8.
        steps, few: Steps drawn where many are computed at once, and elsewhere.
        enumerate_groups: Look at all groups where there are few enough.
        progress: Called with each method's name before it is measured.
    """
    from .quality import FEW, SIZES, STEPS, SUCCESSES, Laboratory

    sizes, successes = list(sizes or SIZES), list(successes or SUCCESSES)
    options = {"steps": steps or STEPS, "few": few or FEW, "enumerate_groups": enumerate_groups}
    laboratory: Laboratory | None = None
    asked: set[str] = set()

    def one(name: str, result: dict[str, Any]) -> Any:
        nonlocal laboratory
        progress(name)
        if laboratory is None:
            laboratory = Laboratory(sizes, successes)
        for known, rows in result["methods"].items():  # twins of what an earlier run measured
            if "same_as" not in rows and known not in asked:
                laboratory.same_as(known)
                asked.add(known)
        asked.add(name)
        if (twin := laboratory.same_as(name)) is not None:
            return {"same_as": twin}
        qualities = laboratory.measure(name, seed=seed, **options)
        return {"rows": [_row(quality._asdict()) for quality in qualities]}

    settings = {"sizes": sizes, "successes": successes, "seed": seed, **options}
    return resumed(path, settings, names, one)


def _row(quality: dict[str, Any]) -> dict[str, Any]:
    del quality["method"]
    return {k: list(v) if isinstance(v, tuple) else v for k, v in quality.items()}


def rows_of(result: Mapping[str, Any], method: str) -> list[dict[str, Any]]:
    """A method's rows, or those of the one whose gradients are the same; [] if there are none."""
    entry = result["methods"].get(method, {})
    entry = result["methods"].get(entry.get("same_as"), entry)
    return list(entry.get("rows", ()))


def row_of(
    result: Mapping[str, Any], method: str, size: int = SIZE, success: float = SUCCESS
) -> dict[str, Any] | None:
    """The row of one size and rate; of a method without groups, that of the rate."""
    rows = [r for r in rows_of(result, method) if r["success"] == success]
    return next((r for r in rows if r["size"] == size or len(rows) == 1), None)


def lines(
    result: Mapping[str, Any], size: int = SIZE, success: float = SUCCESS
) -> list[dict[str, str]]:
    """Rows of the table, best one-step cosine first."""
    found_rows = []
    for name, entry in result["methods"].items():
        row = None if "same_as" in entry else row_of(result, name, size, success)
        if row is not None:
            found_rows.append((-(row["step_cosine"][0] or 0.0), name, row))
    return [
        {"method": name.removeprefix("advantage:"),
         **{head: cell(row, measure) for measure, head in HEADS.items()}}
        for _, name, row in sorted(found_rows, key=lambda s: s[:2])
    ]  # fmt: skip


def cell(row: Mapping[str, Any], measure: str) -> str:
    """A measure of a row; the bias with that to the gradient of what the recipe pays, where this is
    not the return."""
    own = row.get("own_bias") if measure == "bias" else None
    return shown(row[measure]) + (f" (own {shown(own)})" if own else "")


def shown(value: Sequence[float | None]) -> str:
    """A number of three digits, with half its interval where it has one."""
    mean, low, high = value
    if mean is None:
        return "-"  # nothing along the true gradient that is not noise
    text = f"{mean:z.2f}" if abs(mean) < 100 else f"{mean:.0f}"
    half = 0.0 if low is None or high is None else (high - low) / 2
    text += f" ±{half:.2f}" if half >= 0.005 else ""
    return re.sub(r"\b0\.", ".", text)
