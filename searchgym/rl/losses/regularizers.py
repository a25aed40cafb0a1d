"""Terms beside the policy loss: the KL to a reference (GRPO: β · k3), and an entropy bonus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..ops.ratios import Estimator, kl
from ..ops.tokens import aggregate_tokens, masked, masked_mean
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Coef, Result
from .base import WeightedLoss


class KLLoss(WeightedLoss):
    """Estimated KL to the reference, without the reference's gradient; ``weight`` is β. Its
    statistic is the mean estimate.

    Args:
        how: ``k2`` has the KL's gradient; ``k3`` is what most code uses, ``k3+`` has k3's value and
            k2's gradient. That of ``k1`` is 0 in expectation: it belongs into the reward, by the
            estimator ``kl_in_reward``.
    """

    registered = "kl"
    name = "kl"
    requires = frozenset({"ref_logp"})

    def __init__(self, weight: float = 0.001, how: Estimator = "k3", **shared: Any) -> None:
        super().__init__(weight, **shared)
        kl(torch.zeros(1), torch.zeros(1), how)  # an unknown one fails now
        self.how: Estimator = how

    def by_token(self, logp: Tensor, batch: Batch) -> tuple[Tensor, Mapping[str, float]]:
        mask = batch.mask
        value = kl(masked(logp, mask), masked(batch.need("ref_logp"), mask).detach(), self.how)
        return value, {"kl": masked_mean(value, mask)}


class EntropyLoss(WeightedLoss):
    """A bonus: minus the entropy of the distributions that tokens were drawn from. Its statistic is
    the mean entropy."""

    registered = "entropy"
    name = "entropy"
    requires = frozenset({"entropy"})

    def __init__(self, weight: float = 0.001, **shared: Any) -> None:
        super().__init__(weight, **shared)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        if output.entropy is None:
            raise ValueError("the entropy bonus needs the model's entropies")
        stats = {"entropy": masked_mean(output.entropy, batch.mask)}
        counts = self.counts(totals)
        return -aggregate_tokens(output.entropy, batch.mask, self.aggregate, **counts), stats
