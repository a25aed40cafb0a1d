"""Optimisers: Muon for the matrices within layers, AdamW for everything else."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import Embedding, Parameter
from torch.optim import Optimizer

from ..errors import CardError
from .muon import Muon

BETAS = (0.9, 0.95)


def optimizers_of(
    model: Any, lr: float, muon_lr: float = 0.0, *, weight_decay: float = 0.0
) -> list[Optimizer]:
    """AdamW with rate ``lr`` over what of ``model`` is trained; with ``muon_lr`` above 0, Muon with
    that rate over its matrices, and AdamW over the rest (tables, norms, convolutions).

    ``CardError`` where Muon would take matrices of which this process holds a part (FSDP2).
    """
    matrices: list[Parameter] = []
    others: list[Parameter] = []
    tables = {id(m.weight) for m in model.modules() if isinstance(m, Embedding)}
    if (output := getattr(model, "get_output_embeddings", lambda: None)()) is not None:
        tables.add(id(output.weight))
    for name, p in model.named_parameters():
        if p.requires_grad:
            inner = p.ndim == 2 and id(p) not in tables and "embed" not in name
            (matrices if muon_lr and inner else others).append(p)
    if any(hasattr(p, "full_tensor") for p in matrices):
        raise CardError("Muon takes whole matrices, and these are cut into shards: muon_lr=0")
    optimizers: list[Optimizer] = []
    if others:
        optimizers.append(torch.optim.AdamW(others, lr=lr, weight_decay=weight_decay, betas=BETAS))
    if matrices:
        optimizers.append(Muon(matrices, lr=muon_lr))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["full_lr"] = group["lr"]
    return optimizers


def set_rate(optimizers: list[Optimizer], share: float) -> None:
    """Each optimiser's learning rate as a share of its full one."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["full_lr"] * share
