"""REINFORCE++ (arXiv 2501.03262): no groups needed; the batch is the baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from ..ops.ratios import kl as kl_estimate
from ..ops.tokens import masked, whiten
from ..ops.turns import reward_to_go
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


def reinforce_pp_advantages(
    reward: Tensor,
    mask: Tensor,
    *,
    kl: Tensor | None = None,
    beta: float = 0.0,
    gamma: float = 1.0,
) -> Tensor:
    """(B, T) the reward to go of ``r_t - beta · kl_t``, whitened over the batch's tokens.

    Args:
        reward, mask: (B, T).
        kl: (B, T) estimates to the reference policy (``ops.kl``, "k1"); None: no KL.
        gamma: discount per unmasked token. Returns are carried through masked tokens.
    """
    if (kl is None) != (beta == 0):
        raise ValueError(f"kl and beta go together, got beta={beta} and kl={kl is not None}")
    if kl is not None:
        reward = masked(reward, mask) - beta * masked(kl.detach(), mask)
    return whiten(reward_to_go(reward, mask, gamma), mask)


class ReinforcePP(Slot):
    """The reward to go, with ``beta`` (or ``coef["beta"]``) times KL in it, whitened over the
    batch's tokens. None: without KL and reference; ``coef["beta"]`` is then another's."""

    registered = "reinforce_pp"
    relative: ClassVar[bool] = False

    def __init__(self, beta: float | None = None, gamma: float = 1.0) -> None:
        self.beta, self.gamma = beta, float(gamma)
        self.requires = frozenset(() if beta is None else {"ref_logp", "old_logp"})
        self.reads = frozenset(() if beta is None else {"beta"})
        self.invariant = frozenset({"scale"} if beta is None else ())

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        beta = 0.0 if self.beta is None else coef.get("beta", self.beta)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        penalty = None
        if beta:
            penalty = kl_estimate(batch.need("old_logp"), batch.need("ref_logp"), "k1")
        made = reinforce_pp_advantages(
            batch.token_reward(), mask, kl=penalty, beta=beta, gamma=self.gamma
        )
        return Estimate(made)
