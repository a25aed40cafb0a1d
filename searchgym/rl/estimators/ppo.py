"""PPO's advantages, from a critic's values. They also say what the critic should have said:
``batch.returns`` (and ``batch.value_mask``, where not every token has a value of its own)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from ..advantages.ppo import bi_level_ppo_advantages, ppo_advantages, turn_ppo_advantages
from ..kernels.turns import turn_starts
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


class PPO(Slot):
    """GAE over tokens, over turns, or over turns and then the tokens of each (``"bi-level"``)."""

    relative: ClassVar[bool] = False
    requires = frozenset({"value"})

    def __init__(
        self,
        level: Literal["token", "turn", "bi-level"] = "token",
        gamma: float = 1.0,
        lam: float = 1.0,
        turn_gamma: float = 0.95,
    ) -> None:
        if level not in ("token", "turn", "bi-level"):
            raise ValueError(f"level is 'token', 'turn' or 'bi-level', got {level!r}")
        for name, value in (("gamma", gamma), ("lam", lam), ("turn_gamma", turn_gamma)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is in [0, 1], got {value}")
        self.level, self.gamma, self.lam = level, float(gamma), float(lam)
        self.turn_gamma = float(turn_gamma)

    def estimate(self, batch: Batch, coef: Mapping[str, float]) -> Estimate:
        mask = batch.mask & ~batch.reward.isnan()[:, None]
        reward = batch.token_reward()
        value, gamma, lam = batch.need("value"), self.gamma, self.lam
        batch.value_mask = mask
        if self.level == "token":
            adv, batch.returns = ppo_advantages(reward, value, mask, gamma=gamma, lam=lam)
        elif self.level == "turn":
            adv, batch.returns = turn_ppo_advantages(
                reward, value, batch.turn, mask, gamma=gamma, lam=lam
            )
            batch.value_mask = turn_starts(batch.turn, mask)
        else:
            adv, batch.returns = bi_level_ppo_advantages(
                reward, value, batch.turn, mask, gamma=gamma, lam=lam, turn_gamma=self.turn_gamma
            )
        return Estimate(adv)
