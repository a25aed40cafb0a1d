"""Agents of the transfer benchmark: those trained for it, and what their gains are counted from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import CardError, unknown
from ..reports.findings import SCRIPTS as SCRIPTS
from ..types import Agent
from .table import TransferTable

BARS = frozenset({*SCRIPTS, "random", "oracle", "always-refuse", "always-yes", "majority"})
"""Agents that stand in the table to be cleared; their gains are not reported."""
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
