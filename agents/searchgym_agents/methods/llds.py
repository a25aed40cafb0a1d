"""LLDS: right answers' tokens are kept from becoming less likely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from searchgym.rl import Batch, WeightedLoss
from searchgym.rl.ops import masked, spread

Gate = Literal["turn", "trajectory"]
ROUNDING = 1e-5
"""Differences of log-probabilities that are none: in a step's first update all are of this kind,
and how rows were batched would decide which gates open."""


def fallen(
    logp: Tensor, old_logp: Tensor, adv: Tensor, mask: Tensor, unit: Tensor
) -> tuple[Tensor, Tensor]:
    """(N, T) max(0, log π_old - log π) of the tokens that are to be preserved, and which these are:
    of advantage ≥ 0, in a unit that has become less likely as a whole.

    Args:
        unit: (N, T) long: numbers of turns, or all 0 for whole trajectories.
    """
    drop = masked(old_logp, mask).detach() - masked(logp, mask)
    drop = drop * (drop.abs() > ROUNDING)
    sums = drop.new_zeros(len(unit), int(unit.max()) + 1)
    sums = sums.scatter_add(1, unit, drop.detach())
    kept = (sums.gather(1, unit) > 0) & (spread(adv, mask) >= 0) & mask
    return drop.clamp_min(0) * kept, kept


class LLDSLoss(WeightedLoss):
    """Penalty on tokens that become less likely: Σ max(0, log π_old - log π) over the tokens of
    advantage ≥ 0 in those turns (or trajectories) whose probability has fallen since the step's
    start, by the number of all trained tokens (Deng et al., arXiv 2512.04220; of its text the
    beginning was read, and descriptions by others).

    Args:
        gate: ``"turn"``: the action-level gate; ``"trajectory"``: the response-level one.
    """

    registered = "loss:llds"
    name = "llds"
    requires = frozenset({"old_logp"})
    off_policy: ClassVar[tuple[str, ...]] = ("weight", "gate")

    def __init__(self, weight: float = 0.1, gate: Gate = "turn", **shared: Any) -> None:
        super().__init__(weight, **shared)
        if gate not in get_args(Gate):
            raise ValueError(f"gate is 'turn' or 'trajectory', got {gate!r}")
        self.gate = gate

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        unit = batch.turn if self.gate == "turn" else torch.zeros_like(batch.turn)
        value, kept = fallen(logp, batch.need("old_logp"), batch.adv, batch.mask, unit)
        return value, {"preserved": float(kept.sum()) / max(float(batch.mask.sum()), 1.0)}
