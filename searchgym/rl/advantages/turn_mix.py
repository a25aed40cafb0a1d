"""A turn's return compared with others' of the same turn, of the whole batch, and its trajectory's
reward with the group's: MatchTIR, MAPO, UI-S1."""

from __future__ import annotations

from typing import ClassVar

import torch

from ..ops.groups import Std, checked_std
from ..ops.tokens import spread
from ..ops.turns import Alone, checked_alone, on_turns, same, standardized, turn_returns
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction, Slot
from .base import Coef
from .grpo import grpo_advantages


class TurnMix(Slot):
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
    relative: ClassVar[bool] = False  # equal totals may be made of different turns
    reductions: ClassVar[tuple[Reduction, ...]] = (
        Reduction({"trajectory": 1.0, "turn": 0.0}, {"use": "grpo"}),
    )

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
