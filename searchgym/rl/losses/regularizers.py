"""Terms beside the policy loss: the KL to a reference (GRPO: β · k3), and an entropy bonus."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from ..ops.ratios import Estimator, kl
from ..ops.tokens import Aggregate, Counts, aggregate_tokens, masked, masked_mean, spread
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Coef, Result
from .base import WeightedLoss


def kl_loss(
    logp: Tensor,
    ref_logp: Tensor,
    mask: Tensor,
    how: Estimator = "k3",
    *,
    weight: Tensor | None = None,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """``ops.kl()`` per token, aggregated as the policy loss is; multiply by β yourself.

    Args:
        logp, ref_logp, mask: (B, T). The reference is detached.
        how: "k1" is for rewards: as a loss its gradient is 0 in expectation.
        weight: (B, T) factors, e.g. ``kl_cov_tokens``; divisors do not change.

    Returns:
        (loss, stats): the mean estimate over unmasked tokens, unweighted.
    """
    value = kl(masked(logp, mask), masked(ref_logp, mask).detach(), how)
    stats = {"kl": masked_mean(value, mask)}
    if weight is not None:
        value = value * spread(weight, mask)
    return aggregate_tokens(value, mask, aggregate, **counts), stats


class KLLoss(WeightedLoss):
    """Estimated KL to the reference; ``weight`` is β.

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

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        return kl_loss(
            output.logp, batch.need("ref_logp"), batch.mask, self.how,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


def entropy_loss(
    entropy: Tensor,
    mask: Tensor,
    *,
    aggregate: Aggregate = "token-mean",
    **counts: Unpack[Counts],
) -> tuple[Tensor, dict[str, float]]:
    """Negative aggregated entropy (B, T): add it to the loss with a small positive coefficient.

    Returns:
        (loss, stats): the mean entropy over unmasked tokens.
    """
    stats = {"entropy": masked_mean(entropy, mask)}
    return -aggregate_tokens(masked(entropy, mask), mask, aggregate, **counts), stats


class EntropyLoss(WeightedLoss):
    """A bonus: minus the entropy of the distributions that tokens were drawn from."""

    registered = "entropy"
    name = "entropy"
    requires = frozenset({"entropy"})

    def __init__(self, weight: float = 0.001, **shared: Any) -> None:
        super().__init__(weight, **shared)

    def __call__(self, output: Output, batch: Batch, totals: Totals, coef: Coef) -> Result:
        if output.entropy is None:
            raise ValueError("the entropy bonus needs the model's entropies")
        return entropy_loss(
            output.entropy, batch.mask, aggregate=self.aggregate, **self.counts(totals)
        )
