"""Pure functions of tensors that advantages and losses are made of; each knows nothing of methods.

Tensors are (B, T): rows are trajectories, columns tokens (for a candidate agent: its one choice per
turn). A mask is (B, T), bool or 0 and 1, and is 1 where the policy acted; the rest (prompts, search
results, padding) never influences anything, even where its numbers are NaN or infinite.

``tokens`` checks of shapes, masks, one number from a loss per token, whitening · ``ratios``
importance ratios of tokens, turns and sequences, the clipped surrogate, KL estimators · ``turns``
where turns start and end, rewards to go, advantages from values · ``groups`` statistics of rewards
by group · ``branches`` credit in trees
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...utils import attach

_WHERE = {
    "branches": ("Average", "State", "Valued", "at_tokens", "mean", "segments", "values"),
    "groups": ("RewardGroups", "Std", "alike", "checked_std"),
    "ratios": ("kl", "log_ratio", "token_ratio"),
    "tokens": (
        "Aggregate", "Counts", "aggregate_tokens", "masked", "masked_mean", "moments",
        "require_batch", "require_rows", "require_tokens", "spread",
    ),
    "turns": (
        "on_turns", "over_turn", "reward_to_go", "same", "standardized", "turn_ends",
        "turn_returns",
    ),
}  # fmt: skip
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .branches import Average as Average
    from .branches import State as State
    from .branches import Valued as Valued
    from .branches import at_tokens as at_tokens
    from .branches import mean as mean
    from .branches import segments as segments
    from .branches import values as values
    from .groups import RewardGroups as RewardGroups
    from .groups import Std as Std
    from .groups import alike as alike
    from .groups import checked_std as checked_std
    from .ratios import kl as kl
    from .ratios import log_ratio as log_ratio
    from .ratios import token_ratio as token_ratio
    from .tokens import Aggregate as Aggregate
    from .tokens import Counts as Counts
    from .tokens import aggregate_tokens as aggregate_tokens
    from .tokens import masked as masked
    from .tokens import masked_mean as masked_mean
    from .tokens import moments as moments
    from .tokens import require_batch as require_batch
    from .tokens import require_rows as require_rows
    from .tokens import require_tokens as require_tokens
    from .tokens import spread as spread
    from .turns import on_turns as on_turns
    from .turns import over_turn as over_turn
    from .turns import reward_to_go as reward_to_go
    from .turns import same as same
    from .turns import standardized as standardized
    from .turns import turn_ends as turn_ends
    from .turns import turn_returns as turn_returns

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
