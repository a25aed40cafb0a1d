"""Agents of the transfer benchmark: those trained for it, and what their gains are counted from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..charts.palette import BARS as BARS
from ..charts.palette import SCRIPTS as SCRIPTS
from ..errors import CardError, unknown
from ..types import Agent
from .lacks import lacks
from .ladder import REAL_SETS, Ladder
from .table import TransferTable, save_report

UNTRAINED, BEST = "untrained", "best"


@dataclass
class Trained:
    """Agents by name, one per seed each, and whose gains are counted from whom."""

    agents: dict[str, list[Agent]] = field(default_factory=dict)
    untrained: dict[str, str] = field(default_factory=dict)
    """Trained agent → its untrained self."""
    learned: dict[str, list[Any]] = field(default_factory=dict)
    """Trained agent → its runs, each with a ``seed`` and a ``curve``."""


def baselines(
    table: TransferTable, contenders: Sequence[str], untrained: Mapping[str, str], wanted: str
) -> dict[str, str]:
    """Contender → the agent its gains are counted from.

    ``wanted``: "untrained" (the best script for those that were not trained here), "best" (the
    script with the highest F1 on the reference rung) or an agent of the table.

    Raises:
        CardError: no such agent.
    """
    if wanted not in (UNTRAINED, BEST, *table.agents):
        raise CardError(unknown("baseline", wanted, [UNTRAINED, BEST, *table.agents]))
    scores = script_scores(table)
    best = max(scores, key=lambda name: scores[name]) if scores else None
    chosen: dict[str, str] = {}
    for name in contenders:
        own = untrained.get(name) if wanted == UNTRAINED else None
        base = own or (best if wanted in (UNTRAINED, BEST) else wanted)
        if base is not None and base != name:
            chosen[name] = base
    return chosen


def script_scores(table: TransferTable) -> dict[str, float]:
    """Mean F1 of the scripted agents of a table on its reference rung."""
    cells = {name: table.cell(table.reference, name, "f1") for name in SCRIPTS}
    return {name: cell.mean for name, cell in cells.items() if cell is not None}


def require_rung(ladder: Ladder, name: str) -> None:
    """Raise ``CardError`` for a rung that no ladder has."""
    absent = [line.partition(":")[0] for line in ladder.absent]
    known = {*REAL_SETS, *(rung.name for rung in ladder.rungs), *absent}
    if name not in known:
        raise CardError(unknown("rung", name, sorted(known)))


def conclude(
    table: TransferTable, ladder: Ladder, ready: Trained, out: Path, *, reference: str,
    baseline: str, seed: int = 0,
) -> tuple[list[dict[str, Any]], dict[str, Path]]:  # fmt: skip
    """Name whom gains are counted from, look for what the simulator lacks, and write the report.

    Returns:
        Traits of real questions that explain lost points, and the files by name.
    """
    table.reference, table.absent = reference, list(ladder.absent)
    untrained = ready.untrained
    contenders = [n for n in table.agents if n not in BARS and n not in untrained.values()]
    table.baselines = baselines(table, contenders, untrained, baseline)
    traits = lacks(table, ladder.rungs, contenders, out / "lacks.json", seed=seed)
    pairs = table.against_scripts()
    return traits, save_report(out, table, learned=ready.learned, contrasts=pairs)


def needless_columns(table: TransferTable) -> tuple[str, ...]:
    """Scripted agents that need no column: all but the best script and those that were asked for
    as a baseline."""
    if len(table.agents) < 4 or not table.baselines:
        return ()
    scores = script_scores(table)
    best = max(scores, key=lambda name: scores[name], default="")
    return tuple(n for n in scores if n != best and n not in table.baselines.values())
