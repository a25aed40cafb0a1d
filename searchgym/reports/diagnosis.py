"""Diagnosis of a training by its log, ours or another trainer's, whose metrics
``rl/foreign_logs.toml`` names as ours."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from ..errors import DataError
from ..rl import log as rl_log
from ..rl.collapse import CAUSES, Finding, diagnose
from ..storage.files import LARGEST_JSON, parse_json, read_json

TRL_STATE = "trainer_state.json"
LONGEST_LINE = 1 << 20
"""Most bytes of a line; longer ones hold no metrics."""
_TABLES = tomllib.loads(
    Path(rl_log.__file__).with_name("foreign_logs.toml").read_text(encoding="utf-8")
)
NAMES: Mapping[str, str] = {
    name: ours for table in _TABLES.values() for name, ours in table.items()
}
"""Foreign metric → ours."""
_STEPS = ("step", "_step", "training/global_step")


def diagnosis(run: Path) -> dict[str, Any]:
    """Look for causes of a collapse in a training's log; arguments and errors as :func:`read_rows`.

    Returns:
        ``source`` and number of ``updates`` of the log; ``findings``, each with ``cause``,
        ``update``, ``evidence``, ``page`` and ``remedy``; ``not_judged``, causes whose metrics the
        log does not have.
    """
    source, rows = read_rows(run)
    own = source == "searchgym"
    # whether equal groups teach nothing depends on the method, which our trainer knows
    monitor = diagnose(rows, compares_groups=not own)
    findings, named = list(monitor.findings), set(monitor.warned)
    for row in rows:
        for name in row.get("warnings", ()):
            if name in CAUSES and name not in named:
                named.add(name)
                metric = CAUSES[name].signs[0][0].metric
                value = row.get(metric)
                at_step = math.nan if value is None else float(value)
                findings.append(Finding(name, int(row["step"]), metric, at_step, None))
    findings.sort(key=lambda finding: finding.update)
    judged = {*monitor.judged(), *named}
    return {
        "source": source, "updates": len(rows), "findings": [f.row() for f in findings],
        "not_judged": [name for name in CAUSES if name not in judged],
    }  # fmt: skip


def read_rows(run: Path) -> tuple[str, list[dict[str, Any]]]:
    """Read the log of a training.

    Args:
        run: A folder with ``rl.jsonl`` or TRL's ``trainer_state.json`` (its own, or its last
            checkpoint's), or a file: the latter, or lines as verl and Search-R1 write them, on the
            console or as JSON.

    Returns:
        Whose log it is (``"searchgym"``, ``"trl"`` or ``"verl"``), and its rows by step.

    Raises:
        DataError: there is no log, it is too large, or no line of it holds metrics.
    """
    path = _file(run)
    if path.name == rl_log.LOG:
        return "searchgym", rl_log.read_log(path.parent)
    if path.suffix == ".json":
        state = read_json(path, nan=True)
        history = state.get("log_history") if isinstance(state, dict) else None
        if not isinstance(history, list):
            raise DataError(f"{path} is no {TRL_STATE}: it has no 'log_history'")
        source, raw = "trl", [row for row in history if isinstance(row, dict)]
    else:
        source, raw = "verl", [*_lines(path)]
    rows: dict[int, dict[str, Any]] = {}
    for row in raw:
        step = next((row[name] for name in _STEPS if rl_log.is_finite(row.get(name))), None)
        if step is not None:
            rows.setdefault(int(step), {"step": int(step)}).update(_renamed(row))
    if not any("reward" in row for row in rows.values()):
        raise DataError(
            f"{path}: no step with a reward was found; read are {rl_log.LOG}, {TRL_STATE} of TRL, "
            "and lines of verl and Search-R1: 'step:1 - critic/score/mean:0.2 - …', or JSON"
        )
    return source, [rows[step] for step in sorted(rows)]


def _file(run: Path) -> Path:
    if run.is_file():
        return run
    if not run.exists():
        raise DataError(f"{run} does not exist: name the folder of a training, or its log")
    found = [p for p in (run / rl_log.LOG, run / TRL_STATE) if p.is_file()]
    found += sorted(run.glob(f"checkpoint-*/{TRL_STATE}"), key=lambda p: -p.stat().st_mtime)
    if not found:
        raise DataError(
            f"{run} holds no log that can be read: looked for {rl_log.LOG}, {TRL_STATE} and "
            f"checkpoint-*/{TRL_STATE}; of verl and Search-R1 name the file of console lines"
        )
    return found[0]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of lines: JSON objects, or console lines; other lines are no metrics."""
    if path.stat().st_size > LARGEST_JSON:
        raise DataError(f"{path} has more than {LARGEST_JSON:,} bytes: cut it")
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            text = line.decode("utf-8", "replace").strip()
            if text.startswith("{"):
                try:
                    row = parse_json(text, path, nan=True)
                except DataError:
                    continue  # a cut line, or what a program printed
                data = row.get("data")
                yield {**row, **data} if isinstance(data, dict) else row
            elif "step:" in text and " - " in text:
                yield _console(text[text.index("step:") :])


def _console(text: str) -> dict[str, Any]:
    """``step:1 - name:value - …`` as a row; newer versions write ``np.float64(value)``."""
    row: dict[str, Any] = {}
    for part in text.split(" - "):
        name, _, value = part.strip().rpartition(":")
        try:
            row[name] = float(value.rpartition("(")[2].rstrip(")"))
        except ValueError:
            continue
    return row


def _renamed(row: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of a row under our names; of several that mean the same, the first in the table,
    and of a family the mean."""
    made: dict[str, float] = {}
    for name, ours in {**{name: name for name in row}, **NAMES}.items():
        if name.endswith("/*"):
            values = [
                float(v) for n, v in row.items() if n.startswith(name[:-1]) and rl_log.is_finite(v)
            ]
        else:
            values = [float(row[name])] if rl_log.is_finite(row.get(name)) else []
        if values:
            value = fmean(values)
            if ours.startswith("1 - "):
                ours, value = ours.removeprefix("1 - "), 1 - value
            made.setdefault(ours, value)
    return made
