"""Options of a training, whatever its method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CardError
from .recipe import Recipe


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """Training options that do not depend on the method; a recipe's ``train`` table changes the
    defaults."""

    steps: int = 100
    """Number of training steps."""
    tasks: int = 8
    """Tasks per step; each is played by one group of episodes."""
    epochs: int = 1
    """Passes over a step's trajectories."""
    minibatches: int = 1
    """Optimizer updates per pass; each takes whole trajectories."""
    lr: float = 1e-6
    """AdamW learning rate."""
    muon_lr: float = 0.0
    """Muon learning rate for the matrices within layers; 0 trains them by AdamW, too."""
    max_norm: float = 1.0
    """Gradient clipping threshold (L2 norm)."""
    tokens: int = 16_384
    """Padded tokens per forward and backward pass. Bounds memory; results differ by rounding."""
    reset_optimizer: bool = False
    """Reset the optimizer's state at each step (Kimi k1.5, arXiv 2501.12599)."""
    save_every: int = 50
    """Steps between checkpoints; the last step is always saved."""
    save_rollouts: int = 0
    """Trajectories per step to keep in the run's folder with tokens, masks, log-probabilities and
    advantages (``rl.saved``), for ``searchgym view``."""
    agreement: float | None = None
    """Largest difference, in nats per token, between log-probabilities of the trainer and of a
    generator with weights of its own (vLLM); None chooses by precision (``rl.agreement``)."""
    seed: int = 0
    """Seed of tasks, sampling order and minibatches."""

    def __post_init__(self) -> None:
        passes = (self.steps, self.tasks, self.epochs, self.minibatches)
        if (
            min(*passes, self.tokens, self.save_every) < 1
            or not 0 < self.lr < np.inf
            or not self.max_norm > 0
            or self.save_rollouts < 0
        ):
            raise CardError(f"counts must be at least 1, lr and max_norm positive; got {self}")
        if not 0 <= self.muon_lr < np.inf:
            raise CardError(f"muon_lr must be at least 0, got {self.muon_lr}")
        if self.agreement is not None and self.agreement <= 0:
            raise CardError(f"agreement must be positive, got {self.agreement}")

    @classmethod
    def of(cls, recipe: Recipe, **changes: Any) -> TrainConfig:
        """Build the recipe's options with ``changes``."""
        try:
            return cls(**{**recipe.train, **changes})
        except TypeError as error:
            raise CardError(f"training options: {error}") from error
