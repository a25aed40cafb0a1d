"""Stores the results of a ladder run beside an agent's card and checks whether a rerun agrees.

``expected.json`` holds runs by name. Each says by which arguments of ``searchgym transfer`` it is
run again, what with, and the table's cells; a rerun agrees where its means lie in their intervals.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import EvaluationError
from ..evaluation.intervals import Interval
from ..evaluation.machine import today, versions
from ..reports.findings import RULES
from ..scoring import SCORING_VERSION
from ..scoring.metrics import MAIN
from ..storage.files import read_json
from .table import TransferTable

SCHEMA = 2
"""Version of the file format; version 1 was written by hand and held no arguments."""
FIRST_SCORING = 2
"""Version of the scoring of runs that do not say theirs."""
TRAITS = 3
"""Traits kept per agent and rung: those that explain most."""


def record(
    table: TransferTable, arguments: Sequence[str], lacks: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """A run as JSON values: how to repeat it, and what it gave, rounded to four places."""
    data = table.to_json()
    cells = [{k: _rounded(row[k]) for k in _CELL} for row in data["table"] if row["metric"] in MAIN]
    kept: dict[tuple[str, str], int] = {}
    told = []
    for row in lacks:  # the most telling trait of each agent and rung comes first
        key = row["rung"], row["agent"]
        kept[key] = kept.get(key, 0) + 1
        if kept[key] <= TRAITS:
            told.append({k: _rounded(row[k]) for k in _LACK})
    return {
        "arguments": list(arguments),
        "date": today(),
        "versions": versions(),
        "scoring": SCORING_VERSION,
        "absent": table.absent,
        "rungs": [{k: r[k] for k in ("name", "kind", "above", "questions")} for r in data["rungs"]],
        "table": cells,
        "drops": [_rounded(row) for row in data["drops"] if row["agent"] in table.baselines],
        "gains": [_rounded(row) for row in data["gains"]],
        "contrasts": [
            {k: _rounded(v) for k, v in c._asdict().items()}
            for agent in table.baselines if agent != RULES and RULES in table.agents
            for c in table.contrasts(agent, (RULES,))
        ],
        "lacks": told,
        "seconds": round(sum(row["seconds"] for row in data["used"])),
    }  # fmt: skip


def outside(table: TransferTable, recorded: dict[str, Any]) -> list[str]:
    """One line per recorded cell of a rung that ``table`` holds, whose new mean lies outside the
    recorded interval or is missing."""
    lines = []
    for row in recorded["table"]:
        rung, agent, metric = row["rung"], row["agent"], row["metric"]
        if rung not in table.rungs:
            continue
        interval = table.cell(rung, agent, metric)
        where = f"{rung}, {agent}, {metric}"
        if interval is None or not interval.n:
            lines.append(f"{where}: not measured")
        elif not row["low"] - _HALF <= interval.mean <= row["high"] + _HALF:
            lines.append(f"{where}: {interval.mean:.4f} outside [{row['low']}, {row['high']}]")
    return lines


def load(path: Path, written_by: str = "searchgym transfer … --record {path}") -> dict[str, Any]:
    """The runs of a file, by name.

    Args:
        path: The file.
        written_by: Command that writes it, for the error where there is none.

    Raises:
        EvaluationError: no such file, or none of ours.
    """
    try:
        data = read_json(path)
    except FileNotFoundError:
        writes = written_by.format(path=path)
        raise EvaluationError(f"{path} does not exist; '{writes}' writes it") from None
    except ValueError as error:
        raise EvaluationError(f"{path} is no JSON: {error}") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise EvaluationError(f"{path}: not runs of the ladder in schema {SCHEMA}")
    runs: dict[str, Any] = data["runs"]
    return runs


def save(path: Path, name: str, run: dict[str, Any]) -> Path:
    """Write a run beside the others of the file; one of the same name is replaced."""
    runs = load(path) if path.is_file() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"schema": SCHEMA, "runs": {**runs, name: run}}
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


_CELL = ("rung", "agent", "metric", "mean", "low", "high", "questions", "seeds", "each_seed")
_LACK = ("rung", "agent", "trait", "lost", "explained")
_HALF = 5e-5
"""Half of the last place kept."""


def _rounded(value: Any) -> Any:
    if isinstance(value, Interval):
        value = value._asdict()
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items() if k != "method"}
    if isinstance(value, float):
        return None if value != value else round(value, 4)
    return value
