"""Saves a transfer table as JSON and CSV, and as a report with its figure."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import MissingExtraError
from ..reports.sources import CURVES
from .table import Contrast, TransferTable


def save_report(
    out_dir: Path,
    table: TransferTable,
    *,
    learned: Mapping[str, Sequence[Any]] | None = None,
    contrasts: Sequence[Contrast] = (),
) -> dict[str, Path]:
    """Write every form of the table into ``out_dir``; returns what was written by name.

    ``transfer.json``, ``transfer.csv``, and, once there is a result, ``transfer.png`` (F1 with
    intervals) and ``report.html``, which needs no other file; ``curves.json`` holds how the agents
    that were trained have ``learned`` (runs with a ``seed`` and a ``curve``). 'searchgym report'
    makes the last two again from the rest; without the extra ``report`` a warning says so, and the
    others are written.
    """
    from ..reports.ladders import figure_of
    from ..reports.page import render, report_of, write

    out_dir.mkdir(parents=True, exist_ok=True)
    written = {
        "json": table.save_json(out_dir / "transfer.json", contrasts),
        "csv": table.save_csv(out_dir / "transfer.csv"),
    }
    if learned:
        written["curves"] = write(out_dir / CURVES, _curves(learned))
    if table.results:
        short = figure_of(json.loads(written["json"].read_text(encoding="utf-8")), short=True)
        try:
            written["transfer"] = write(out_dir / "transfer.png", short.png())
            written["html"] = write(out_dir / "report.html", render(report_of([out_dir])))
        except MissingExtraError as error:  # hours of evaluation are shown all the same
            warnings.warn(f"{error}; then 'searchgym report {out_dir}'", stacklevel=2)
    return written


def _curves(learned: Mapping[str, Sequence[Any]]) -> str:
    curves = [
        {"agent": name, "seed": run.seed, "curve": run.curve}
        for name, runs in learned.items() for run in runs
    ]  # fmt: skip
    return json.dumps(curves, indent=1)
