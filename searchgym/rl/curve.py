"""The learning curve of a run, drawn from its log."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError, MissingExtraError
from .log import LOG

PANELS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("reward", ("reward", "em", "f1")),
    ("searches and turns per episode", ("searches", "turns")),
    ("share", ("invalid", "truncated", "equal_groups")),
    ("entropy, nats per token", ("entropy",)),
)
_COLOURS = ("#D55E00", "#0072B2", "#009E73")  # Okabe and Ito's
_STYLES = ("-", "--", ":")


def read_log(out: Path) -> list[dict[str, Any]]:
    """The rows of a run's ``rl.jsonl``; a half-written last line is left out."""
    try:
        lines = (out / LOG).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DataError(f"{out / LOG} does not exist: nothing was trained there") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            if number < len(lines):
                raise DataError(f"{out / LOG}, line {number}: {error}") from error
    return rows


def smoothed(values: Sequence[float | None], weight: float = 0.2) -> list[float]:
    """The moving average in which the newest value weighs ``weight`` (at the beginning: the plain
    mean so far). Nulls repeat the last value."""
    out: list[float] = []
    mean, seen = float("nan"), 0
    for value in values:
        if value is not None:
            seen += 1
            share = max(weight, 1 / seen)
            mean = value if seen == 1 else (1 - share) * mean + share * value
        out.append(mean)
    return out


def save_curve(out: Path, rows: Sequence[Mapping[str, Any]] | None = None) -> Path:
    """Draw ``out/curve.png``: each measure thin, its moving average thick; steps with a warning are
    marked.

    Raises:
        DataError: there is no log, or it is empty.
        MissingExtraError: matplotlib is missing.
    """
    rows = read_log(out) if rows is None else rows
    if not rows:
        raise DataError(f"{out / LOG} is empty: no step was finished")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("a learning curve", "report") from error
    figure = Figure(figsize=(9, 6), layout="constrained")
    steps = [row["step"] for row in rows]
    for axis, (title, names) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        for name, colour, style in zip(names, _COLOURS, _STYLES, strict=False):
            values = [row.get(name) for row in rows]
            if all(value is None for value in values):
                continue
            plain = [float("nan") if value is None else value for value in values]
            axis.plot(steps, plain, color=colour, linewidth=0.6, alpha=0.35)
            axis.plot(steps, smoothed(values), style, color=colour, label=name.replace("_", " "))
        for row in rows:
            if row.get("warnings"):
                axis.axvline(row["step"], color="#777777", linewidth=0.8, linestyle=":")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("step", fontsize=9)
        axis.grid(color="#dddddd", linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
        if axis.lines:
            axis.legend(fontsize=8, frameon=False)
    path = out / "curve.png"
    partial = out / "curve.part.png"
    FigureCanvasAgg(figure)
    figure.savefig(partial, dpi=130)
    os.replace(partial, path)
    return path
