"""A supervised run on disk: weights and optimiser state in one safetensors file, no pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..errors import DataError

if TYPE_CHECKING:
    from .sft import SftTrainer


def save_state(run: SftTrainer, settings: dict[str, Any], path: Path) -> None:
    """Write a run; the old file stays until the new one is whole and on disk."""
    tensors: dict[str, Tensor] = {
        f"model/{name}": p.detach().clone() for name, p in run.model.named_parameters()
    }
    for i, optimizer in enumerate(run.optimizers):
        for index, moments in optimizer.state_dict()["state"].items():
            for key, value in moments.items():
                tensors[f"optimizer/{i}/{index}/{key}"] = torch.as_tensor(value).clone()
    header = {"settings": settings, "step": run.step, "seconds": run.seconds}
    partial = path.with_name(path.name + ".part")
    save_file(tensors, str(partial), metadata={"searchgym": json.dumps(header)})
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)


def load_state(run: SftTrainer, settings: dict[str, Any], path: Path) -> None:
    """Put a run back where ``save_state`` found it.

    Raises:
        DataError: not a checkpoint of this trainer, or one of a run with other settings.
    """
    try:
        with safe_open(str(path), framework="pt") as handle:
            header = json.loads((handle.metadata() or {})["searchgym"])
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise DataError(f"{path}: not a checkpoint of this trainer ({error})") from None
    if header["settings"] != settings:
        was = header["settings"]
        names = sorted(k for k in {*was, *settings} if was.get(k) != settings.get(k))
        raise DataError(
            f"{path.parent} holds a run with other settings ({', '.join(names)}): use another "
            "folder, or delete this one to start afresh"
        )
    with torch.no_grad():
        for name, p in run.model.named_parameters():
            p.copy_(tensors[f"model/{name}"])
    for i, optimizer in enumerate(run.optimizers):
        state = optimizer.state_dict()
        state["state"] = {}
        for key, value in tensors.items():
            kind, _, rest = key.partition("/")
            if kind == "optimizer" and rest.startswith(f"{i}/"):
                _, index, moment = rest.split("/")
                state["state"].setdefault(int(index), {})[moment] = value
        optimizer.load_state_dict(state)
    run.step, run.seconds = header["step"], header["seconds"]
