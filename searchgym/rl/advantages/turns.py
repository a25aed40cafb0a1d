"""Credit of turns: what leaves of a tree share (Tree-GRPO, ARPO), and turns compared with others of
the same number (MatchTIR, MAPO, UI-S1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import torch

from ..ops.branches import at_tokens, segments
from ..ops.groups import Std, checked_std
from ..ops.tokens import masked, spread
from ..ops.turns import Alone, checked_alone, on_turns, same, standardized, turn_returns
from ..slots.batch import Batch, Estimate
from ..slots.protocols import AdvantageEstimator, Reduction
from .base import Coef, Over
from .group_relative import grpo_advantages

Share = Literal["copies", "mean", "best"]
HOW: Mapping[Share, Callable[[Sequence[float]], float]] = {
    "copies": math.fsum,
    "mean": lambda values: math.fsum(values) / max(len(values), 1),
    "best": lambda values: max(values, default=0.0),
}


class Branches(Over):
    """``base`` of the leaves: A = A among the group's + ``intra`` · A among those of the same tree
    (Tree-GRPO, arXiv 2509.21240, adds the two). A turn that several leaves have in common gets

    - ``share = "copies"``: the sum of theirs, as if each were trained on as a whole (ARPO's soft
      assignment, arXiv 2507.19849): at ratio 1 the gradient is that of the copies;
    - ``"mean"``: their mean (ARPO's hard assignment);
    - ``"best"``: the largest.

    The token itself is in the batch once. Where nothing branched off this is ``base``.

    Args:
        base: An estimator as in a recipe, one number for each episode.
        whole: Only members whose episodes have ended are leaves: what was stopped before its end
            (rollout ``pruned``) is compared with nobody, and turns that it alone holds are not
            trained on.
    """

    registered = "branches"
    reductions = (Reduction({}, {"use": "grpo"}),)

    def __init__(
        self, base: Any = "grpo", intra: float = 0.0, share: Share = "copies", whole: bool = False
    ) -> None:
        super().__init__(base)
        if share not in get_args(Share):
            raise ValueError(f"share is one of {', '.join(get_args(Share))}, got {share!r}")
        self.intra = float(intra)
        self.share: Share = share
        self.whole = whole

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        if not self.whole:
            return self._estimate(batch, coef)
        ended = torch.tensor([m.finished for m in batch.members])
        known = torch.where(ended, batch.reward, torch.nan)
        made = self._estimate(replace(batch, reward=known), coef)
        spans = segments(batch.group, batch.number, batch.parent, batch.since)
        kept = [float(any(bool(ended[i]) for i in s.leaves)) for s in spans]
        mask = batch.mask & (at_tokens(spans, kept, batch.turn) > 0)
        return made._replace(mask=mask if made.mask is None else mask & made.mask)

    def _estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        leaf = made.adv
        if self.intra:
            trees = batch.group if batch.siblings is None else batch.siblings
            leaf = leaf + self.intra * self.base.estimate(replace(batch, group=trees), coef).adv
        if leaf.ndim != 1:
            raise ValueError(
                f"branches shares one number for each episode, and {type(self.base).__name__} "
                "gives one for each token: take a base such as grpo, rloo or dr_grpo"
            )
        spans = segments(batch.group, batch.number, batch.parent, batch.since)
        scored = (~batch.reward.isnan()).tolist()
        own, how = leaf.tolist(), HOW[self.share]
        shared = [how([own[i] for i in s.leaves if scored[i]]) for s in spans]
        return made._replace(adv=masked(at_tokens(spans, shared, batch.turn), batch.mask))


class TurnMix(AdvantageEstimator):
    """``trajectory`` · GRPO(R) + ``turn`` · z(G_k among the group's k-th turns) + ``batch`` · z(G_k
    among all turns of the batch), with G_k = Σ_{j ≥ k} γ^{j-k} r_j.

    MatchTIR's dual advantage (arXiv 2601.10712) is ½ and ½ of the first two, MAPO (arXiv
    2603.06194) mixes the last two, and UI-S1 (arXiv 2509.11543) adds the first two.

    Args:
        trajectory, turn, batch: Weights of the three.
        gamma: Discount per turn.
        alone: A turn that no other member of the group reached gets 0, or its return ("raw",
            MatchTIR's released code).
    """

    registered = "turn_mix"
    reductions = (Reduction({"trajectory": 1.0, "turn": 0.0}, {"use": "grpo"}),)

    def __init__(
        self,
        trajectory: float = 0.5,
        turn: float = 0.5,
        batch: float = 0.0,
        gamma: float = 0.9,
        alone: Alone = "zero",
        std: Std = "sample",
        eps: float = 1e-6,
    ) -> None:
        self.trajectory, self.turn, self.batch = float(trajectory), float(turn), float(batch)
        self.gamma, self.eps = float(gamma), float(eps)
        self.alone: Alone = checked_alone(alone)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        whole = grpo_advantages(batch.reward, batch.group, std=self.std, eps=self.eps)
        (rows, columns), later = turn_returns(batch.token_reward(), batch.turn, mask, self.gamma)
        kth = same(batch.group[rows], batch.turn[rows, columns])
        apart = self.turn * standardized(
            later, kth, std=self.std, eps=self.eps, alone=self.alone
        )  # fmt: skip
        if self.batch:
            everyone = torch.zeros_like(rows)
            apart = apart + self.batch * standardized(
                later, everyone, std=self.std, eps=self.eps
            )  # fmt: skip
        adv = self.trajectory * spread(whole, mask)
        return Estimate(adv + on_turns(apart, (rows, columns), batch.turn, mask))
