"""Options of a training, whatever its method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..core.rules import checked_switch
from ..errors import CardError, unknown
from ..objects import check_whole, is_number
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
    advantages (``rl.run_folder``), for ``searchgym view``."""
    agreement: float | None = None
    """Largest difference, in nats per token, between log-probabilities of the trainer and of a
    generator with weights of its own (vLLM); None chooses by precision (``rl.diagnostics``)."""
    seed: int = 0
    """Seed of tasks, sampling order and minibatches."""

    def __post_init__(self) -> None:
        for name in ("steps", "tasks", "epochs", "minibatches", "tokens", "save_every"):
            check_whole(name, getattr(self, name), 1)
        for name in ("save_rollouts", "seed"):
            check_whole(name, getattr(self, name), 0)
        checked_switch("reset_optimizer", self.reset_optimizer)
        if not (is_number(self.lr) and self.lr > 0):
            raise CardError(f"lr must be a finite number above 0, got {self.lr!r}")
        if not (is_number(self.muon_lr) and self.muon_lr >= 0):
            raise CardError(f"muon_lr must be a finite number of at least 0, got {self.muon_lr!r}")
        if not (_may_be_infinite(self.max_norm) and self.max_norm > 0):
            raise CardError(f"max_norm must be a number above 0, got {self.max_norm!r}")
        least = self.agreement
        if least is not None and not (_may_be_infinite(least) and least > 0):
            raise CardError(f"agreement must be a number above 0 or None, got {least!r}")

    @classmethod
    def of(cls, recipe: Recipe, **changes: Any) -> TrainConfig:
        """Build the recipe's options with ``changes``.

        Raises:
            CardError: an unknown option, or a value that cannot be.
        """
        options, known = {**recipe.train, **changes}, [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise CardError(unknown("training option", str(name), known))
        return cls(**options)

    @classmethod
    def given(cls, config: TrainConfig | None, recipe: Recipe) -> TrainConfig:
        """Return the options that a training was given; without any, the recipe's.

        Raises:
            CardError: it is something else, such as a table.
        """
        if config is None:
            return cls.of(recipe)
        if not isinstance(config, cls):
            options = "(…)" if not isinstance(config, Mapping) else "(**options)"
            raise CardError(
                f"config must be a TrainConfig, got {type(config).__name__}: {config!r:.80}; "
                f"write TrainConfig{options}"
            )
        return config


def _may_be_infinite(value: object) -> bool:
    return is_number(value) or value == math.inf
