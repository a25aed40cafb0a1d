"""How the rewards of a group become advantages. Pure functions on tensors, for any policy.

Source: GRPO (Shao et al., arXiv 2402.03300), Dr.GRPO (arXiv 2503.20783) for ``scale="none"``;
:func:`enumerated_advantages` is ours, for small action sets whose values are all known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor


def group_advantages(
    reward: Tensor,
    group: Tensor,
    *,
    scale: Literal["std", "none"] = "std",
    std: Literal["sample", "population"] = "sample",
    eps: float = 1e-6,
) -> Tensor:
    """Rewards minus their group's mean, optionally over (its standard deviation + ``eps``).

    Args:
        reward: (B,) one number per trajectory.
        group: (B,) integers; equal numbers mean the same group, in any order.
        scale: ``"std"`` is GRPO, ``"none"`` is Dr.GRPO.
        std: ``"sample"`` divides by n - 1 (verl, TRL), ``"population"`` by n (some papers).

    Returns:
        (B,) advantages, detached. A group of one and a group of equal rewards get exactly 0.

    Raises:
        ValueError: shapes differ, or an unknown option.
    """
    import torch

    if reward.ndim != 1 or reward.shape != group.shape:
        raise ValueError(
            f"reward {tuple(reward.shape)} and group {tuple(group.shape)} must be equal and 1-D"
        )
    if scale not in ("std", "none") or std not in ("sample", "population"):
        raise ValueError(
            f"scale={scale!r}, std={std!r}: expected 'std'|'none', 'sample'|'population'"
        )
    reward = reward.detach()
    names, index = torch.unique(group, return_inverse=True)
    count = torch.zeros(len(names), dtype=reward.dtype, device=reward.device)
    count.index_add_(0, index, torch.ones_like(reward))
    total = torch.zeros_like(count).index_add_(0, index, reward)
    centred = reward - (total / count)[index]
    first = torch.full_like(count, float("inf")).scatter_reduce(0, index, reward, "amin")
    last = torch.full_like(count, float("-inf")).scatter_reduce(0, index, reward, "amax")
    flat = first == last
    if scale == "std":
        squares = torch.zeros_like(count).index_add_(0, index, centred**2)
        degrees = (count - 1).clamp_min(1) if std == "sample" else count
        centred = centred / ((squares / degrees).sqrt() + eps)[index]
    return torch.where(flat[index], torch.zeros_like(centred), centred)


def enumerated_advantages(worth: Tensor, logp: Tensor, group: Tensor, groups: int) -> Tensor:
    """Advantages of groups that hold *every* action, each with the odds the policy gives it.

    ``A(a) = best · π(a) · (Q(a) - V) / (V + ε)`` with ``V = Σ π Q``, ``best = max Q`` (at most 1),
    Q clipped at 0, ε = 1e-3. Summed with ``∇ log π`` this is the exact gradient of
    ``best · log V``: a policy gradient without sampling noise whose steps do not shrink while the
    right action is still unlikely. States where nothing is worth anything do not count.

    Args:
        worth: (N,) value Q of each action.
        logp: (N,) log-probabilities; each group's sum to one.
        group: (N,) integers in [0, groups).
        groups: how many groups there are.

    Returns:
        (N,) detached; each group's sum to zero.
    """
    import torch

    if worth.ndim != 1 or not worth.shape == logp.shape == group.shape:
        raise ValueError(
            f"worth {tuple(worth.shape)}, logp {tuple(logp.shape)} and group {tuple(group.shape)} "
            "must be equal and 1-D"
        )
    odds, worth = logp.detach().exp(), worth.detach().clamp_min(0)
    zero = torch.zeros(groups, dtype=worth.dtype, device=worth.device)
    mean = zero.index_add(0, group, odds * worth)
    best = zero.scatter_reduce(0, group, worth, "amax").clamp_max(1)
    return best[group] * odds * (worth - mean[group]) / (mean[group] + 1e-3)
