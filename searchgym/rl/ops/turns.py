"""Starts and ends of turns among the policy's tokens. Turns are recorded, never guessed.

``turn`` is (B, T): which turn each token belongs to, integers that never decrease along a row;
values at masked places do not matter. Guessing turns from runs of the mask, from non-zero rewards
or from changing advantages (all found in released code) merges turns that abut or are equal.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .mask import masked
from .shapes import require_tokens


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
