"""SPO (arXiv 2505.23564): a segment is credited with what the state's value gained by it."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, get_args

import numpy as np

from ..ops.branches import Average, Valued, at_tokens, segments, values
from ..ops.groups import Std, checked_std
from ..ops.mask import masked
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from .base import Coef, Relative

Norm = Literal["rloo", "grpo"]


class SegmentValues(Relative):
    """V(where the segment ends) - V(where it begins): a leaf is worth its reward, a state the mean
    of what goes on from it, the question the mean of its chains. Along a path the differences add
    up to R - V(question); without branches they are R - the group's mean.

    Args:
        norm: ``"rloo"`` leaves the difference, ``"grpo"`` divides it by the standard deviation of
            the state's segments.
        certain: Tokens that had at least this probability are not trained on (paper: .9); None:
            all are.
        average: ``"states"``: as above; ``"leaves"``: a segment is worth the mean of all leaves
            below, as in a tree search (``ops.branches.values``).
    """

    registered = "segment_values"
    invariant = frozenset({"shift"})
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"certain": None}, {"use": "dr_grpo"}),
        Reduction({"certain": None, "norm": "grpo"}, {"use": "grpo"}),
    )

    def __init__(
        self,
        norm: Norm = "rloo",
        certain: float | None = 0.9,
        std: Std = "sample",
        eps: float = 1e-6,
        average: Average = "states",
    ) -> None:
        if norm not in ("rloo", "grpo"):
            raise ValueError(f"norm is 'rloo' or 'grpo', got {norm!r}")
        if certain is not None and not 0 < certain <= 1:
            raise ValueError(f"certain is in (0, 1], got {certain}")
        if average not in get_args(Average):
            raise ValueError(f"average is 'states' or 'leaves', got {average!r}")
        self.norm: Norm = norm
        self.average: Average = average
        self.certain, self.eps = certain, float(eps)
        self.std: Std = checked_std(std)
        if certain is not None:
            self.requires = frozenset({"old_logp"})

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        spans = segments(batch.group, batch.number, batch.parent, batch.since)
        worth = values(spans, batch.reward.double().tolist(), self.average)
        gained = [self._gain(value) for value in worth]
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        made = Estimate(masked(at_tokens(spans, gained, batch.turn), mask))
        if self.certain is None:
            return made
        unsure = batch.mask & (batch.need("old_logp") < math.log(self.certain))
        return made._replace(mask=unsure)

    def _gain(self, value: Valued) -> float:
        if math.isnan(value.end) or min(value.siblings) == max(value.siblings):
            return 0.0
        gain = value.end - value.before
        if self.norm == "rloo":
            return gain
        return gain / (float(np.std(value.siblings, ddof=self.std == "sample")) + self.eps)
