"""Rewards as named parts with weights; the total is always derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..arguments import is_number
from ..errors import CardError, unknown

OUTCOME_PARTS = ("em", "f1", "cover_em", "format")
"""Measured once, when the episode is answered. ``format``: share of turns that were valid."""
TURN_PARTS = ("evidence", "search", "access", "call", "invalid")
"""Measured each turn. ``evidence``: share of the task's gold passages seen for the first time;
``search``/``access``/``call``: queries run / pages opened / other tools used; ``invalid``: 1 for an
invalid action."""
PARTS = OUTCOME_PARTS + TURN_PARTS


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """``reward = Σ weight[part] · value[part]``. Default: exact match, as in Search-R1."""

    weights: Mapping[str, float] = field(default_factory=lambda: {"em": 1.0})

    def __post_init__(self) -> None:
        for name, weight in self.weights.items():
            if name not in PARTS:
                raise CardError(unknown("reward part", name, PARTS))
            if not is_number(weight):
                raise CardError(f"the weight of reward part {name!r} is a number, got {weight!r}")

    @classmethod
    def of(cls, spec: str | Mapping[str, float] | RewardSpec) -> RewardSpec:
        """From a part's name (``"f1"``), weights (``{"f1": 1, "search": -0.02}``) or a spec.

        Raises:
            CardError: an unknown part, a weight that is not a finite number, or neither of these.
        """
        if isinstance(spec, RewardSpec):
            return spec
        if isinstance(spec, str):
            return cls({spec: 1.0})
        if not isinstance(spec, Mapping):
            raise CardError(f"a reward is a part's name or a table of weights, got {spec!r}")
        return cls({str(k): float(v) if is_number(v) else v for k, v in spec.items()})

    def effective(self, params: Mapping[str, float]) -> dict[str, float]:
        """Weights after a curriculum's overrides: parameter ``w_evidence`` sets ``evidence``."""
        weights = dict(self.weights)
        for name in PARTS:
            if (key := f"w_{name}") in params:
                weights[name] = float(params[key])
        return weights
