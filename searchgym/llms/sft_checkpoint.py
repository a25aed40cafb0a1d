"""A supervised run on disk: weights and optimiser state in one safetensors file, no pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..errors import DataError
from ..utils.state_file import load_optimizer, optimizer_tensors, read_state, write_state


def save_state(
    path: Path,
    weights: Mapping[str, Tensor],
    optimizers: Sequence[Optimizer],
    *,
    settings: Mapping[str, Any],
    step: int,
    seconds: float,
) -> None:
    """Write a run; the old file stays until the new one is whole and on disk."""
    tensors = {f"model/{name}": p.detach().clone() for name, p in weights.items()}
    for i, optimizer in enumerate(optimizers):
        tensors |= optimizer_tensors(optimizer, f"optimizer/{i}")
    write_state(path, tensors, {"settings": settings, "step": step, "seconds": seconds})


def load_state(
    path: Path,
    weights: Mapping[str, Tensor],
    optimizers: Sequence[Optimizer],
    *,
    settings: Mapping[str, Any],
) -> tuple[int, float]:
    """Put weights and optimisers back where ``save_state`` found them; steps and seconds so far.

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
        for name, p in weights.items():
            p.copy_(tensors[f"model/{name}"])
    for i, optimizer in enumerate(optimizers):
        load_optimizer(optimizer, tensors, f"optimizer/{i}")
    return header["step"], header["seconds"]
