"""Optimisers: Muon for the matrices within layers, AdamW for everything else.

Muon is momentum whose update is made orthogonal (Jordan et al., 2024). Here it is computed in
float32 (or autocast's precision) and with matrices of one shape taken together, which suits small
models on CPUs, where it learns to copy in several times fewer steps than AdamW.

``torch.optim.Muon`` makes the same steps, always in bfloat16: on processors without instructions
for it (AVX2) a step over 28 matrices of width 160 takes 1,064 ms instead of 69, over 20 of width 64
66 instead of 3. Where there are such instructions, ours takes as long under autocast as torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor
from torch.nn import Embedding, Parameter
from torch.optim import Optimizer

from ..errors import CardError

BETAS = (0.9, 0.95)
_A, _B, _C = 3.4445, -4.7750, 2.0315
"""Coefficients of the quintic iteration (from Muon's authors)."""


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """Matrices (B, M, N) with singular values moved to about 1 (Newton-Schulz iteration).

    Under autocast all of it is computed in that precision, which suffices (Jordan et al.): products
    alone would be, each with its conversions.
    """
    kind = matrices.device.type
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    if torch.is_autocast_enabled(kind):
        x = x.to(torch.get_autocast_dtype(kind))
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT.contiguous()
    for _ in range(steps):
        gram = x @ x.mT
        inner = torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C)
        x = torch.baddbmm(x, inner, x, beta=_A)
    return (x.mT if tall else x).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """SGD with Nesterov momentum, each update orthogonalised. Parameters must be matrices."""

    def __init__(self, params: Iterable[Tensor], lr: float = 0.02, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})
        if any(p.ndim != 2 for group in self.param_groups for p in group["params"]):
            raise ValueError("Muon takes matrices only; give vectors and tables to AdamW")

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient."""
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            shapes: dict[Any, list[Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(p.shape, []).append(p)
            for (rows, columns), params in shapes.items():
                moved = []
                for p in params:
                    assert p.grad is not None
                    state = self.state[p]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(p)
                    state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                    moved.append(torch.lerp(p.grad, state["momentum"], group["momentum"]))
                size = group["lr"] * max(1.0, rows / columns) ** 0.5
                for p, update in zip(params, orthogonal(torch.stack(moved)), strict=True):
                    p.add_(update, alpha=-size)
        return loss


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
