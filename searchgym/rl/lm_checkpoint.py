"""A training run on disk: one safetensors file, everything else as JSON in its header, no pickle.

Random numbers need no state: whatever is drawn derives from the seed and names of step and place.
"""

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
    from .trainer import Trainer


def save_checkpoint(run: Trainer, path: Path) -> None:
    """Write trained weights, optimiser, slots, warnings and counters; the old file stays until the
    new one is whole and on disk."""
    tensors: dict[str, Tensor] = {f"lm/{k}": v.contiguous() for k, v in run.lm.state_dict().items()}
    for index, moments in run.optimizer.state_dict()["state"].items():
        for key, value in moments.items():
            tensors[f"optimizer/{index}/{key}"] = torch.as_tensor(value).cpu().clone()
    if run.critic is not None:
        tensors |= {f"critic/{name}": value for name, value in run.critic.tensors().items()}
    header = {
        "settings": _plain(run.settings()),
        "steps": run.steps,
        "version": run.policy.version,
        "metrics": run.metrics,
        "slots": run.recipe.state_dict(),
        "watch": run.watch.state_dict(),
    }
    partial = path.with_name(path.name + ".part")
    save_file(tensors, str(partial), metadata={"searchgym": json.dumps(header)})
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(partial, path)


def load_checkpoint(run: Trainer, path: Path) -> None:
    """Put a run back where :func:`save_checkpoint` found it.

    Raises:
        DataError: not a checkpoint of this trainer, or one of a run with other settings.
    """
    try:
        with safe_open(str(path), framework="pt") as handle:
            header = json.loads((handle.metadata() or {})["searchgym"])
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
        was, slots = header["settings"], header["slots"]
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise DataError(f"{path}: not a checkpoint of this trainer ({error})") from None
    if was != (now := _plain(run.settings())):
        changed = [
            f"{table}.{name}"
            for table in now
            for name in sorted({*now[table], *was.get(table, {})})
            if now[table].get(name) != was.get(table, {}).get(name)
        ]
        raise DataError(
            f"{path.parent} holds a run with other settings ({', '.join(changed)}): use another "
            "folder, or delete this one to start afresh"
        )
    run.lm.load_state_dict({k[3:]: v for k, v in tensors.items() if k.startswith("lm/")})
    state = run.optimizer.state_dict()
    state["state"] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer/"):
            _, index, moment = name.split("/")
            state["state"].setdefault(int(index), {})[moment] = value
    run.optimizer.load_state_dict(state)
    if run.critic is not None:
        own = {k[7:]: v for k, v in tensors.items() if k.startswith("critic/")}
        run.critic.load_tensors(own)
    run.recipe.load_state_dict(slots)
    run.watch.load_state_dict(header["watch"])
    run.steps, run.metrics = int(header["steps"]), dict(header["metrics"])
    generator: Any = run.policy.generator
    generator.version = int(header["version"])


def _plain(settings: dict[str, Any]) -> Any:
    """As JSON gives it back; an object is its class's name."""
    return json.loads(json.dumps(settings, default=lambda o: type(o).__qualname__))
