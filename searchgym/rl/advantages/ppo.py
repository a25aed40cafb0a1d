"""PPO (arXiv 1707.06347): GAE with a learned value, whitened. Over tokens, turns, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from torch import Tensor

from ..ops.tokens import whiten
from ..ops.turns import bi_level_gae, token_gae, turn_gae, turn_starts
from ..slots.batch import Batch, Estimate
from ..slots.protocols import Slot


def ppo_advantages(
    reward: Tensor, value: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 1.0
) -> tuple[Tensor, Tensor]:
    """(adv, returns), (B, T): ``ops.turns.token_gae``, advantages whitened."""
    adv, returns = token_gae(reward, value, mask, gamma=gamma, lam=lam)
    return whiten(adv, mask), returns


def turn_ppo_advantages(
    reward: Tensor, value: Tensor, turn: Tensor, mask: Tensor, *, gamma: float = 1.0,
    lam: float = 1.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(adv, returns), (B, T): ``ops.turns.turn_gae``, advantages whitened over tokens.

    Returns stand at the first tokens of turns: the mask for the value loss is ``turn_starts``.
    """
    adv, returns = turn_gae(reward, value, turn, mask, gamma=gamma, lam=lam)
    return whiten(adv, mask), returns


def bi_level_ppo_advantages(
    reward: Tensor, value: Tensor, turn: Tensor, mask: Tensor, *, gamma: float = 1.0,
    lam: float = 1.0, turn_gamma: float = 0.95,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(adv, returns), (B, T): ``ops.turns.bi_level_gae``, advantages whitened."""
    adv, returns = bi_level_gae(
        reward, value, turn, mask, gamma=gamma, lam=lam, turn_gamma=turn_gamma
    )
    return whiten(adv, mask), returns


class PPO(Slot):
    """GAE over tokens, over turns, or over turns and then the tokens of each (``"bi-level"``)."""

    registered = "ppo"
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
