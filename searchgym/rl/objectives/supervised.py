"""Losses that imitate: all trajectories of a batch, or the better of pairs."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..losses.dpo import dpo_loss, outcome_pairs
from ..losses.sft import sft_loss
from ..slots.batch import Batch, Output, Totals
from .base import Objective


class SFT(Objective):
    """-log π of trained tokens. Which trajectories are in the batch is the data policy's choice."""

    name = "sft"

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        return sft_loss(
            output.logp, batch.mask, aggregate=self.aggregate, **self.counts(totals)
        )  # fmt: skip


class DPO(Objective):
    """Every success against every failure of the same group.

    The sum over pairs is divided by the update's *trajectories*, whose number is known wherever its
    parts are computed; a group is never split.
    """

    name = "dpo"
    whole_groups = True
    requires = frozenset({"ref_logp"})

    def __init__(self, beta: float = 0.1, threshold: float = 0.5, weight: float = 1.0) -> None:
        super().__init__(weight)
        self.beta, self.threshold = float(beta), float(threshold)

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> tuple[Tensor, dict[str, float]]:
        pairs = outcome_pairs(batch.reward, batch.group, threshold=self.threshold)
        return dpo_loss(
            output.logp, batch.need("ref_logp"), batch.mask, pairs,
            beta=self.beta, total=max(totals.sequences, 1.0),
        )  # fmt: skip
