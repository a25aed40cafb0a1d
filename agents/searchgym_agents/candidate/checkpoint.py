"""Checkpoints of a candidate training: one safetensors file, no pickle."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from searchgym.errors import DataError
from searchgym.utils.state_file import (
    load_optimizer,
    optimizer_tensors,
    read_state,
    under,
    write_state,
)

from .greedy import GreedyPoint


class CandidateTrainerState(Protocol):
    """State of a candidate trainer that a checkpoint saves and restores."""

    optimizer: Any
    tree: Any
    curve: list[GreedyPoint]
    updates: int
    episodes: int
    spent: float
    best_f1: float

    def settings(self) -> dict[str, object]: ...


def save_checkpoint(run: CandidateTrainerState, path: str | os.PathLike[str]) -> None:
    """Save models, optimizer state, counters and curve; the old file stays until this is whole.

    Raises:
        DataError: the file cannot be written (disk full).
    """
    tensors: dict[str, Tensor] = {}
    for name in ("model", "mean", "best"):
        for key, value in getattr(run, name).state_dict().items():
            tensors[f"{name}/{key}"] = value.detach().clone()
    tensors |= optimizer_tensors(run.optimizer)
    header = {
        "config": run.settings(),
        "updates": run.updates,
        "episodes": run.episodes,
        "spent": run.spent,
        "best_f1": run.best_f1,
        "curve": [asdict(p) for p in run.curve],
        "tree": run.tree.to_json(),
    }
    write_state(Path(path), tensors, header)


def load_checkpoint(run: CandidateTrainerState, path: str | os.PathLike[str]) -> None:
    """Restore a run as :func:`save_checkpoint` found it.

    Raises:
        DataError: no such file, not a checkpoint, or one of another configuration.
    """
    path = Path(path)
    tensors, header = read_state(path, "the candidate trainer")
    if "config" not in header:
        raise DataError(f"{path}: not a checkpoint of the candidate trainer: no configuration")
    ours = json.loads(json.dumps(run.settings()))
    if header["config"] != ours:
        changed = sorted(k for k in ours if ours[k] != header["config"].get(k))
        raise DataError(f"{path}: made with other settings ({', '.join(changed)}); start afresh")
    for name in ("model", "mean", "best"):
        getattr(run, name).load_state_dict(under(tensors, name))
    load_optimizer(run.optimizer, tensors)
    run.updates, run.episodes = header["updates"], header["episodes"]
    run.spent, run.best_f1 = header["spent"], header["best_f1"]
    run.curve = [GreedyPoint(**p) for p in header["curve"]]
    run.tree.regrow(header["tree"])
