"""SPO: a tree of segments, each credited with what the state's value gained by it."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from searchgym.rl import Batch, Branching, Coef, Estimate, Reduction, Relative, TurnTree
from searchgym.rl.ops import Average, Std, Valued, at_tokens, checked_std, masked, segments, values

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

    registered = "advantage:segment_values"
    invariant = frozenset({"shift"})
    reductions = (
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


class Levels(Branching):
    """``roots`` chains, each of which becomes ``width`` after ``every`` turns, and again, until
    there are ``size`` leaves (SPO's tree, Guo et al., arXiv 2505.23564: 6 of 6 of 6). What has
    ended before does not split, so that there may be fewer.

    Args:
        size: Leaves of a group: ``roots`` times a power of ``width``.
        every: Turns between two splits (the paper: 100 tokens).
    """

    registered = "rollout:levels"

    def __init__(self, size: int = 8, roots: int = 2, width: int = 2, every: int = 1) -> None:
        super().__init__(size)
        if roots < 1 or width < 2 or every < 1:
            raise ValueError(
                f"roots and every are at least 1, width at least 2, got {roots}, {every}, {width}"
            )
        self.roots, self.width, self.every, self.splits = roots, width, every, 0
        while roots * width ** (self.splits + 1) <= size:
            self.splits += 1
        if roots * width**self.splits != size:
            raise ValueError(
                f"size must be roots times a power of width, {roots} · {width}ⁿ; got {size}"
            )

    def plant(self, tree: TurnTree) -> None:
        for _ in range(self.roots):
            tree.chain()

    def grow(self, tree: TurnTree) -> None:
        for place in tree.moved():
            branch = tree.branches[place]
            split, rest = divmod(branch.turns, self.every)
            if branch.going and not rest and split <= self.splits:
                for _ in range(self.width - 1):
                    tree.fork(place, branch.turns)
