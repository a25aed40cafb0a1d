"""An estimator, and a signal of turns besides: process rewards that are not summed up."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch

from ..ops.compare import on_turns
from ..ops.mask import spread
from ..ops.turns import turn_ends
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Reduction
from .base import Coef, Over
from .rloo import rloo_advantages

Compared = Literal["no", "rloo"]


class TurnBonus(Over):
    """A = ``base`` + ``weight`` · s_k for the tokens of turn k, with s_k the turn's signal as it is
    (PAV, arXiv 2410.08146), or less the mean of all other turns' of the group (iStar, arXiv
    2509.19199). Earlier turns have no share in it: ``per_turn`` with reward-to-go gives them one.

    Args:
        signal: (M, K), a number for each turn; a turn without one gets ``base`` alone.
        weight: Weight of the signal, or ``coef["turn_bonus"]``.
        compared: ``"no"``, or ``"rloo"``: within the group.
    """

    registered = "turn_bonus"
    reads = frozenset({"turn_bonus"})
    reductions: ClassVar[tuple[Reduction, ...]] = (Reduction({"weight": 0.0}, {"use": "grpo"}),)

    def __init__(
        self, base: Any = "grpo", signal: str = "turn_return", weight: float = 1.0,
        compared: Compared = "no",
    ) -> None:  # fmt: skip
        super().__init__(base)
        if compared not in ("no", "rloo"):
            raise ValueError(f"compared is 'no' or 'rloo', got {compared!r}")
        self.signal, self.weight = signal, float(weight)
        self.compared: Compared = compared
        self.requires = self.requires | {signal}

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made = self.base.estimate(batch, coef)
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        values = batch.by_turn(self.signal).to(torch.float32)
        places = (turn_ends(batch.turn, mask) & ~values.isnan()).nonzero(as_tuple=True)
        score = values[places]
        if self.compared == "rloo" and len(score):
            score = rloo_advantages(score, batch.group[places[0]])
        more = coef.get("turn_bonus", self.weight) * score
        bonus = on_turns(more, (places[0], places[1]), batch.turn, mask)
        return made._replace(adv=spread(made.adv, batch.mask) + bonus)
