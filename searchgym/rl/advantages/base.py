"""Base of the advantage estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from ..slots.protocols import AdvantageEstimator, make

Coef = Mapping[str, float]
"""Coefficients of a step, by name."""


class Relative(AdvantageEstimator):
    """An estimator that compares the members of a group: equal rewards get exactly 0."""

    relative: ClassVar[bool] = True
    invariant: ClassVar[frozenset[str]] = frozenset()


class Over(AdvantageEstimator):
    """Estimator on top of another, ``base``, given as in a recipe."""

    relative: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()
    """Further inputs it reads."""

    def __init__(self, base: Any = "grpo") -> None:
        self.base: AdvantageEstimator = make("advantage", base)
        self.requires = frozenset(self.needs | self.base.requires)
        self.provides = frozenset(type(self).provides | self.base.provides)
        self.reads = type(self).reads | self.base.reads

    def state_dict(self) -> dict[str, Any]:
        return dict(self.base.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.base.load_state_dict(state)

    def tensors(self) -> Mapping[str, Tensor]:
        return self.base.tensors()

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        if tensors:
            self.base.load_tensors(tensors)


class DrawingOver(Over):
    """Estimator that draws at random, from ``seed`` and the number of the step."""

    def __init__(self, base: Any = "grpo", seed: int = 0) -> None:
        super().__init__(base)
        self.seed, self.steps = seed, 0

    def state_dict(self) -> dict[str, Any]:
        return {"base": self.base.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.base.load_state_dict(state["base"])
        self.steps = int(state["steps"])
