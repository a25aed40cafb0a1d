"""A supervised run on disk: weights and optimiser state in one safetensors file, no pickle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import DataError
from ..state_file import load_optimizer, optimizer_tensors, read_state, write_state

if TYPE_CHECKING:
    from .sft import SftTrainer


def save_state(run: SftTrainer, settings: dict[str, Any], path: Path) -> None:
    """Write a run; the old file stays until the new one is whole and on disk."""
    tensors: dict[str, Tensor] = {
        f"model/{name}": p.detach().clone() for name, p in run.weights().items()
    }
    for i, optimizer in enumerate(run.optimizers):
        tensors |= optimizer_tensors(optimizer, f"optimizer/{i}")
    write_state(path, tensors, {"settings": settings, "step": run.step, "seconds": run.seconds})


def load_state(run: SftTrainer, settings: dict[str, Any], path: Path) -> None:
    """Put a run back where ``save_state`` found it.

    Raises:
        DataError: not a checkpoint of this trainer, or one of a run with other settings.
    """
    tensors, header = read_state(path, "this trainer")
    if (was := header.get("settings")) != settings:
        if not isinstance(was, dict):
            raise DataError(f"{path}: not a checkpoint of this trainer (it has {sorted(header)})")
        names = sorted(k for k in {*was, *settings} if was.get(k) != settings.get(k))
        raise DataError(
            f"{path.parent} holds a run with other settings ({', '.join(names)}): use another "
            "folder, or delete this one to start afresh"
        )
    with torch.no_grad():
        for name, p in run.weights().items():
            p.copy_(tensors[f"model/{name}"])
    for i, optimizer in enumerate(run.optimizers):
        load_optimizer(optimizer, tensors, f"optimizer/{i}")
    run.step, run.seconds = header["step"], header["seconds"]
