"""Losses that imitate: all trajectories of a batch, or the better of pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..losses.dpo import dpo_loss, outcome_pairs
from ..losses.sft import sft_loss
from ..slots.batch import Batch, Mean, Output, Totals
from ..slots.protocols import Result
from .base import Objective


class SFT(Objective):
    """-log π of trained tokens. Which trajectories are in the batch is the data policy's choice."""

    name = "sft"

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        return sft_loss(
            output.logp, batch.mask, aggregate=self.aggregate, **self.counts(totals)
        )  # fmt: skip


class DPO(Objective):
    """Every success against every failure of the same group.

    The sum over pairs is divided by the update's *trajectories*, whose number is known wherever its
    parts are computed; a group is never split.

    Args:
        threshold: What counts as a success.
        label_smoothing: The share of pairs taken to be the wrong way round.
    """

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

    def __call__(
        self, output: Output, batch: Batch, totals: Totals, coef: Mapping[str, float]
    ) -> Result:
        pairs = outcome_pairs(batch.reward, batch.group, threshold=self.threshold)
        loss, stats = dpo_loss(
            output.logp, batch.need("ref_logp"), batch.mask, pairs, beta=self.beta,
            label_smoothing=self.label_smoothing, total=max(totals.sequences, 1.0),
        )  # fmt: skip
        return loss, {name: Mean(value * len(pairs), len(pairs)) for name, value in stats.items()}
