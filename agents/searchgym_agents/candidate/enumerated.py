"""Groups that hold *every* action: for small action sets whose values are all known. Ours."""

from __future__ import annotations

import torch
from torch import Tensor

from searchgym.rl.ops.shapes import require_rows


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
    require_rows(worth=worth, logp=logp, group=group)
    odds, worth = logp.detach().exp(), worth.detach().clamp_min(0)
    zero = torch.zeros(groups, dtype=worth.dtype, device=worth.device)
    mean = zero.index_add(0, group, odds * worth)
    best = zero.scatter_reduce(0, group, worth, "amax").clamp_max(1)
    return best[group] * odds * (worth - mean[group]) / (mean[group] + 1e-3)
