"""SASR (arXiv 2505.13026): each step imitates or reinforces, by how much imitation still moves."""

from __future__ import annotations

from collections.abc import Mapping

from searchgym.rl import CoefficientSchedule
from searchgym.seeding import derive, unit


def imitation_odds(last: float, warm: float, gamma: float = 1.0) -> float:
    """p = g / (g + γ g_warm): probability of imitation, from the norm g of the last imitation
    step's gradient and its mean over the warm-up; 0 where both are 0."""
    total = last + gamma * warm
    return last / total if total > 0 else 0.0


class ByGradient(CoefficientSchedule):
    """The first ``warmup`` steps imitate; later ones imitate with probability
    :func:`imitation_odds` and are reinforcement learning otherwise: the coefficient of one loss is
    1 and that of the other 0.

    The gradient of a step that imitates is that of imitation alone: the metric ``grad_norm``.

    Args:
        warmup: Steps of imitation at the beginning, at least one.
        gamma: γ; the larger, the fewer steps imitate.
        policy, imitation: Names of the losses.
        seed: Seed of the draws, with the number of the step.
    """

    registered = "schedule:by_gradient"
    remembers = ("imitated", "warm", "last")
    watches = frozenset({"grad_norm"})

    def __init__(
        self,
        warmup: int = 20,
        gamma: float = 1.0,
        policy: str = "policy",
        imitation: str = "sft",
        seed: int = 0,
    ) -> None:
        if warmup < 1 or not gamma >= 0:
            raise ValueError(f"warmup is at least 1 and gamma not negative, got {warmup}, {gamma}")
        self.warmup, self.gamma, self.seed = warmup, float(gamma), seed
        self.policy, self.imitation = policy, imitation
        self.names = frozenset({policy, imitation})
        self.imitated = False
        self.warm: list[float] = []
        """Gradient norms of the warm-up's steps."""
        self.last = 0.0

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        if self.imitated and "grad_norm" in metrics:  # not there where no group was kept
            self.last = metrics["grad_norm"]
            if len(self.warm) < self.warmup:
                self.warm.append(self.last)
        self.imitated = step < self.warmup or unit(derive(self.seed, "imitate", step)) < self.odds
        return {self.policy: 1.0 - self.imitated, self.imitation: 1.0 * self.imitated}

    @property
    def odds(self) -> float:
        """Probability that the next step after the warm-up imitates."""
        return imitation_odds(self.last, sum(self.warm) / max(len(self.warm), 1), self.gamma)
