"""REINFORCE++ (arXiv 2501.03262): no groups needed; the batch is the baseline."""

from __future__ import annotations

from torch import Tensor

from ..kernels.groups import RewardGroups
from ..kernels.mask import masked, spread
from ..kernels.returns import reward_to_go
from ..kernels.shapes import require_batch
from ..kernels.whiten import whiten


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
        kl: (B, T) estimates to the reference policy (``kernels.kl``, "k1"); None: no KL.
        gamma: discount per unmasked token. Returns are carried through masked tokens.
    """
    if (kl is None) != (beta == 0):
        raise ValueError(f"kl and beta go together, got beta={beta} and kl={kl is not None}")
    if kl is not None:
        reward = masked(reward, mask) - beta * masked(kl.detach(), mask)
    return whiten(reward_to_go(reward, mask, gamma), mask)


def reinforce_pp_baseline_advantages(reward: Tensor, group: Tensor, mask: Tensor) -> Tensor:
    """(B, T) R - mean of the group, whitened over the batch's tokens (long ones weigh more).

    Args:
        reward, group: (B,). mask: (B, T). An unscorable trajectory (NaN) is whitened with nobody.
    """
    require_batch(mask, reward=reward)
    groups = RewardGroups(reward, group)
    adv = groups.advantage(groups.reward - groups.mean[groups.index])
    counted = (mask > 0) & groups.scored[:, None]
    return whiten(spread(adv, mask), counted)
