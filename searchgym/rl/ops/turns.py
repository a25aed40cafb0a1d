"""Turns and returns: where turns start and end, rewards to go, comparison of turns, GAE.

``turn`` is (B, T): which turn each token belongs to, integers that never decrease along a row;
values at masked places do not matter. Guessing turns from runs of the mask, from non-zero rewards
or from changing advantages (all found in released code) merges turns that abut or are equal.

A return that is multiplied by the mask at every step is reset by each search result, so that all
turns before the last one earn nothing (seen in released code). Here masked tokens are stepped over:
they add nothing, reset nothing, and are not discounted for.

All return ``(adv, returns)``, (B, T), detached and 0 where masked; ``returns = adv + value`` is the
value function's target. Episodes end with their last token: nothing is bootstrapped after it.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from .groups import RewardGroups, Std
from .tokens import masked, require_tokens


def next_unmasked(values: Tensor, mask: Tensor, *, end: float = 0.0) -> Tensor:
    """(B, T) the value at the next unmasked token *after* each place; ``end`` if there is none."""
    require_tokens(values=values, mask=mask)
    length = mask.shape[1]
    here = torch.arange(length, device=mask.device).expand(mask.shape)
    here = torch.where(mask > 0, here, torch.full_like(here, length))
    here = torch.cat([here, torch.full_like(here[:, :1], length)], 1)
    later = here.flip(1).cummin(1).values.flip(1)[:, 1:]  # (B, T) index of the next one, or T
    padded = torch.cat([values, torch.full_like(values[:, :1], end)], 1)
    return padded.gather(1, later)


def turn_ends(turn: Tensor, mask: Tensor) -> Tensor:
    """(B, T) bool: the last unmasked token of each turn.

    Raises:
        ValueError: shapes differ, or a row's turns decrease.
    """
    turn = masked(turn, mask)
    keep = mask > 0
    later = next_unmasked(turn, mask, end=int(turn.max()) + 1 if turn.numel() else 0)
    if bool((keep & (later < turn)).any()):
        raise ValueError("turn numbers decrease along a row; expected recorded turns 0, 1, 2, …")
    return keep & (later != turn)


def turn_starts(turn: Tensor, mask: Tensor) -> Tensor:
    """(B, T) bool: the first unmasked token of each turn. Errors: as :func:`turn_ends`."""
    number = _numbers(turn, mask)
    earlier = next_unmasked(number.flip(1), mask.flip(1), end=-1).flip(1)
    return (mask > 0) & (earlier != number)


def over_turn(values: Tensor, turn: Tensor, mask: Tensor) -> Tensor:
    """(B, T) the sum of ``values`` over the unmasked tokens of each token's turn; 0 where masked.

    With values that are 0 except at one token per turn, this spreads them over the turn.
    """
    number = _numbers(turn, mask)
    values = masked(values, mask)
    sums = values.new_zeros(len(values), values.shape[1] + 1).scatter_add(1, number, values)
    return masked(sums.gather(1, number), mask)


def _numbers(turn: Tensor, mask: Tensor) -> Tensor:
    """(B, T) each token's turn as 0, 1, 2, … whatever the recorded numbers are."""
    ends = turn_ends(turn, mask).long()
    return ends.cumsum(1) - ends


def sum_of_later(values: Tensor, mask: Tensor, decay: float | Tensor) -> Tensor:
    """(B, T) y_t = x_t + decay_t · y_{t'} with t' the next unmasked token; 0 where masked.

    ``decay`` is a number or (B, T); where it is 0, the sum starts anew.

    Raises:
        ValueError: shapes differ, or an unmasked value is NaN or infinite: it would spread over
            all tokens before it, and by whitening over the batch.
    """
    values = masked(values, mask)
    if not bool(torch.isfinite(values).all()):
        raise ValueError(
            "a reward or value at an unmasked token is not finite; mask out trajectories that "
            "cannot be scored"
        )
    keep = mask > 0
    factor = torch.as_tensor(decay, dtype=values.dtype, device=values.device).expand_as(values)
    carry = torch.zeros_like(values[:, 0]) if values.shape[1] else values.sum(1)
    columns: list[Tensor] = []
    for t in range(values.shape[1] - 1, -1, -1):
        carry = torch.where(keep[:, t], values[:, t] + factor[:, t] * carry, carry)
        columns.append(carry)
    if not columns:
        return values
    return masked(torch.stack(columns[::-1], 1), mask)


