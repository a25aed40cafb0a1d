"""Advantages that tell turns apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch

from ..advantages.gigpo import Norm, gigpo_advantages
from ..advantages.grpo import grpo_advantages, grpo_step_advantages
from ..kernels.groups import Std, checked_std
from ..kernels.mask import masked, spread
from ..kernels.turns import over_turn, turn_ends
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction, Slot

Coef = Mapping[str, float]


class GRPOSteps(Slot):
    """GRPO with process supervision: all rewards of a group's turns compared together, the outcome
    as its last turn's; a turn gets its own score and those of later turns. IGPO's, too."""

    relative: ClassVar[bool] = False  # equal totals may be made of different turns
    invariant: ClassVar[frozenset[str]] = frozenset({"scale"})

    def __init__(self, gamma: float = 1.0, std: Std = "sample", eps: float = 1e-6) -> None:
        self.gamma, self.eps = float(gamma), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        adv = grpo_step_advantages(
            over_turn(batch.token_reward(), batch.turn, mask),
            turn_ends(batch.turn, mask), batch.group, mask,
            gamma=self.gamma, std=self.std, eps=self.eps,
        )  # fmt: skip
        return Estimate(adv)


class GiGPO(Slot):
    """Episodes compared within their group, turns with others that began in the same state.

    Args:
        weight: Of the comparison of turns, or ``coef["gigpo"]``.
        gamma: Per turn.
        norm: ``"mean"`` or ``"mean_std"``.
    """

    relative: ClassVar[bool] = False  # a group of equal totals may differ in when it was paid
    requires = frozenset({"anchor"})
    reductions: ClassVar[tuple[Reduction, ...]] = (Reduction({"weight": 0.0}, {"use": "dr_grpo"}),)

    def __init__(self, weight: float = 1.0, gamma: float = 0.95, norm: Norm = "mean") -> None:
        if norm not in ("mean", "mean_std"):
            raise ValueError(f"norm is 'mean' or 'mean_std', got {norm!r}")
        self.weight, self.gamma = float(weight), float(gamma)
        self.norm: Norm = norm

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        adv = gigpo_advantages(
            batch.reward, batch.token_reward(), batch.by_turn("anchor"), batch.group, batch.turn,
            batch.mask, weight=coef.get("gigpo", self.weight), gamma=self.gamma, norm=self.norm,
        )  # fmt: skip
        return Estimate(adv)


class MTGRPO(Slot):
    """GRPO of the outcome, and for all turns but the last, which see a result afterwards, that of
    the sum of the turn rewards besides (MT-GRPO, arXiv 2505.11821).

    Args:
        weight: Of the second, or ``coef["mt_grpo"]``.
    """

    relative: ClassVar[bool] = False  # equal totals may be made of different outcomes
    invariant: ClassVar[frozenset[str]] = frozenset({"shift", "scale"})
    requires = frozenset({"turn_reward"})

    def __init__(self, weight: float = 1.0, std: Std = "sample", eps: float = 1e-6) -> None:
        self.weight, self.eps = float(weight), float(eps)
        self.std: Std = checked_std(std)

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        turns = masked(batch.need("turn_reward"), batch.mask).sum(1)
        turns = torch.where(batch.reward.isnan(), batch.reward, turns)
        outcome = batch.need("outcome")
        of_outcome, of_turns = (
            grpo_advantages(reward, batch.group, std=self.std, eps=self.eps)
            for reward in (outcome, turns)
        )
        last = batch.turn == torch.where(batch.mask, batch.turn, -1).amax(1, keepdim=True)
        adv = spread(of_outcome, batch.mask)
        weight = coef.get("mt_grpo", self.weight)
        return Estimate(adv + weight * spread(of_turns, batch.mask & ~last))
