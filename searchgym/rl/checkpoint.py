"""Checkpoints of a training run: one safetensors file with JSON in its header, no pickle.

Random numbers need no state: all that is drawn derives from the seed and the step.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import DataError
from ..utils.state_file import (
    load_optimizer,
    optimizer_tensors,
    read_state,
    same_settings,
    under,
    write_state,
)
from .settings import TrainerState, settings_of


def save_checkpoint(run: TrainerState, path: str | os.PathLike[str]) -> None:
    """Save trained weights, optimizer, slots, warnings and counters; the old file stays until the
    new one is whole and on disk. All processes of a run call this, the main one writes.

    Raises:
        DataError: the file cannot be written (disk full).
    """
    tensors: dict[str, Tensor] = {f"lm/{k}": v.contiguous() for k, v in run.lm.state_dict().items()}
    for i, optimizer in enumerate(run.updater.optimizers):
        tensors |= optimizer_tensors(optimizer, f"optimizer/{i}")
    if run.critic is not None:
        tensors |= {f"critic/{name}": value for name, value in run.critic.tensors().items()}
    if run.reference is not None:
        moved = run.lm.reference_state()
        tensors |= {f"reference/{name}": value.contiguous() for name, value in moved.items()}
    tensors |= {f"slots/{name}": value for name, value in run.recipe.tensors().items()}
    header = {
        "settings": _plain(settings_of(run)),
        "steps": run.steps,
        "version": run.policy.version,
        "metrics": run.metrics,
        "slots": run.recipe.state_dict(),
        "monitor": run.monitor.state_dict(),
    }
    if run.processes.main:
        write_state(Path(path), tensors, header)


def load_checkpoint(run: TrainerState, path: str | os.PathLike[str]) -> None:
    """Restore a run as :func:`save_checkpoint` found it.

    Raises:
        DataError: not a checkpoint of this trainer, or one of a run with other settings.
    """
    path = Path(path)
    tensors, header = read_state(path, "this trainer")
    was, slots = header.get("settings"), header.get("slots")
    if was is None or slots is None:
        raise DataError(f"{path}: not a checkpoint of this trainer (it has {sorted(header)})")
    now = _plain(settings_of(run))
    changed = (
        f"{table}.{name}"
        for table in {*now, *was}
        for name in {*now.get(table, {}), *was.get(table, {})}
        if now.get(table, {}).get(name) != was.get(table, {}).get(name)
    )
    same_settings(path, changed)
    run.lm.load_state_dict(under(tensors, "lm"))
    for i, optimizer in enumerate(run.updater.optimizers):
        load_optimizer(optimizer, tensors, f"optimizer/{i}")
    if run.critic is not None:
        run.critic.load_tensors(under(tensors, "critic"))
    if run.reference is not None:
        run.lm.load_reference_state(under(tensors, "reference"))
    run.recipe.load_state_dict(slots)
    run.recipe.load_tensors(under(tensors, "slots"))
    run.monitor.load_state_dict(header["monitor"])
    run.steps, run.metrics = int(header["steps"]), dict(header["metrics"])
    run.policy.generator.version = int(header["version"])


def _plain(settings: dict[str, Any]) -> Any:
    """Settings as JSON gives them back; an object becomes its class's name."""
    return json.loads(json.dumps(settings, default=lambda o: type(o).__qualname__))
