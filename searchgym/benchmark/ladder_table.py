"""The ladder on a terminal: one row a rung, one column an agent, and a sentence that sums it up.

Nothing is cut off at 80 columns: bounds are left out first, then the agents go into several tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..charts.palette import SCRIPTS
from ..evaluation.table import NONE
from ..reports.findings import Standings, standings, tells, told_standings
from ..scoring.metrics import MAIN, label
from .table import TransferTable

if TYPE_CHECKING:
    from rich.console import Console

    from ..evaluation.intervals import Interval
    from .gains import Gain

WIDTH = 80
"""Widest table, whatever the terminal: what is printed can be pasted anywhere."""
_FIRST = 26
"""Characters of the first column with its margin: a rung's name and its questions."""
_NAME = 14
"""Agents' names are folded after so many characters."""


class _Column(NamedTuple):
    head: str
    cells: Sequence[str]
    bold: bool = False

    @property
    def width(self) -> int:
        folded = min(len(self.head), _NAME)
        return max(folded, *(len(line) for cell in self.cells for line in cell.split("\n"))) + 2


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
    columns = _columns(table, shown, stands)
    if _FIRST + sum(c.width for c in columns) > WIDTH:
        columns = _columns(table, shown, stands, spare=True)
    _print(out, table, "F1: mean and 95 % interval", columns)
    if full:
        for metric in MAIN:
            digits = 1 if metric == "searches" else 2
            cells = [
                _Column(a, [_cell(table.cell(r, a, metric), digits=digits, between="\n")
                            for r in table.rungs])
                for a in agents
            ]  # fmt: skip
            _print(out, table, f"{label(metric)}: mean and 95 % interval", cells)
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


def _columns(
    table: TransferTable, agents: Sequence[str], stands: Standings, *, spare: bool = False
) -> list[_Column]:
    """One column an agent, and "kept" beside each that has a baseline. ``spare``: intervals for
    these alone."""
    gains = {(g.agent, g.rung): g for g in table.gains()}
    columns = []
    for agent in agents:
        own = agent in table.baselines
        plain = spare and bool(table.baselines) and not own
        cells = [_cell(table.cell(rung, agent, "f1"), ends=not plain) for rung in table.rungs]
        columns.append(_Column(agent, cells, own))
        if own and gains:
            kept = [_kept(gains, agent, rung, table.reference, stands) for rung in table.rungs]
            columns.append(_Column("kept", kept, own))
    return columns


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


def _cell(cell: Interval | None, *, digits: int = 2, ends: bool = True, between: str = " ") -> str:
    if cell is None or not cell.n:
        return NONE
    mean = f"{cell.mean:z.{digits}f}"
    return f"{mean}{between}{cell.low:z.2f}–{cell.high:z.2f}" if ends else mean


def _print(out: Console, table: TransferTable, title: str, columns: Sequence[_Column]) -> None:
    """Print as many tables as stay within ``WIDTH``; "kept" stays beside its agent."""
    from rich.markup import escape
    from rich.table import Table

    groups: list[list[_Column]] = []
    for column in columns:
        if column.head == "kept":
            groups[-1].append(column)
        else:
            groups.append([column])
    blocks: list[list[_Column]] = [[]]
    for group in groups:
        used = _FIRST + sum(c.width for c in (*blocks[-1], *group))
        if blocks[-1] and used > min(WIDTH, out.width):
            blocks.append([])
        blocks[-1] += group
    for block in blocks:
        shown = Table(
            title=title, title_justify="left", title_style="bold", box=None, pad_edge=False,
            padding=(0, 2, 0, 0),
        )  # fmt: skip
        shown.add_column("rung (questions)", overflow="fold", max_width=_FIRST - 2)
        for column in block:
            shown.add_column(
                escape(column.head), justify="right", overflow="fold",
                min_width=min(column.width - 2, _NAME), max_width=column.width - 2,
                style="bold" if column.bold else "",
            )  # fmt: skip
        for row, rung in enumerate(table.rungs):
            name = escape(f"{rung} ({table.questions(rung)})")
            shown.add_row(name, *(c.cells[row] for c in block))
        out.print(shown)