def reward_to_go(reward: Tensor, mask: Tensor, gamma: float = 1.0) -> Tensor:
    """(B, T) the discounted sum of the rewards (B, T) from each unmasked token on."""
    return sum_of_later(reward.detach(), mask, gamma)


Alone = Literal["zero", "raw"]


def checked_alone(how: Alone) -> Alone:
    """``ValueError`` unless it is one."""
    if how not in get_args(Alone):
        raise ValueError(f"alone is 'zero' or 'raw', got {how!r}")
    return how


def same(*keys: Tensor) -> Tensor:
    """(n,) numbers that are equal where all of some (n,) keys are."""
    stacked = torch.stack([key.double() for key in keys], 1)
    return torch.unique(stacked, dim=0, return_inverse=True)[1]


def standardized(
    values: Tensor, key: Tensor, *, std: Std = "sample", eps: float = 1e-6, alone: Alone = "zero"
) -> Tensor:
    """(n,) (x - mean) / (standard deviation + ``eps``) among those of an equal key; exactly 0 where
    they are all equal.

    Args:
        values: (n,); NaN counts nowhere and gets 0.
        key: (n,) whole numbers (:func:`same`).
        alone: A value that shares its key with none gets 0, or is left as it is ("raw", as with a
            mean of 0 and a deviation of 1 in verl's code).
    """
    if not len(values):
        return values
    groups = RewardGroups(values, key)
    scale = (groups.std(std) + eps)[groups.index]
    made = groups.advantage((groups.reward - groups.mean[groups.index]) / scale)
    if alone == "raw":
        made = torch.where(groups.count[groups.index] == 1, groups.reward, made)
    return made


def turn_returns(
    reward: Tensor, turn: Tensor, mask: Tensor, gamma: float = 1.0
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Places (rows, columns) of turns' ends and the (n,) returns from each turn on, discounted per
    turn; rewards (B, T) count where they stand in a turn."""
    ends = turn_ends(turn, mask)
    later = reward_to_go(over_turn(reward.detach(), turn, mask), ends, gamma)
    rows, columns = ends.nonzero(as_tuple=True)
    return (rows, columns), later[rows, columns]


def on_turns(values: Tensor, places: tuple[Tensor, Tensor], turn: Tensor, mask: Tensor) -> Tensor:
    """(B, T) the (n,) values of turns, given at their ends, at every token of each turn."""
    placed = torch.zeros(mask.shape, dtype=values.dtype)
    if len(values):
        placed = placed.index_put(places, values)
    return over_turn(placed, turn, mask)


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
) -> tuple[Tensor, Tensor]:
    """GAE between turns, then within them (VAGEN, arXiv 2510.16907; InfoPO).

    1. GAE over the last tokens of turns, with ``turn_gamma`` and ``lam``;
    2. each of these tokens' reward becomes its return of step 1;
    3. token GAE within each turn, with ``gamma`` and ``lam``, that ends with the turn.

    A turn without reward is a turn like any other: ends are recorded, not found by rewards.

    Args:
        reward, value, turn, mask: (B, T); ``turn`` as in ``ops.turns``.
    """
    require_tokens(reward=reward, value=value, turn=turn, mask=mask)
    ends = turn_ends(turn, mask)
    _, later = token_gae(reward, value, ends, gamma=turn_gamma, lam=lam)
    reward, value = masked(reward, mask).detach(), masked(value, mask).detach()
    reward = torch.where(ends, later, reward)
    inside = (~ends).to(value.dtype)
    delta = reward + gamma * next_unmasked(value, mask) * inside - value
    adv = sum_of_later(delta, mask, gamma * lam * inside)
    return adv, adv + masked(value, mask)
