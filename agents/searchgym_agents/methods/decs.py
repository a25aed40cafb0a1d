"""DECS (arXiv 2509.25827): what follows once the answer is known is paid by itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from searchgym.rl import Batch, Coef, Estimate, Over
from searchgym.rl.ops import masked, spread


def redundant_turns(shown: Tensor, turn: Tensor, mask: Tensor) -> Tensor:
    """(B, T) bool: tokens of turns after the first one that showed the answer, the last turn, which
    answers, left out.

    Args:
        shown: (B, K) 1 for turns whose results hold the answer.
        turn, mask: (B, T).
    """
    holds = torch.nan_to_num(shown) > 0
    never = holds.shape[1]
    number = torch.arange(never).expand(holds.shape)
    first = torch.where(holds, number, never).amin(1, keepdim=True) if never else turn[:, :1] * 0
    last = torch.where(mask > 0, turn, -1).amax(1, keepdim=True)
    return (mask > 0) & (turn > first) & (turn < last)


class DECS(Over):
    """``base``'s advantages, except that redundant tokens get -``penalty``.

    A price of length for the whole trajectory also punishes what was needed to find the answer, and
    rewards what is redundant in a trajectory that is short by luck. Here necessary tokens have the
    outcome's advantage, whatever came after them, and redundant ones never a positive one. The
    paper detects the necessary prefix of a chain of thought by a trained model; in search it ends
    with the turn that showed the answer (signal ``answer_shown``), which is exact, and can be told
    of wrong trajectories, too. Its numbers were not read: ``penalty`` is ours, as is leaving the
    schedule of easy questions out.

    Args:
        right_only: Look only into trajectories that earned more than 0, as the paper must.
    """

    registered = "advantage:decs"
    needs = frozenset({"turn_answer_shown"})
    reads = frozenset({"decs"})

    def __init__(self, base: Any = "grpo", penalty: float = 0.5, right_only: bool = False) -> None:
        super().__init__(base)
        if penalty < 0:
            raise ValueError(f"penalty must not be negative, got {penalty}")
        self.penalty, self.right_only = float(penalty), right_only

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        adv = spread(made.adv, batch.mask)
        over = redundant_turns(batch.signal("turn_answer_shown"), batch.turn, batch.mask)
        over &= ~batch.reward.isnan()[:, None]
        if self.right_only:
            over &= (batch.reward > 0)[:, None]
        price = torch.full_like(adv, -coef.get("decs", self.penalty))
        return made._replace(adv=masked(torch.where(over, price, adv), batch.mask))
