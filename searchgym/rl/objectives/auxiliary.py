"""Losses that stand beside a policy loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..kernels.kl import Estimator, kl
from ..losses.entropy import entropy_loss
from ..losses.kl import kl_loss
from ..slots.batch import Batch, Output, Totals
from ..slots.protocols import Result
from .base import Objective


class KL(Objective):
    """Estimated KL to the reference; ``weight`` is β.

    Args:
        how: ``k2`` has the KL's gradient; ``k3`` is what most code uses, ``k3+`` has k3's value and
            k2's gradient. That of ``k1`` is 0 in expectation: it belongs into the reward, by the
            estimator ``kl_in_reward``.
    """

    name = "kl"
    requires = frozenset({"ref_logp"})

    def __init__(self, weight: float = 0.001, how: Estimator = "k3", **shared: Any) -> None:
        super().__init__(weight, **shared)
        kl(torch.zeros(1), torch.zeros(1), how)  # an unknown one fails now
        self.how: Estimator = how

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        return kl_loss(
            output.logp, batch.need("ref_logp"), batch.mask, self.how,
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


class KLCov(Objective):
    """``|log π - log π_old|`` on the tokens that the estimator ``kl_cov`` picked. What the sum is
    divided by counts all tokens."""

    name = "kl_cov"
    requires = frozenset({"old_logp", "picked"})

    def __init__(self, weight: float = 1.0, **shared: Any) -> None:
        super().__init__(weight, **shared)

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        return kl_loss(
            output.logp, batch.need("old_logp"), batch.mask, "abs",
            weight=batch.note("picked").to(output.logp.dtype),
            aggregate=self.aggregate, **self.counts(totals),
        )  # fmt: skip


class Entropy(Objective):
    """A bonus: minus the entropy of the distributions that tokens were drawn from."""

    name = "entropy"
    requires = frozenset({"entropy"})

    def __init__(self, weight: float = 0.001, **shared: Any) -> None:
        super().__init__(weight, **shared)

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        if output.entropy is None:
            raise ValueError("the entropy bonus needs the model's entropies")
        return entropy_loss(
            output.entropy, batch.mask, aggregate=self.aggregate, **self.counts(totals)
        )
