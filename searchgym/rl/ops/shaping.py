"""Rewards for length: (B,) numbers to add to the outcome."""

from __future__ import annotations

import torch
from torch import Tensor

from .groups import RewardGroups
from .shapes import require_rows

_EXACT = 2**53
"""Limit below which doubles count tokens exactly."""


def overlong_penalty(
    length: Tensor, *, longest: int = 20_480, buffer: int = 4_096, penalty: float = 1.0
) -> Tensor:
    """(B,) 0 up to ``longest - buffer``, then linear to ``-penalty`` at ``longest`` and beyond.

    Source: DAPO (arXiv 2503.14476), soft overlong punishment. ``length`` (B,) is in tokens.
    """
    require_rows(length=length)
    if not 0 < buffer <= longest < _EXACT:
        raise ValueError(
            f"expected 0 < buffer <= longest < 2**53, got buffer={buffer}, longest={longest}"
        )
    over = (length.to(torch.get_default_dtype()) - (longest - buffer)) / buffer
    return -penalty * over.clamp(0, 1)


def length_reward(length: Tensor, correct: Tensor, group: Tensor) -> Tensor:
    """(B,) .5 for a group's shortest to -.5 for its longest; wrong answers earn at most 0.

    All 0 where a group's lengths are equal. Source: Kimi k1.5 (arXiv 2501.12599), §2.3.3.

    Args:
        length: (B,) tokens. correct: (B,) bool. group: (B,) integers.
    """
    require_rows(length=length, correct=correct, group=group)
    length = length.to(torch.get_default_dtype())
    groups = RewardGroups(length, group)
    infinite = torch.full_like(groups.mean, float("inf"))
    shortest = infinite.scatter_reduce(0, groups.index, length, "amin")[groups.index]
    longest = (-infinite).scatter_reduce(0, groups.index, length, "amax")[groups.index]
    gain = 0.5 - (length - shortest) / (longest - shortest).clamp_min(1e-9)
    return groups.advantage(torch.where(correct.bool(), gain, gain.clamp_max(0)))
