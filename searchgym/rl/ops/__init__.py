"""Pure functions of tensors that advantages and losses are made of; each knows nothing of methods.

Tensors are (B, T): rows are trajectories, columns tokens (for a candidate agent: its one choice per
turn). A mask is (B, T), bool or 0 and 1, and is 1 where the policy acted; the rest (prompts, search
results, padding) never influences anything, even where its numbers are NaN or infinite.

``shapes`` what is checked of tensors · ``mask`` zeroing and spreading · ``aggregate`` one number
from a loss per token · ``ratio`` importance ratios of tokens, turns, sequences · ``clip`` the
clipped surrogate · ``kl`` KL estimators and the adaptive coefficient · ``returns`` rewards to go ·
``turns`` where turns start and end · ``gae`` advantages from values · ``whiten`` ·
``groups`` statistics of rewards by group
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...utils import attach

_WHERE = {
    "aggregate": ("Aggregate", "Counts", "aggregate_tokens"),
    "branches": ("Average", "State", "Valued", "at_tokens", "mean", "segments", "values"),
    "compare": ("on_turns", "same", "standardized", "turn_returns"),
    "groups": ("RewardGroups", "Std", "alike", "checked_std"),
    "kl": ("kl",),
    "mask": ("masked", "masked_mean", "spread"),
    "ratio": ("log_ratio", "token_ratio"),
    "returns": ("reward_to_go",),
    "shapes": ("require_batch", "require_rows", "require_tokens"),
    "turns": ("over_turn", "turn_ends"),
    "whiten": ("moments",),
}  # fmt: skip
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .aggregate import Aggregate as Aggregate
    from .aggregate import Counts as Counts
    from .aggregate import aggregate_tokens as aggregate_tokens
    from .branches import Average as Average
    from .branches import State as State
    from .branches import Valued as Valued
    from .branches import at_tokens as at_tokens
    from .branches import mean as mean
    from .branches import segments as segments
    from .branches import values as values
    from .compare import on_turns as on_turns
    from .compare import same as same
    from .compare import standardized as standardized
    from .compare import turn_returns as turn_returns
    from .groups import RewardGroups as RewardGroups
    from .groups import Std as Std
    from .groups import alike as alike
    from .groups import checked_std as checked_std
    from .kl import kl as kl
    from .mask import masked as masked
    from .mask import masked_mean as masked_mean
    from .mask import spread as spread
    from .ratio import log_ratio as log_ratio
    from .ratio import token_ratio as token_ratio
    from .returns import reward_to_go as reward_to_go
    from .shapes import require_batch as require_batch
    from .shapes import require_rows as require_rows
    from .shapes import require_tokens as require_tokens
    from .turns import over_turn as over_turn
    from .turns import turn_ends as turn_ends
    from .whiten import moments as moments

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
