"""C3PO (Ring-lite, arXiv 2506.14731): each step trains on as many tokens as any other."""

from __future__ import annotations

from typing import Any

import torch

from searchgym.rl import Batch, Coef, DrawingOver, Estimate, Reduction
from searchgym.seeding import derive


class TokenBudget(DrawingOver):
    """``base``'s advantages, on trajectories in random order until ``tokens`` are full: the first
    one that does not fit ends the choice, and no other is trained on. The first is always taken.

    Baselines are of all members. With the loss's mean over tokens, a long answer does not make the
    step larger.

    Args:
        tokens: Trained tokens of a step. For a budget per update, times ``train.minibatches``.
        seed: Seed of the order, with the number of the step.
    """

    registered = "advantage:token_budget"
    reductions = (Reduction({}, {"use": "grpo"}),)

    def __init__(self, base: Any = "grpo", tokens: int = 1_000_000, seed: int = 0) -> None:
        super().__init__(base, seed)
        if tokens < 1:
            raise ValueError(f"tokens must be at least 1, got {tokens}")
        self.tokens = tokens

    def estimate(self, batch: Batch, coef: Coef) -> Estimate:
        made: Estimate = self.base.estimate(batch, coef)
        kept = torch.zeros(len(batch), dtype=torch.bool)
        left = self.tokens
        for i in self._order(batch):
            left -= int(batch.length[i])
            if left < 0 and bool(kept.any()):
                break
            kept[i] = True
        mask = kept[:, None].expand(batch.mask.shape)
        return made._replace(mask=mask if made.mask is None else mask & made.mask)

    def _order(self, batch: Batch) -> list[int]:
        """Trajectories with tokens by a random number that depends on their episode, not on their
        place in the batch."""
        self.steps += 1
        names = [m.episode.config.episode_id for m in batch.members]
        keys = [derive(self.seed, "budget", self.steps, name) for name in names]
        return sorted((i for i in range(len(batch)) if batch.length[i]), key=keys.__getitem__)
