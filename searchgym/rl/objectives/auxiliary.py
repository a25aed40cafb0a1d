"""Losses that stand beside a policy loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..kernels.kl import Estimator
from ..losses.entropy import entropy_loss
from ..losses.kl import kl_loss
from ..slots.batch import Batch, Output, Totals
from .base import Objective


class KL(Objective):
    """Estimated KL to the reference; ``weight`` is β."""

    name = "kl"
    requires = frozenset({"ref_logp"})

    def __init__(self, weight: float = 0.001, how: Estimator = "k3", **shared: Any) -> None:
        super().__init__(weight, **shared)
        self.how: Estimator = how

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        return kl_loss(
            output.logp, batch.need("ref_logp"), batch.mask, self.how,
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
    ) -> tuple[Tensor, dict[str, float]]:
        if output.entropy is None:
            raise ValueError("the entropy bonus needs the model's entropies")
        return entropy_loss(
            output.entropy, batch.mask, aggregate=self.aggregate, **self.counts(totals)
        )
