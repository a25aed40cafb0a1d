"""Figures of a transfer run: who scores what where, and how the agent learned.

Okabe-Ito colours (distinguishable with every common colour blindness); agents also differ by their
place and label, curves by their line style.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from .table import SHOWN, TransferTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY, BLUE, ORANGE, GREEN, RED = "#777777", "#0072B2", "#E69F00", "#009E73", "#D55E00"
_COLOURS = {"trained": RED, "untrained": ORANGE, "rules": BLUE, "oracle": GREEN}
_LABELS = {
    "em": "EM", "f1": "F1", "cover_em": "cover-EM", "evidence_recall": "evidence recall",
    "searches": "searches",
}  # fmt: skip
_STYLES = ("-", "--", ":", "-.")
Curve = Sequence[Mapping[str, float]]
"""Points of a training run: ``episodes`` and metrics such as ``f1`` and ``searches``."""


def label(metric: str) -> str:
    """How a metric is called in tables and figures."""
    return _LABELS.get(metric, metric)


def transfer_figure(table: TransferTable, metric: str = "f1") -> Figure:
    """One panel per rung, one row per agent: mean and 95 % interval."""
    pyplot = _pyplot()
    rungs = [r for r in table.rungs if any((r, a) in table.results for a in table.agents)]
    agents = [a for a in table.agents if any((r, a) in table.results for r in rungs)]
    columns = min(4, len(rungs))
    lines = -(-len(rungs) // columns)
    figure, axes = pyplot.subplots(
        lines, columns, figsize=(2.0 + 2.7 * columns, 0.9 + lines * (0.85 + 0.27 * len(agents))),
        sharex=True, sharey=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    places = {agent: len(agents) - i for i, agent in enumerate(agents)}
    for axis, rung in zip(axes.flat, rungs, strict=False):
        for agent in agents:
            found = table.cell(rung, agent, metric)
            if found is None or not found.n:
                continue
            colour, y = _COLOURS.get(agent, GREY), places[agent]
            axis.plot([found.low, found.high], [y, y], color=colour, linewidth=2.5)
            axis.plot(found.mean, y, "o", color=colour, markersize=6)
            right = found.high < 0.8
            axis.text(
                found.high + 0.025 if right else found.low - 0.025, y, f"{found.mean:.2f}",
                va="center", ha="left" if right else "right", fontsize=8, color="#222222",
            )  # fmt: skip
        axis.set_title(f"{rung}\n{table.questions(rung):,} questions", fontsize=9.5)
        axis.set_xlim(-0.03, 1.03)
        axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"], fontsize=8)
        axis.set_ylim(0.4, len(agents) + 0.6)
        axis.set_yticks(list(places.values()), list(places), fontsize=9)
        axis.grid(axis="x", color="#dddddd", linewidth=0.7)
        axis.tick_params(length=0)
        axis.spines[["top", "right", "left"]].set_visible(False)
    for axis in axes.flat[len(rungs) :]:
        axis.set_visible(False)
    for axis in axes.flat[max(0, len(rungs) - columns) : len(rungs)]:
        axis.tick_params(labelbottom=True)
    figure.supxlabel(f"{label(metric)} (mean over questions, 95 % interval)", fontsize=9.5)
    return figure


def curve_figure(curves: Mapping[str, Curve]) -> Figure:
    """Learning curves: F1 and searches per question over training episodes, one line per seed."""
    pyplot = _pyplot()
    figure, (top, bottom) = pyplot.subplots(
        2, 1, figsize=(6.4, 5.0), sharex=True, layout="constrained", height_ratios=(3, 2)
    )
    for number, (name, points) in enumerate(curves.items()):
        x = [p["episodes"] / 1000 for p in points]
        style = _STYLES[number % len(_STYLES)]
        colour = (RED, BLUE, GREEN, ORANGE)[number % 4]
        top.plot(x, [p["f1"] for p in points], style, color=colour, label=name, marker=".")
        bottom.plot(x, [p["searches"] for p in points], style, color=colour, marker=".")
    top.set_ylabel("F1, development questions")
    top.set_ylim(0, 1)
    bottom.set_ylabel("searches per question")
    highest = max((p["searches"] for points in curves.values() for p in points), default=1.0)
    bottom.set_ylim(0, 1.15 * max(1.0, highest))
    bottom.set_xlabel("training episodes (thousands)")
    if len(curves) > 1:
        top.legend(frameon=False, loc="lower right", fontsize=9)
    for axis in (top, bottom):
        axis.grid(color="#dddddd", linewidth=0.7)
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def table_figure(table: TransferTable) -> Figure:
    """The table as a picture: one block per rung, mean and interval in each cell."""
    pyplot = _pyplot()
    body: list[tuple[str, list[str]]] = []
    for rung in table.rungs:
        here = [a for a in table.agents if (rung, a) in table.results]
        if here:
            body.append((f"{rung} ({table.questions(rung):,} questions)", []))
        for agent in here:
            body.append((agent, [cell_text(table, rung, agent, m) for m in SHOWN]))
    height = 0.235 * (len(body) + 1) + 0.3
    figure = pyplot.figure(figsize=(9.2, height))
    axis = figure.add_axes((0.02, 0.02, 0.96, 0.96))
    axis.set_axis_off()
    axis.set_xlim(0, 1)
    axis.set_ylim(len(body) + 1, -0.2)
    places = (0.36, 0.57, 0.78, 0.99)
    for place, metric in zip(places, SHOWN, strict=True):
        axis.text(place, 0.3, label(metric), ha="right", va="center", weight="bold", fontsize=10)
    for row, (name, cells) in enumerate(body, 1):
        if not cells:
            axis.axhline(row - 0.45, color="#999999", linewidth=0.7)
            axis.text(0.0, row + 0.05, name, va="center", weight="bold", fontsize=9.5)
            continue
        strong = "bold" if name == "trained" else "normal"
        axis.text(0.02, row, name, va="center", fontsize=9.5, weight=strong)
        for place, text in zip(places, cells, strict=True):
            axis.text(place, row, text, ha="right", va="center", fontsize=9, weight=strong)
    return figure


def cell_text(table: TransferTable, rung: str, agent: str, metric: str) -> str:
    """``.123 [.100, .150]``, or a dash."""
    found = table.cell(rung, agent, metric)
    if found is None or not found.n:
        return "–"
    digits = 2 if metric == "searches" else 3
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def save(figure: Figure, path: Path) -> Path:
    """Write a PNG and release the figure."""
    figure.savefig(path, dpi=150, facecolor="white")
    _pyplot().close(figure)
    return path


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("drawing figures", "report") from error
    if "matplotlib.pyplot" not in sys.modules and "MPLBACKEND" not in os.environ:
        matplotlib.use("Agg")  # needs no display; a notebook has chosen its own already
    import matplotlib.pyplot as pyplot

    return pyplot
