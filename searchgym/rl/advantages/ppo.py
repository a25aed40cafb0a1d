"""PPO (arXiv 1707.06347): GAE with a learned value, whitened. Over tokens, turns, or both."""

from __future__ import annotations

from torch import Tensor

from ..kernels.gae import bi_level_gae, token_gae, turn_gae
from ..kernels.whiten import whiten


def ppo_advantages(
    reward: Tensor, value: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 1.0
) -> tuple[Tensor, Tensor]:
    """(adv, returns), (B, T): ``kernels.gae.token_gae``, advantages whitened."""
    adv, returns = token_gae(reward, value, mask, gamma=gamma, lam=lam)
    return whiten(adv, mask), returns


def turn_ppo_advantages(
    reward: Tensor, value: Tensor, turn: Tensor, mask: Tensor, *, gamma: float = 1.0,
    lam: float = 1.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(adv, returns), (B, T): ``kernels.gae.turn_gae``, advantages whitened over tokens.

    Returns stand at the first tokens of turns: the mask for the value loss is ``turn_starts``.
    """
    adv, returns = turn_gae(reward, value, turn, mask, gamma=gamma, lam=lam)
    return whiten(adv, mask), returns


def bi_level_ppo_advantages(
    reward: Tensor, value: Tensor, turn: Tensor, mask: Tensor, *, gamma: float = 1.0,
    lam: float = 1.0, turn_gamma: float = 0.95,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(adv, returns), (B, T): ``kernels.gae.bi_level_gae``, advantages whitened."""
    adv, returns = bi_level_gae(
        reward, value, turn, mask, gamma=gamma, lam=lam, turn_gamma=turn_gamma
    )
    return whiten(adv, mask), returns
