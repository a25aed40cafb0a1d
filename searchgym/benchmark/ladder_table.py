"""The ladder on a terminal: one row a rung, one column an agent, and a sentence that sums it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from ..charts.palette import SCRIPTS
from ..evaluation.table import NONE, Column, ResultTable
from ..reports.findings import Standings, standings, tells, told_standings
from ..scoring.metrics import MAIN, label
from .table import TransferTable

if TYPE_CHECKING:
    from rich.console import Console

    from .gains import Gain

WIDTH = 80
"""Widest table, whatever the terminal: what is printed can be pasted anywhere."""
_NAME = 14
"""Agents' names are folded after so many characters."""


def print_ladder(
    table: TransferTable,
    console: Console | None = None,
    *,
    hidden: Sequence[str] = (),
    full: bool = False,
) -> None:
    """Print F1 and its 95 % interval of every agent on every rung, and what is kept of the gain.

    Args:
        table: With ``baselines`` and ``reference``, "kept" is told: the gain over the baseline on a
            rung, as a share of that on the reference rung; a dash where the agent is not above the
            best script beyond doubt. Agents with a baseline are bold.
        console: Where to print; the standard output by default.
        hidden: Agents without a column.
        full: Also exact match, recall and searches, each with its bounds, and ``hidden`` agents.
    """
    from rich.console import Console

    out = console or Console(highlight=False, emoji=False)
    agents = [a for a in table.agents if any((r, a) in table.results for r in table.rungs)]
    shown = [a for a in agents if a not in hidden] or agents
    stands = stands_of(table)
    _scores(table, shown, stands).print(out, WIDTH, split=True)
    if full:
        for metric in MAIN:
            digits = 1 if metric == "searches" else 2
            title = f"{label(metric)}: mean [95 % interval]"
            _table(table, title, agents, metric, digits).print(out, WIDTH, split=True)
    for line in verdicts(table, stands):
        out.print(f"[bold]{line}[/bold]", width=min(WIDTH, out.width))
    if not table.complete:
        out.print("[bold]Interrupted[/bold]: the table holds what was finished.")


def stands_of(table: TransferTable) -> Standings:
    """Comparison of agents that have a baseline with the best script of each rung."""
    scripts = [name for name in SCRIPTS if name in table.agents]
    cells = [
        {"rung": rung, "agent": agent, "metric": "f1", **cell._asdict()}
        for rung in table.rungs for agent in (*table.baselines, *scripts)
        if (cell := table.cell(rung, agent, "f1")) is not None and cell.n
    ]  # fmt: skip
    pairs = [{**c._asdict(), "difference": c.difference._asdict()}
             for c in table.against_scripts()]  # fmt: skip
    return standings(cells, pairs)


def verdicts(table: TransferTable, stands: Standings) -> list[str]:
    """For each agent that is compared with a baseline: its score, the rungs on which it is above
    the best script and those on which it is below, and what it keeps of its gain."""
    lines = []
    gains = {(g.agent, g.rung): g for g in table.gains()}
    for agent, baseline in table.baselines.items():
        here, before = (table.cell(table.reference, a, "f1") for a in (agent, baseline))
        if here is None or before is None:
            continue
        line = f"{agent}: F1 {here.mean:.2f} ({baseline} {before.mean:.2f}) in {table.reference}"
        told = [
            f"{gain.ratio.mean:.0%} on {r}"
            for r in table.rungs
            if table.kinds.get(r) == "real"
            and (gain := gains.get((agent, r))) is not None
            and gain.ratio is not None
            and tells(stands, gain._asdict())
        ]
        if told:
            line += f"; of that gain it keeps {', '.join(told)}"
        said = [f"{agent} is {part}." for part in told_standings(stands, agent, table.rungs)]
        lines += [text.replace("[", r"\[") for text in (f"{line}.", *said)]
    return lines


def _table(
    table: TransferTable, title: str, agents: Sequence[str], metric: str, digits: int = 2
) -> ResultTable:
    """A row a rung and a column an agent; those with a baseline are bold."""
    columns = [
        Column(a, "\n".join(wrap(a, _NAME)), digits, strong=a in table.baselines) for a in agents
    ]
    rows = [
        {
            "": f"{rung} ({table.questions(rung)})",
            **{a: table.cell(rung, a, metric) for a in agents},
        }
        for rung in table.rungs
    ]
    return ResultTable("", title, (Column("", "rung (questions)"), *columns), tuple(rows))


def _scores(table: TransferTable, agents: Sequence[str], stands: Standings) -> ResultTable:
    """F1, and "kept" beside each agent that has a baseline; the others' intervals only where there
    is room."""
    scores = _table(table, "F1: mean [95 % interval]", agents, "f1")
    gains = {(g.agent, g.rung): g for g in table.gains()}
    columns = list(scores.columns)
    rows: list[dict[str, Any]] = [dict(row) for row in scores.rows]
    own = [agent for agent in agents if agent in table.baselines]
    if own and len(agents) > 2:  # their intervals alone, so that all stand in one table
        plain = set(agents).difference(own)
        rows = [
            {k: v.mean if k in plain and v and v.n else v for k, v in row.items()} for row in rows
        ]
    for agent in own if gains else ():
        place = next(i for i, column in enumerate(columns, 1) if column.key == agent)
        key = f"kept by {agent}" if len(own) > 1 else "kept"
        columns.insert(place, Column(key, "\n".join(wrap(key, _NAME)), strong=True))
        for rung, row in zip(table.rungs, rows, strict=True):
            row[key] = _kept(gains, agent, rung, table.reference, stands)
    return replace(scores, columns=tuple(columns), rows=tuple(rows))


def _kept(
    gains: Mapping[tuple[str, str], Gain], agent: str, rung: str, reference: str, stands: Standings
) -> str:
    """Share of the gain that is left; on the reference all of it, where there is one at all."""
    if rung == reference:
        bases = [g.reference_gain for (name, _), g in gains.items() if name == agent]
        return "100 %" if bases and bases[0].mean > 0 else NONE
    gain = gains.get((agent, rung))
    if gain is None or gain.ratio is None or not tells(stands, gain._asdict()):
        return NONE
    return f"{gain.ratio.mean * 100:.0f} %"
