"""Generalised advantage estimation (Schulman et al., arXiv 1506.02438) over tokens and turns.

All return ``(adv, returns)``, (B, T), detached and 0 where masked; ``returns = adv + value`` is the
value function's target. Episodes end with their last token: nothing is bootstrapped after it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .mask import masked
from .returns import sum_of_later
from .shapes import require_tokens
from .turns import next_unmasked, over_turn, turn_ends, turn_starts


def token_gae(
    reward: Tensor, value: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 1.0
) -> tuple[Tensor, Tensor]:
    """δ_t = r_t + γ V_{t'} - V_t and A_t = δ_t + γλ A_{t'}, t' the next *unmasked* token.

    Args:
        reward, value, mask: (B, T). Rewards and values at masked places do not matter.
    """
    require_tokens(reward=reward, value=value, mask=mask)
    reward, value = masked(reward, mask).detach(), masked(value, mask).detach()
    delta = reward + gamma * next_unmasked(value, mask) - value
    adv = sum_of_later(delta, mask, gamma * lam)
    return adv, adv + value


def turn_gae(
    reward: Tensor, value: Tensor, turn: Tensor, mask: Tensor, *, gamma: float = 1.0,
    lam: float = 1.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One step per turn: its value is that of its first token, its reward the sum of its tokens'.

    Args:
        reward, value, turn, mask: (B, T); ``turn`` as in ``ops.turns``.

    Returns:
        (adv, returns): every token of a turn has the turn's advantage; returns are at the first
        tokens of turns (``turn_starts`` is the value loss's mask) and 0 elsewhere.
    """
    require_tokens(reward=reward, value=value, turn=turn, mask=mask)
    starts = turn_starts(turn, mask)
    whole = over_turn(reward.detach(), turn, mask)
    adv, returns = token_gae(whole, value, starts, gamma=gamma, lam=lam)
    return over_turn(adv, turn, mask), returns


def bi_level_gae(
    reward: Tensor,
    value: Tensor,
    turn: Tensor,
    mask: Tensor,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    turn_gamma: float = 0.95,
    turn_lam: float | None = None,
) -> tuple[Tensor, Tensor]:
    """GAE between turns, then within them (VAGEN, arXiv 2510.16907; InfoPO).

    1. GAE over the last tokens of turns, with ``turn_gamma`` and ``turn_lam`` (default ``lam``);
    2. each of these tokens' reward becomes its return of step 1;
    3. token GAE within each turn, with ``gamma`` and ``lam``, that ends with the turn.

    A turn without reward is a turn like any other: ends are recorded, not found by rewards.

    Args:
        reward, value, turn, mask: (B, T); ``turn`` as in ``ops.turns``.
    """
    require_tokens(reward=reward, value=value, turn=turn, mask=mask)
    ends = turn_ends(turn, mask)
    lam_between = lam if turn_lam is None else turn_lam
    _, later = token_gae(reward, value, ends, gamma=turn_gamma, lam=lam_between)
    reward, value = masked(reward, mask).detach(), masked(value, mask).detach()
    reward = torch.where(ends, later, reward)
    inside = (~ends).to(value.dtype)
    delta = reward + gamma * next_unmasked(value, mask) * inside - value
    adv = sum_of_later(delta, mask, gamma * lam * inside)
    return adv, adv + masked(value, mask)
