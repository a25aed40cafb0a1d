"""A training run's tensors and JSON header in one safetensors file, whole or not there at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from .files import parse_json, replacing

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

_HEADER = "searchgym"


def write_state(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write a state in one step; the old file stays until the new one is whole and on disk.

    Raises:
        DataError: the file cannot be written (disk full); the old one is kept.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        with replacing(path) as partial:
            save_file(dict(tensors), str(partial), metadata={_HEADER: json.dumps(header)})
    except SafetensorError as error:
        raise DataError(f"{path} cannot be written: {error}") from error


def read_state(path: Path, of: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_state` wrote; ``DataError`` (not a checkpoint ``of``) otherwise."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as handle:
            header = parse_json((handle.metadata() or {})[_HEADER], path)
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise DataError(f"{path}: not a checkpoint of {of} ({error})") from None
    return tensors, header


def same_settings(path: Path, changed: Iterable[str]) -> None:
    """``DataError`` if the run whose state is in ``path`` has other settings, those ``changed``."""
    if names := ", ".join(sorted(changed)):
        raise DataError(
            f"{path.parent} holds a run with other settings ({names}): use another folder, or "
            "delete this one to start afresh"
        )


def optimizer_tensors(optimizer: Optimizer, prefix: str = "optimizer") -> dict[str, Tensor]:
    """An optimiser's moments as ``prefix/index/name``."""
    import torch

    return {
        f"{prefix}/{index}/{name}": full_tensor(torch.as_tensor(value)).cpu().clone()
        for index, moments in optimizer.state_dict()["state"].items()
        for name, value in moments.items()
    }


def load_optimizer(
    optimizer: Optimizer, tensors: Mapping[str, Tensor], prefix: str = "optimizer"
) -> None:
    """Put back what ``optimizer_tensors`` gave; settings such as the learning rate stay."""
    state = optimizer.state_dict()
    state["state"] = {}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for name, value in sorted(under(tensors, prefix).items()):
        index, moment = name.split("/")
        parameter = parameters[int(index)]
        if value.shape == parameter.shape:
            value = placed(value, parameter)
        state["state"].setdefault(int(index), {})[moment] = value
    optimizer.load_state_dict(state)


def full_tensor(tensor: Tensor) -> Tensor:
    """Gather a tensor of which each process holds a shard (FSDP2); return others unchanged. All
    processes must call it together."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def placed(value: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, cut into shards as ``like`` is."""
    if not hasattr(like, "full_tensor"):
        return value
    from torch.distributed.tensor import distribute_tensor

    there: Any = like
    return distribute_tensor(value.to(there.device), there.device_mesh, there.placements)


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Select the tensors named ``prefix/…``, by the rest of their names."""
    start = prefix + "/"
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
