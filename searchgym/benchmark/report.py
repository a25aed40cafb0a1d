"""Showing a transfer table: on the terminal, as JSON and CSV, and as a report with its figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..evaluation.shown import label
from ..reports.sources import CURVES
from .table import SHOWN, Contrast, TransferTable

if TYPE_CHECKING:
    from rich.console import Console

    from .training import Learned


def print_table(
    table: TransferTable, contrasts: Sequence[Contrast] = (), console: Console | None = None
) -> None:
    """The table and its comparisons, for people."""
    from rich.console import Console
    from rich.table import Table

    out = console or Console(highlight=False)
    if console is None and not out.is_terminal:
        out = Console(highlight=False, width=140)  # piped output is not squeezed into 80 columns
    shown = Table(
        title="Transfer: mean [95 % interval] over questions", title_justify="left",
        title_style="bold", pad_edge=False,
    )  # fmt: skip
    shown.add_column("set", no_wrap=True)
    shown.add_column("agent", no_wrap=True)
    for metric in SHOWN:
        shown.add_column(label(metric), justify="right", no_wrap=True)
    for rung in table.rungs:
        here = [a for a in table.agents if (rung, a) in table.results]
        for place, agent in enumerate(here):
            first = f"[bold]{rung}[/bold]" if place == 0 else ""
            if place == 1:
                first = f"[dim]{table.questions(rung):,} questions[/dim]"
            style = "bold" if agent == "trained" else ""
            cells = [cell_text(table, rung, agent, m).replace("[", r"\[") for m in SHOWN]
            shown.add_row(first, f"[{style}]{agent}[/{style}]" if style else agent, *cells)
        shown.add_section()
    out.print(shown)
    if contrasts:
        paired = Table(
            title=f"Paired differences in {label(contrasts[0].metric)}", title_justify="left",
            title_style="bold", pad_edge=False,
        )  # fmt: skip
        for name in ("set", "difference", "mean [95 % interval]", "p (Holm)"):
            paired.add_column(name.replace("[", r"\["), no_wrap=True)
        for c in contrasts:
            d = c.difference
            mark = "[bold]" if d.excludes(0) else "[dim]"
            text = rf"{d.mean:+.3f} \[{d.low:+.3f}, {d.high:+.3f}]"
            paired.add_row(c.rung, f"{c.agent} − {c.other}", f"{mark}{text}[/]", f"{c.p_holm:.4f}")
        out.print(paired)
    if not table.complete:
        out.print("[bold]Interrupted[/bold]: the table holds what was finished.")


def save_report(
    out_dir: Path,
    table: TransferTable,
    *,
    learned: Mapping[str, Sequence[Learned]] | None = None,
    contrasts: Sequence[Contrast] = (),
) -> dict[str, Path]:
    """Write every form of the table into ``out_dir``; returns what was written by name.

    ``transfer.json``, ``transfer.csv``, and, once there is a result, ``transfer.png`` (F1 with
    intervals) and ``report.html``, which needs no other file; ``curves.json`` holds how the agents
    that were trained have ``learned``. 'searchgym report' makes the last two again from the rest.
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
        written["transfer"] = write(out_dir / "transfer.png", short.png())
        written["html"] = write(out_dir / "report.html", render(report_of([out_dir])))
    return written


def _curves(learned: Mapping[str, Sequence[Learned]]) -> str:
    found = [
        {"agent": name, "seed": run.seed, "curve": run.curve}
        for name, runs in learned.items() for run in runs
    ]  # fmt: skip
    return json.dumps(found, indent=1)


def cell_text(table: TransferTable, rung: str, agent: str, metric: str) -> str:
    """Text of a cell: ``.123 [.100, .150]``, or a dash."""
    found = table.cell(rung, agent, metric)
    if found is None or not found.n:
        return "–"
    digits = 2 if metric == "searches" else 3
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"
