"""DPO (arXiv 2305.18290) on trajectories: what the policy wrote counts, what it read does not."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..kernels.ratio import log_ratio
from ..kernels.shapes import require_rows


def dpo_loss(
    logp: Tensor,
    ref_logp: Tensor,
    mask: Tensor,
    pairs: Tensor,
    *,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
    total: float | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """``-log σ(β (Δ_better - Δ_worse))``, mean over pairs; Δ = masked sum of logp - ref_logp.

    Args:
        logp, ref_logp, mask: (B, T).
        pairs: (P, 2) rows of the batch, the better one first (``outcome_pairs``). P may be 0.
        label_smoothing: the share s of pairs taken to be the wrong way round, 0 ≤ s < 0.5.
        total: what the sum is divided by instead of P, when a batch is split.

    Returns:
        (loss, stats): the share of pairs in the right order and the mean margin β (Δ_b - Δ_w).
    """
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"expected pairs of shape (P, 2), got {tuple(pairs.shape)}")
    if not 0 <= label_smoothing < 0.5:
        raise ValueError(f"label_smoothing must be in [0, 0.5), got {label_smoothing}")
    delta = log_ratio(logp, ref_logp, mask).sum(1)
    margin = beta * (delta[pairs[:, 0]] - delta[pairs[:, 1]])
    loss = -(1 - label_smoothing) * logsigmoid(margin) - label_smoothing * logsigmoid(-margin)
    count = max(len(pairs), 1)
    with torch.no_grad():
        stats = {
            "accuracy": float((margin > 0).sum() / count),
            "margin": float(margin.sum() / count),
        }
    return loss.sum() / (count if total is None else total), stats


def outcome_pairs(reward: Tensor, group: Tensor, *, threshold: float = 0.5) -> Tensor:
    """(P, 2) every success (reward ≥ threshold) with every failure of the same group; NaN neither.

    Args:
        reward, group: (B,).
    """
    require_rows(reward=reward, group=group)
    better, worse = reward >= threshold, reward < threshold
    together = group[:, None] == group[None, :]
    return (together & better[:, None] & worse[None, :]).nonzero()
