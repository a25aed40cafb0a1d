"""M2PO as AReaL has it: stale tokens that have moved too far get no advantage."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Over, Reduction
from searchgym.rl.ops import spread

from .m2po import second_moment_keep


def m2po_areal_keep(
    old_logp: Tensor, sampled_logp: Tensor, mask: Tensor, *, tau: float = 0.04
) -> Tensor:
    """(B, T) bool, the unmasked tokens that may learn. Of *all* tokens those that moved most
    between the weights that sampled and those at the start of the update are left out, by rank,
    until the mean of ``(log π_old - log π_sampled)²`` over the rest is at most ``tau``. The loss
    ``m2po`` has the paper's own form, which looks at the current weights and at tokens that move
    outward only."""
    everything = torch.ones_like(mask, dtype=torch.bool)
    return second_moment_keep(old_logp, sampled_logp, mask, everything, tau=tau)


class M2POAReaL(Over):
    """Another estimator's advantages, 0 on the tokens that :func:`m2po_areal_keep` leaves out.

    They are chosen once per step, among the whole batch, before it is cut into parts; what the loss
    is divided by does not change. Use with the loss ``ppo`` or ``decoupled``.

    Args:
        base: An estimator as in a recipe.
        tau: Mean of the squared log-ratios that are left.
    """

    registered = "advantage:m2po_areal"
    needs = frozenset({"old_logp", "sampled_logp"})
    reductions = (Reduction({"tau": 1e9}, {"use": "grpo"}),)

    def __init__(self, base: Any = "grpo", tau: float = 0.04) -> None:
        if tau <= 0:
            raise ValueError(f"tau must be positive, got {tau}")
        super().__init__(base)
        self.tau = float(tau)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        old, sampled = batch.need("old_logp"), batch.sampled_logp
        keep = m2po_areal_keep(old, sampled, batch.mask, tau=self.tau)
        wide = spread(made.adv, batch.mask)
        return made._replace(adv=torch.where(keep, wide, torch.zeros_like(wide)))
