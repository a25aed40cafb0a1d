"""DAPO's soft penalty for long episodes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..ops.tokens import require_rows
from ..slots.protocols import RunFacts, Slot
from ..slots.records import Group, Rewards, Signals

_EXACT = 2**53
"""Limit below which doubles count tokens exactly."""


def overlong_penalty(
    length: Tensor, *, longest: int = 20_480, buffer: int = 4_096, penalty: float = 1.0
) -> Tensor:
    """(B,) 0 up to ``longest - buffer``, then linear to ``-penalty`` at ``longest`` and beyond.

    Source: DAPO (arXiv 2503.14476), soft overlong punishment. ``length`` (B,) is in tokens.
    """
    require_rows(length=length)
    if not 0 < buffer <= longest < _EXACT:
        raise ValueError(
            f"expected 0 < buffer <= longest < 2**53, got buffer={buffer}, longest={longest}"
        )
    over = (length.to(torch.get_default_dtype()) - (longest - buffer)) / buffer
    return -penalty * over.clamp(0, 1)


class Overlong(Slot):
    """Adds :func:`overlong_penalty` of the signal ``length``; arguments are its own."""

    registered = "overlong"
    requires = frozenset({"length"})

    def __init__(self, longest: int = 20_480, buffer: int = 4_096, penalty: float = 1.0) -> None:
        overlong_penalty(torch.zeros(1), longest=longest, buffer=buffer)  # wrong values fail now
        self.longest, self.buffer, self.penalty = longest, buffer, penalty

    def idle(self, run: RunFacts) -> Mapping[str, str]:
        """The penalty, where no episode can be as long as its buffer."""
        start = self.longest - self.buffer
        if run.most_tokens is None or run.most_tokens > start:
            return {}
        reason = (
            f"an episode samples at most {run.most_tokens} tokens (turns x tokens a turn), the "
            f"penalty begins above {start}"
        )
        return {"longest": reason}

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
