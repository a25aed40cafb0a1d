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

from ...utils import attach

__getattr__, __dir__, __all__ = attach(__name__)
