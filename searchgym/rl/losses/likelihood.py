"""Losses of whole texts' likelihood: supervised fine-tuning, and DPO on pairs of trajectories."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..ops.ratios import log_ratio
from ..ops.tokens import masked, masked_mean, require_rows
from ..slots.batch import Batch, Mean, Output, Totals
from ..slots.protocols import Result
from .base import Coef, WeightedLoss

Weighting = Literal["none", "p(1-p)"]


class SFTLoss(WeightedLoss):
    """Loss -log π of trained tokens. Which trajectories are in the batch is the data policy's
    choice.

    Args:
        weighting: Factor on each token: none, or ``"p(1-p)"`` of its probability p under the
            current weights, which keeps away from what is certain already and from what would be a
            shock (CHORD's φ, arXiv 2508.11408).
        entropy: Measure the mean entropy at these tokens, too: the metric ``sft/entropy``.
    """

    registered = "sft"
    name = "sft"

    def __init__(self, weighting: Weighting = "none", entropy: bool = False, **shared: Any) -> None:
        super().__init__(**shared)
        if weighting not in get_args(Weighting):
            raise ValueError(f"weighting is 'none' or 'p(1-p)', got {weighting!r}")
        self.weighting: Weighting = weighting
        self.requires = frozenset({"old_entropy"} if entropy else ())

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        loss = -masked(logp, batch.mask)
        if self.weighting == "p(1-p)":
            chance = masked(logp.detach(), batch.mask).exp()
            loss = loss * (chance * (1 - chance))
        if not self.requires:
            return loss, {}
        return loss, {"entropy": masked_mean(batch.need("old_entropy"), batch.mask)}


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


class DPOLoss(WeightedLoss):
    """Every success against every failure of the same group.

    The mean over all pairs of the update, so that a group of s successes among G weighs s (G - s).
    A group is never split.

    Args:
        threshold: Reward from which an episode counts as a success.
        label_smoothing: The share of pairs taken to be the wrong way round.
    """

    registered = "dpo"
    name = "dpo"
    whole_groups = True
    requires = frozenset({"ref_logp"})

    def __init__(
        self,
        beta: float = 0.1,
        threshold: float = 0.5,
        label_smoothing: float = 0.0,
        weight: float = 1.0,
    ) -> None:
        super().__init__(weight)
        if not 0 < beta < math.inf or not 0 <= label_smoothing < 0.5:
            raise ValueError(
                f"beta is positive, label_smoothing in [0, 0.5); got {beta}, {label_smoothing}"
            )
        self.beta, self.threshold = float(beta), float(threshold)
        self.label_smoothing = float(label_smoothing)

    def prepare(self, batch: Batch, output: Output | None, coef: Coef) -> Mapping[str, Tensor]:
        """The number of pairs in the whole update, at each trajectory."""
        pairs = outcome_pairs(batch.reward, batch.group, threshold=self.threshold)
        return {"dpo_pairs": torch.full((len(batch),), float(len(pairs)))}

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        pairs = outcome_pairs(batch.reward, batch.group, threshold=self.threshold)
        loss, stats = dpo_loss(
            output.logp, batch.need("ref_logp"), batch.mask, pairs, beta=self.beta,
            label_smoothing=self.label_smoothing,
            total=max(float(batch.note("dpo_pairs").max()), 1.0),
        )  # fmt: skip
        return loss, {name: Mean(value * len(pairs), len(pairs)) for name, value in stats.items()}
