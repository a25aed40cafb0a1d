"""Base of the losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, get_args

from ..ops.tokens import Aggregate, Counts
from ..slots.batch import Totals
from ..slots.protocols import Loss, Reduction, RunFacts

Coef = Mapping[str, float]
"""Coefficients of a step, by name."""
ON_POLICY = (Reduction({}, {"use": "reinforce", "aggregate": "token-mean"}, "on-policy"),)
"""The claim that a loss has REINFORCE's gradient where old and new policy are equal."""


def check_clip(low: float, high: float) -> None:
    """Raise ``ValueError`` for a clip range that is none."""
    if not 0 <= low <= 1 or not 0 <= high < math.inf:
        raise ValueError(f"0 ≤ clip_low ≤ 1 and clip_high ≥ 0, got {low}, {high}")


def check_positive(**options: float) -> None:
    """Raise ``ValueError`` naming the first option that is not positive and finite."""
    for name, value in options.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive, got {value}")


class WeightedLoss(Loss):
    """A loss with a ``weight``, an aggregation, and counts that make parts add up.

    Args:
        weight: Weight of the loss in the sum; ``coef[name]`` replaces it.
        aggregate: One of ``ops.tokens.Aggregate``; default: the method's own.
        norm: For "seq-mean-token-sum-norm": tokens by which each trajectory's sum is divided.
    """

    default: ClassVar[Aggregate] = "token-mean"
    off_policy: ClassVar[tuple[str, ...]] = ()
    """Options that change nothing where every ratio is 1, as at the first update of a step."""

    def __init__(
        self,
        weight: float = 1.0,
        aggregate: Aggregate | None = None,
        norm: float | None = None,
    ) -> None:
        self.weight = float(weight)
        if not math.isfinite(self.weight):
            raise ValueError(f"weight must be a finite number, got {weight}")
        self.aggregate: Aggregate = aggregate or self.default
        if self.aggregate not in get_args(Aggregate):
            raise ValueError(f"aggregate is one of {', '.join(get_args(Aggregate))}")
        if (norm is None) == (self.aggregate == "seq-mean-token-sum-norm"):
            raise ValueError("norm (tokens) and aggregate='seq-mean-token-sum-norm' go together")
        self.norm = norm

    def idle(self, run: RunFacts) -> Mapping[str, str]:
        """The options of ``off_policy``, where each step makes one update. The ratio is to the
        weights at its start, also where the data are older."""
        if run.updates > 1:
            return {}
        reason = (
            "each step makes one update, at which every ratio is 1; train.minibatches or "
            "train.epochs above 1 makes several"
        )
        return dict.fromkeys(self.off_policy, reason)

    def counts(self, totals: Totals) -> Counts:
        """Divisors of sums: never 0."""
        sequences = max(totals.sequences, 1.0)
        made: Counts = {"tokens": max(totals.tokens, 1.0), "sequences": sequences}
        if self.norm is not None:
            made["norm"] = self.norm * sequences
        return made
