"""Pure functions of tensors that advantages and losses are made of; each knows nothing of methods.

Tensors are (B, T): rows are trajectories, columns tokens (for a candidate agent: its one choice per
turn). A mask is (B, T), bool or 0 and 1, and is 1 where the policy acted; the rest (prompts, search
results, padding) never influences anything, even where its numbers are NaN or infinite.

``shapes`` what is checked of tensors · ``mask`` zeroing and spreading · ``aggregate`` one number
from a loss per token · ``ratio`` importance ratios of tokens, turns, sequences · ``clip`` the
clipped surrogate · ``kl`` KL estimators and the adaptive coefficient · ``returns`` rewards to go ·
``turns`` where turns start and end · ``gae`` advantages from values · ``whiten`` ·
``groups`` statistics of rewards by group · ``covariance`` Clip-Cov and KL-Cov ·
``shaping`` rewards that depend on length
"""
