"""Metrics of a run: its log, one JSON line per step, named as in ``METRICS.md``, and experiment
trackers (TensorBoard, Weights & Biases, Trackio), which get the same numbers."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from ..errors import DataError, MissingExtraError, check_known
from ..storage.files import JsonError, parse_json, write_whole, writing

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
            row = _checked(parse_json(line, "it"))
        except ValueError:
            continue
        if line.endswith("\n"):
            yield line, row


def read_log(out: str | os.PathLike[str], name: str = LOG) -> list[dict[str, Any]]:
    """Read the rows of a run's log; an incomplete last line is left out.

    Raises:
        DataError: there is no log, a line before the last is no JSON, or one holds what no training
            writes.
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
            rows.append(_checked(parse_json(line, "it")))
        except JsonError as error:
            if number < len(lines):
                raise DataError(f"{path}, line {number}: {error}") from error
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
    return rows


def _checked(row: Any) -> dict[str, Any]:
    """The row, which somebody may have changed: an integer as "step", texts as "warnings", and
    numbers or nothing."""
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        raise ValueError("expected a JSON object with 'step', an integer")
    for name, value in row.items():
        if name == "warnings":
            fine = isinstance(value, list) and all(isinstance(each, str) for each in value)
        else:
            fine = value is None or is_finite(value)
        if not fine:
            raise ValueError(f"{name!r:.80} is {value!r:.80}, which no training writes")
    return row


def is_finite(value: Any) -> bool:
    """Return whether a value is a number that a float holds; integers of JSON may be longer."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


PROJECT = "searchgym"
IDENTITY = "tracked_as.txt"


class Tracker(Protocol):
    """Receives each step's metrics; numbers that are not finite are left out."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in ``out/tensorboard``. Steps from ``first`` on replace those a killed run wrote
    there."""

    def __init__(self, out: Path, plan: Mapping[str, Any], first: int) -> None:
        made: Any = importlib.import_module("torch.utils.tensorboard")
        self._writer = made.SummaryWriter(str(out / "tensorboard"), purge_step=first)
        self._writer.add_text("plan", f"```\n{json.dumps(plan, indent=1)}\n```", first)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class RemoteRun:
    """Weights & Biases or Trackio, whose calls are the same: a run of the project ``searchgym``,
    named after the folder, that goes on if it is resumed. Their own environment variables count
    (``WANDB_MODE=offline``)."""

    def __init__(self, module: str, **options: Any) -> None:
        self._module: Any = importlib.import_module(module)
        self._module.init(project=PROJECT, resume="allow", **options)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._module.log(dict(metrics), step=step)

    def close(self) -> None:
        self._module.finish()


def identity(out: Path) -> str:
    """Identify a run to a tracker: the folder's name, and a number of its own that the folder
    keeps. Folders of one name elsewhere, or made anew, are other runs."""
    kept = out / IDENTITY
    if not kept.exists():
        write_whole(kept, f"{out.resolve().name}-{uuid4().hex[:8]}\n")
    return kept.read_text(encoding="utf-8").strip()


def _wandb(out: Path, plan: Mapping[str, Any], first: int) -> Tracker:
    name = out.resolve().name
    return RemoteRun("wandb", name=name, id=identity(out), dir=str(out), config=dict(plan))


def _trackio(out: Path, plan: Mapping[str, Any], first: int) -> Tracker:
    return RemoteRun("trackio", name=identity(out), config=dict(plan))


TRACKERS: Mapping[str, Callable[[Path, Mapping[str, Any], int], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": _wandb,
    "trackio": _trackio,
}
"""Name, which is the package's and the extra's too, → maker from (folder, plan, first step)."""


def require_trackers(names: Sequence[str]) -> None:
    """Check names before anything is loaded: ``CardError`` for an unknown one,
    ``MissingExtraError`` for a package that is not installed."""
    for name in names:
        check_known("tracker", TRACKERS, name)
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(f"--log {name}", name)


class Trackers:
    """Several trackers as one.

    Args:
        names: Names in ``TRACKERS``.
        out: The run's folder.
        plan: The run's plan, for the trackers' records.
        first: The first step that will be written.

    Raises as :func:`require_trackers`.
    """

    def __init__(
        self, names: Sequence[str], out: Path, plan: Mapping[str, Any], first: int
    ) -> None:
        require_trackers(names)
        self._all = [TRACKERS[name](out, plan, first) for name in dict.fromkeys(names)]

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        for tracker in self._all:
            tracker.write(step, finite)

    def close(self) -> None:
        for tracker in self._all:
            tracker.close()
