"""Experiment trackers: TensorBoard, Weights & Biases, Trackio, imported on demand. Each gets the
same numbers under the same names as ``rl.jsonl``."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from ..errors import CardError, MissingExtraError, unknown
from ..utils.files import write_whole

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


class Remembered:
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
    return Remembered("wandb", name=name, id=identity(out), dir=str(out), config=dict(plan))


def _trackio(out: Path, plan: Mapping[str, Any], first: int) -> Tracker:
    return Remembered("trackio", name=identity(out), config=dict(plan))


TRACKERS: Mapping[str, Callable[[Path, Mapping[str, Any], int], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": _wandb,
    "trackio": _trackio,
}
"""Name, which is the package's and the extra's too, → maker from (folder, plan, first step)."""


def require(names: Sequence[str]) -> None:
    """Check names before anything is loaded: ``CardError`` for an unknown one,
    ``MissingExtraError`` for a package that is not installed."""
    for name in names:
        if name not in TRACKERS:
            raise CardError(unknown("tracker", name, TRACKERS))
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(f"--log {name}", name)


class Trackers:
    """Several trackers as one.

    Args:
        names: Names in ``TRACKERS``.
        out: The run's folder.
        plan: The run's plan, for the trackers' records.
        first: The first step that will be written.

    Raises as :func:`require`.
    """

    def __init__(
        self, names: Sequence[str], out: Path, plan: Mapping[str, Any], first: int
    ) -> None:
        require(names)
        self._all = [TRACKERS[name](out, plan, first) for name in dict.fromkeys(names)]

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
        for tracker in self._all:
            tracker.write(step, finite)

    def close(self) -> None:
        for tracker in self._all:
            tracker.close()
