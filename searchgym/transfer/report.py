"""Showing a transfer table: on the terminal, and as JSON, CSV, PNG and self-contained HTML."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from . import figures
from .figures import Curve, cell_text, label
from .table import SHOWN, Contrast, TransferTable

if TYPE_CHECKING:
    from rich.console import Console


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
    curves: Mapping[str, Curve] | None = None,
    contrasts: Sequence[Contrast] = (),
    absent: Sequence[str] = (),
    title: str = "From generated worlds to real passages",
    summary: str = "",
) -> dict[str, Path]:
    """Write every form of the table into ``out_dir``; returns what was written by name.

    ``transfer.json``, ``transfer.csv``, ``transfer.png`` (F1 with intervals), ``table.png``,
    ``learning_curve.png`` where there are curves, and ``report.html``, which needs no other file.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    written = {
        "json": table.save_json(out_dir / "transfer.json", contrasts),
        "csv": table.save_csv(out_dir / "transfer.csv"),
    }
    if table.results:
        figure = figures.transfer_figure(table)
        written["transfer"] = figures.save(figure, out_dir / "transfer.png")
        written["table"] = figures.save(figures.table_figure(table), out_dir / "table.png")
    if curves and any(curves.values()):
        figure = figures.curve_figure(curves)
        written["curve"] = figures.save(figure, out_dir / "learning_curve.png")
    html = render_html(table, written, contrasts, absent, title, summary)
    written["html"] = out_dir / "report.html"
    written["html"].write_text(html, encoding="utf-8")
    return written


def render_html(
    table: TransferTable,
    written: Mapping[str, Path],
    contrasts: Sequence[Contrast],
    absent: Sequence[str],
    title: str,
    summary: str,
) -> str:
    """The report as one HTML page with its pictures inside."""
    try:
        import jinja2
    except ImportError as error:  # pragma: no cover - exercised without the extra
        raise MissingExtraError("the HTML report", "report") from error
    source = resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    pictures = {
        name: base64.b64encode(written[name].read_bytes()).decode() if name in written else ""
        for name in ("transfer", "curve")
    }
    return environment.from_string(source).render(
        title=title, summary=summary, table=table, metrics=SHOWN, label=label, figures=pictures,
        contrasts=contrasts, absent=absent, rungs=[_rung(table, r) for r in table.rungs],
    )  # fmt: skip


def _rung(table: TransferTable, rung: str) -> dict[str, Any]:
    agents = [a for a in table.agents if (rung, a) in table.results]
    settings = table.results[rung, agents[0]][0].settings if agents else {}
    return {
        "name": rung,
        "note": table.notes.get(rung, ""),
        "questions": f"{table.questions(rung):,}",
        "agents": [
            {
                "name": agent,
                "seeds": len(table.results[rung, agent]),
                "cells": [cell_text(table, rung, agent, m) for m in SHOWN],
            }
            for agent in agents
        ],
        "settings": list(_flat(settings)),
    }


_TOLD = ("corpus", "engine", "questions", "search_enabled", "versions")
_RULES = ("dialect", "k", "max_turns", "max_queries", "snippet_chars", "may_abstain", "reward")


def _flat(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [(key, _words(settings[key])) for key in _TOLD if key in settings]
    rules = settings.get("rules", {})
    return rows + [(key, _words(rules[key])) for key in _RULES if key in rules]


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return str(value)
