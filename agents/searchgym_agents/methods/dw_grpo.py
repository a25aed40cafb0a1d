"""Weights of rewards that move to what improves least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from searchgym.rl import CoefficientSchedule, Floats


class SlopeWeights(CoefficientSchedule):
    """Weights ``w_<name>`` of the K signals in ``names``, larger where the reward rises less.

    w ∝ exp(-slope / ``temperature``), Σ w = K, with the slopes of ``rewards/<name>`` over the last
    ``window`` steps divided by their pooled deviation; moved by ``momentum`` w + (1 - ``momentum``)
    new (DW-GRPO of Deep GraphRAG, arXiv 2601.11144: weights that move to the objective improving
    least). The paper's rule was not read: this one, its numbers and the division, without which
    a temperature of 2 leaves all weights alike, are ours after a re-implementation.

    Args:
        start: First weights, by default all 1.
    """

    registered = "schedule:slope_weights"

    def __init__(
        self,
        names: Sequence[str] = ("f1", "evidence", "format"),
        window: int = 5,
        temperature: float = 2.0,
        momentum: float = 0.8,
        start: Sequence[float] | None = None,
    ) -> None:
        if window < 2 or not temperature > 0 or not 0 <= momentum < 1:
            raise ValueError("window is at least 2, temperature above 0, momentum in [0, 1)")
        self.tracked = tuple(names)
        self.names = frozenset(f"w_{name}" for name in names)
        self.watches = frozenset(f"rewards/{name}" for name in names)
        self.window, self.temperature, self.momentum = window, float(temperature), float(momentum)
        self.weights = np.array([1.0] * len(self.tracked) if start is None else start, float)
        if len(self.weights) != len(self.tracked):
            raise ValueError(f"start has a weight for each of {list(names)}, got {start}")
        self.history: list[list[float]] = []

    def coef(self, step: int, metrics: Mapping[str, float]) -> Mapping[str, float]:
        if any(f"rewards/{name}" in metrics for name in self.tracked):  # some sound episode
            row = [metrics.get(f"rewards/{name}", 0.0) for name in self.tracked]
            self.history = [*self.history, row][-self.window :]
        if len(self.history) > 1:
            values = np.array(self.history)
            slopes = np.polyfit(np.arange(len(values)), values, 1)[0]
            scale = float(np.sqrt(np.mean(np.var(values, axis=0))))
            new = slope_weights(slopes / scale if scale > 1e-12 else slopes, self.temperature)
            self.weights = self.momentum * self.weights + (1 - self.momentum) * new
        return {f"w_{n}": float(w) for n, w in zip(self.tracked, self.weights, strict=True)}

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights.tolist(), "history": self.history}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.weights = np.array(state["weights"], float)
        self.history = [list(map(float, row)) for row in state["history"]]


def slope_weights(slopes: Sequence[float] | Floats, temperature: float) -> Floats:
    """(K,) weights ∝ exp(-slope / temperature) whose sum is K."""
    scores = -np.asarray(slopes, float) / temperature
    powers = np.exp(scores - scores.max())
    return np.asarray(len(powers) * powers / powers.sum())
