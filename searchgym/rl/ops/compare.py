"""Numbers compared within what they share: a group, a turn's number, a stage, a state."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from .groups import RewardGroups, Std
from .returns import reward_to_go
from .turns import over_turn, turn_ends

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
