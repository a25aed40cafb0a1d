"""DAPO's soft penalty for long episodes."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..ops.shaping import overlong_penalty
from ..slots.protocols import Slot
from ..slots.records import Group, Rewards, Signals


class Overlong(Slot):
    """Adds ``ops.shaping.overlong_penalty`` of the signal ``length``; arguments are its own."""

    registered = "overlong"
    requires = frozenset({"length"})

    def __init__(self, longest: int = 20_480, buffer: int = 4_096, penalty: float = 1.0) -> None:
        overlong_penalty(torch.zeros(1), longest=longest, buffer=buffer)  # wrong values fail now
        self.longest, self.buffer, self.penalty = longest, buffer, penalty

    def apply(
        self, group: Group, signals: Signals, rewards: Rewards, coef: Mapping[str, float]
    ) -> Rewards:
        less = overlong_penalty(
            torch.from_numpy(signals["length"]),
            longest=self.longest,
            buffer=self.buffer,
            penalty=self.penalty,
        )
        return Rewards(rewards.outcome + less.double().numpy(), rewards.turns)
