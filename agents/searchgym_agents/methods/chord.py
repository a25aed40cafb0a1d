"""Two losses whose weights add up to 1: reinforcement learning and imitation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from searchgym.curricula.schedules import make_schedule
from searchgym.rl import CoefficientSchedule


class Mix(CoefficientSchedule):
    """``imitation`` gets μ and ``policy`` 1 - μ: L = (1 - μ) L_RL + μ L_SFT (CHORD, arXiv
    2508.11408).

    Args:
        mu: A number or a schedule with values in [0, 1].
        policy, imitation: Names of the losses.

    Raises:
        ValueError: at the step whose μ is not in [0, 1].
    """

    registered = "schedule:mix"

    def __init__(self, mu: Any = 0.1, policy: str = "policy", imitation: str = "sft") -> None:
        self.mu, self.policy, self.imitation = make_schedule(mu), policy, imitation
        self.names = frozenset({policy, imitation})

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        mu = float(self.mu(step))
        if not 0 <= mu <= 1:
            raise ValueError(f"mu must be in [0, 1], got {mu:g} at step {step}")
        return {self.policy: 1 - mu, self.imitation: mu}
