"""The metrics log of a run: one JSON line per step, named as in ``METRICS.md``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..utils.files import parse_json, write_whole, writing

LOG, CHECKPOINT = "rl.jsonl", "trainer.safetensors"
"""Files of a run's folder."""


class Log:
    """Append-only log at ``path``. Names that end in ``_s`` are clock times; all other numbers
    repeat exactly with the same seed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def write(self, metrics: Mapping[str, float], warnings: Sequence[str] = ()) -> None:
        """Append one step; numbers that are not finite are written as null.

        Raises:
            DataError: the file cannot be written (disk full).
        """
        row: dict[str, object] = {
            name: value if math.isfinite(value) else None for name, value in metrics.items()
        }
        row["step"] = int(metrics["step"])
        if warnings:
            row["warnings"] = list(warnings)
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def cut(self, steps: int) -> None:
        """Keep the rows of the first ``steps`` steps; unreadable lines are dropped."""
        if not self.path.exists():
            return
        text = self.path.read_text(encoding="utf-8", errors="replace")
        kept = [line for line, row in _rows(text) if row["step"] < steps]
        write_whole(self.path, "".join(kept))

    def row(self, step: int) -> dict[str, Any] | None:
        """The logged row of a step, if there is one."""
        if not self.path.exists():
            return None
        text = self.path.read_text(encoding="utf-8", errors="replace")
        return next((row for _, row in _rows(text) if row["step"] == step), None)


def _rows(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Readable lines and their rows; a kill or a full disk leaves others behind."""
    for line in text.splitlines(keepends=True):
        try:
            row = parse_json(line, "it")
        except ValueError:
            continue
        if line.endswith("\n") and isinstance(row, dict) and isinstance(row.get("step"), int):
            yield line, row


def read_log(out: str | os.PathLike[str], name: str = LOG) -> list[dict[str, Any]]:
    """Read the rows of a run's log; an incomplete last line is left out.

    Raises:
        DataError: there is no log, or a line before the last is no JSON object with a step.
    """
    path = Path(out) / name
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DataError(f"{path} does not exist: nothing was trained there") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is no log: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line, "it")
            if not isinstance(row, dict) or "step" not in row:
                raise ValueError("expected a JSON object with 'step'")
            rows.append(row)
        except ValueError as error:
            if number < len(lines):
                raise DataError(f"{path}, line {number}: {error}") from error
    return rows
