"""A training run on disk: one safetensors file, numbers in its header, no pickle."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..errors import DataError
from .greedy import Point

if TYPE_CHECKING:
    from .candidate_trainer import CandidateTrainer


def save_checkpoint(run: CandidateTrainer, path: Path) -> None:
    """Write models, optimiser state, counters and curve; the old file stays until this is whole."""
    tensors: dict[str, Tensor] = {}
    for name in ("model", "mean", "best"):
        for key, value in getattr(run, name).state_dict().items():
            tensors[f"{name}/{key}"] = value.detach().clone()
    for index, moments in run.optimizer.state_dict()["state"].items():
        for key, value in moments.items():
            tensors[f"optimizer/{index}/{key}"] = torch.as_tensor(value).clone()
    header = {
        "config": run.settings(),
        "updates": run.updates,
        "episodes": run.episodes,
        "spent": run.spent,
        "best_f1": run.best_f1,
        "curve": [asdict(p) for p in run.curve],
        "tree": run.tree.to_json(),
    }
    partial = path.with_name(path.name + ".part")
    save_file(tensors, str(partial), metadata={"searchgym": json.dumps(header)})
    os.replace(partial, path)


def load_checkpoint(run: CandidateTrainer, path: Path) -> None:
    """Put a run back where ``save_checkpoint`` found it.

    Raises:
        DataError: no such file, not a checkpoint, or one of another configuration.
    """
    try:
        with safe_open(str(path), framework="pt") as handle:
            header = json.loads((handle.metadata() or {})["searchgym"])
            tensors = {k: handle.get_tensor(k) for k in handle.keys()}  # noqa: SIM118
    except (OSError, KeyError, SafetensorError) as error:
        raise DataError(f"{path}: not a checkpoint of the candidate trainer ({error})") from None
    ours = json.loads(json.dumps(run.settings()))
    if header["config"] != ours:
        changed = sorted(k for k in ours if ours[k] != header["config"].get(k))
        raise DataError(f"{path}: made with other settings ({', '.join(changed)}); start afresh")
    for name in ("model", "mean", "best"):
        own = {k.split("/", 1)[1]: v for k, v in tensors.items() if k.startswith(f"{name}/")}
        getattr(run, name).load_state_dict(own)
    state = run.optimizer.state_dict()
    state["state"] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer/"):
            _, index, moment = key.split("/")
            state["state"].setdefault(int(index), {})[moment] = value
    run.optimizer.load_state_dict(state)
    run.updates, run.episodes = header["updates"], header["episodes"]
    run.spent, run.best_f1 = header["spent"], header["best_f1"]
    run.curve = [Point(**p) for p in header["curve"]]
    run.tree.regrow(header["tree"])
