"""Groups whose turns are paid, and what an estimator makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from searchgym.rl.slots.batch import Batch
from searchgym.rl.slots.protocols import make
from searchgym.rl.slots.samples import sample_batch


def close(got: Tensor, want: Any, atol: float = 1e-4) -> None:
    torch.testing.assert_close(got, torch.as_tensor(want, dtype=got.dtype), atol=atol, rtol=0)


def turns(paid: list[list[float]], **signals: list[list[float]]) -> Batch:
    """One group of trajectories of one token a turn, all of what they earn paid by turns."""
    width = max(map(len, paid))
    reward = torch.tensor([p + [0.0] * (width - len(p)) for p in paid])
    mask = torch.tensor([[k < len(p) for k in range(width)] for p in paid])
    plain = sample_batch(0).take(range(len(paid)))
    turn = torch.arange(width).expand(mask.shape).contiguous()
    return replace(
        plain, mask=mask, turn=turn, group=torch.zeros(len(paid), dtype=torch.long),
        reward=reward.sum(1), outcome=torch.zeros(len(paid)), turn_reward=reward,
        old_logp=None, ref_logp=None,
        signals={name: torch.tensor(values) for name, values in signals.items()},
    )  # fmt: skip


def estimate(spec: Any, batch: Batch) -> Tensor:
    adv = make("advantage", spec).estimate(batch, {}).adv
    return adv if adv.ndim == 2 else adv[:, None] * batch.mask
